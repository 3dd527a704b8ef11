"""Drain: is there any work that a removal of the replica would cut off?"""

from __future__ import annotations

from math import nan

from sidecar.signals.formula import Formula, Way
from sidecar.snapshot import Snapshot

SAFE_TO_REMOVE = Formula(
    "safe_to_remove",
    (Way(("requests_running", "requests_waiting"), "nothing runs and nothing waits"),),
)


def in_flight(snapshot: Snapshot) -> float:
    """Requests that run or wait on a target, of all models; NaN while that isn't known, which is not 0."""
    if not snapshot.up:
        return nan
    total = 0.0
    for signal in ("requests_running", "requests_waiting"):
        series = snapshot.data.layout.by_signal.get(signal, ())
        if not series:
            return nan
        total += sum([snapshot.data.values[one.start] for one in series])
    return total


class Drain:
    """Judges one target from a moment on: it is drained after `polls` readings in a row that were made since,
    each with nothing in flight. One would be too few: a router may still send for a moment."""

    def __init__(self, since: float, polls: int = 2) -> None:
        """`since` is Unix time."""
        self.in_flight = nan
        self._newest = since
        self._left = self._polls = polls

    @property
    def drained(self) -> bool:
        return self._left <= 0

    def feed(self, snapshot: Snapshot) -> bool:
        """Look at a snapshot; the same one twice counts once. Returns `drained`."""
        if snapshot.time > self._newest:
            self._newest = snapshot.time
            self.in_flight = in_flight(snapshot)
            self._left = self._left - 1 if self.in_flight == 0 else self._polls
        return self.drained
