"""What goes wrong in a run, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Fault:
    """From second `since` to `until`: sidecars that see nothing (`share` of those there are at its start),
    no metrics for whoever scales, or the oldest replica stuck until it is restarted."""

    kind: Literal["blind", "no_metrics", "hang"]
    since: float
    until: float
    share: float = 1.0
