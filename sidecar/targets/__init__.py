"""Targets: when they are polled, with what credentials, and how a failure is classed."""
