"""Signals of GPUs. The join with a target is `gpu_allocation_info`."""

from __future__ import annotations

from sidecar.schema.model import Signal

GPU: tuple[Signal, ...] = ()
