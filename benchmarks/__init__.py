"""What the sidecar costs, beside what others cost, as ratios in one run. Nothing here asserts a time."""
