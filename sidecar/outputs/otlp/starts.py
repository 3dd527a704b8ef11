"""When a cumulative series began: the time that OTLP sends beside each of its points."""

from __future__ import annotations

from collections.abc import Hashable

from sidecar.snapshot import Snapshot, is_absent


class Starts:
    """Times are Unix seconds. `began` is when this process did: counters of its own started at 0 then."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._epochs: dict[str, tuple[int, float]] = {}
        self._seen: dict[str, float] = {}
        self._points: dict[Hashable, tuple[float, float, float]] = {}  # start, last value, its time
        self._kept: dict[Hashable, tuple[float, float, float]] = {}

    def of_runtime(self, snapshot: Snapshot) -> float:
        """Start of what the runtime counts: its process' start where known, else the first sight of this
        run. It stays for as long as the runtime doesn't restart, and moves when it does.
        """
        epoch, start = self._epochs.get(snapshot.target, (-1, 0.0))
        if epoch != snapshot.epoch:
            told = snapshot.life.get("target_start_timestamp_seconds")
            # After a restart counters began between the last look and this one.
            before = self._seen.get(snapshot.target, snapshot.time)
            start = before if is_absent(told) else min(told, snapshot.time)
            self._epochs[snapshot.target] = (snapshot.epoch, start)
        self._seen[snapshot.target] = snapshot.time
        return start

    def of_own(self) -> float:
        """Start of what this process counts."""
        return self._began

    def of_other(self, key: Hashable, value: float, time: float) -> float:
        """Start of a counter whose beginning nobody tells (a GPU's): its first sight, then its last fall."""
        start, last, at = self._points.get(key, (time, value, time))
        if value < last:
            start = at
        self._kept[key] = (start, value, time)
        return start

    def sweep(self, targets: set[str]) -> None:
        """After a round: forget series and targets that are gone."""
        self._points, self._kept = self._kept, {}
        for kept in (self._epochs, self._seen):
            for target in [one for one in kept if one not in targets]:
                del kept[target]
