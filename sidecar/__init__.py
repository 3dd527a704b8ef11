"""Inference observability sidecar: one telemetry schema for every inference runtime."""

__version__ = "0.1.0"
