"""Ways out: each output reads only the last publication, and none waits for a runtime."""
