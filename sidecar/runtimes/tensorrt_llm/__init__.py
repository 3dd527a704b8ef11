"""TensorRT-LLM's own server (`trtllm-serve`), 1.1 to 1.4: its Prometheus page and its iteration statistics."""
