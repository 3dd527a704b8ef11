"""Objectives: events, burn rates, error budgets, and the rules and alerts that follow from them."""

from __future__ import annotations

from sidecar.slo.check import Finding, Level, check, check_against_bounds
from sidecar.slo.engine import SloEngine
from sidecar.slo.objective import Objective, objectives_from_config
from sidecar.slo.store import StateStore
from sidecar.slo.windows import AlertWindow, Severity

__all__ = [
    "AlertWindow",
    "Finding",
    "Level",
    "Objective",
    "Severity",
    "SloEngine",
    "StateStore",
    "check",
    "check_against_bounds",
    "objectives_from_config",
]
