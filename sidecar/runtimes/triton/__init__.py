"""NVIDIA Triton Inference Server 23.04 to 26.x, and the engines that show through it."""
