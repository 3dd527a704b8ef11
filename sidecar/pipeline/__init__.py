"""One target's line from answers to a snapshot: read, bind, evaluate, judge, publish. No I/O, no clock."""

from __future__ import annotations

from sidecar.pipeline.target import Settings, Stage, TargetPipeline

__all__ = ["Settings", "Stage", "TargetPipeline"]
