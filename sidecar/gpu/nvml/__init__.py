"""NVML. `child`, `device`, `asker`, `gpm`, `events` run in the child process and import little on purpose."""
