"""Derived signals: one file each, with explicit inputs, and no value where an input is missing."""

from __future__ import annotations

from sidecar.signals.peaks import Peaks

__all__ = ["Peaks"]
