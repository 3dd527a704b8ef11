"""vLLM, 0.3 to 0.33: V0 and V1 engines, the Python and the Rust front end."""
