"""Derived signals: one file each, with explicit inputs, and no value where an input is missing.

`formula` and `catalogue` say what each is made of; `table`, `inputs` and `polls` hold a model's past; the files
named after signals hold the formulas; `decision` and `model` put them together, `stage` makes a target's block.
"""

from __future__ import annotations

from sidecar.signals.catalogue import FORMULAS
from sidecar.signals.drain import Drain
from sidecar.signals.settings import GapObjective, GpuFigures, Settings
from sidecar.signals.stage import Signals

__all__ = ["FORMULAS", "Drain", "GapObjective", "GpuFigures", "Settings", "Signals"]
