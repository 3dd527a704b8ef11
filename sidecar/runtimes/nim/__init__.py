"""NVIDIA NIM: 1.x with a page of its own, 2.x that passes its engine's page through, and those with Triton."""
