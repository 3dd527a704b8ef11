"""Does the runtime get on with its work? Its health endpoint doesn't tell: progress counters do."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from sidecar.runtimes.binding import Binding
from sidecar.snapshot import Block

IN_FLIGHT = ("requests_running", "requests_waiting")


class Progress:
    """Time since any progress counter moved, while work is in flight."""

    def __init__(self, wedged_after: float) -> None:
        self._wedged_after = wedged_after
        self._counts: tuple[float, ...] = ()
        self._moved_at = nan
        self.age = nan  # NaN when idle or not known
        self.wedged = nan  # 0 or 1; NaN when the runtime shows no progress counter

    def feed(self, binding: Binding, raw: Sequence[float], data: Block, mono: float) -> None:
        if not binding.progress:
            self.forget()
            return
        counts = tuple([raw[slot] for slot in binding.progress])
        in_flight = any(
            data.values[series.start] > 0
            for signal in IN_FLIGHT
            for series in data.layout.by_signal.get(signal, ())
        )
        if counts != self._counts or not in_flight or self._moved_at != self._moved_at:
            self._counts, self._moved_at = counts, mono
        self.age = mono - self._moved_at if in_flight else nan
        self.wedged = float(in_flight and self.age > self._wedged_after)

    def forget(self) -> None:
        self._counts, self._moved_at = (), nan
        self.age = self.wedged = nan
