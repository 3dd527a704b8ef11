"""Push over OTLP (extra `otlp`). Nothing of the SDK is imported until an output is started."""

from __future__ import annotations

from sidecar.outputs.otlp.push import OtlpOutput, OtlpUnavailable

__all__ = ["OtlpOutput", "OtlpUnavailable"]
