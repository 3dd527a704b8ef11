"""Cumulative event counts over time, fine for the last minutes and coarse for the last month.

All counts of a target share one time axis, so a window's base is looked up once for all its objectives.
Only pairs (total, bad) are kept, never histograms: about 40 kB an objective and model.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

#: (resolution in seconds, points kept): 5 min, 1 h, 6 h, 3 d and 31 d deep.
TIERS: tuple[tuple[float, int], ...] = ((1, 300), (10, 360), (60, 360), (900, 288), (3600, 744))


@dataclass(frozen=True, slots=True)
class Base:
    """Where a window begins: its point in a tier, and the share of the window that was seen (0 to 1)."""

    tier: int
    index: int
    time: float
    coverage: float


class Tier:
    """Points at least `step` apart, the newest `depth` of them (and at most a quarter more)."""

    __slots__ = ("columns", "depth", "seen", "slot", "step", "times")

    def __init__(self, step: float, depth: int) -> None:
        self.step = step
        self.depth = depth
        self.slot: float | None = None
        self.times = array("d")
        self.seen = array("d")
        self.columns: list[array[float]] = []

    def wants(self, time: float) -> bool:
        """The first point of each step is kept."""
        return time // self.step != self.slot

    def append(self, time: float, seen: float, values: Sequence[float]) -> None:
        self.slot = time // self.step
        self.times.append(time)
        self.seen.append(seen)
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        if len(self.times) > self.depth + self.depth // 4:
            extra = len(self.times) - self.depth
            for column in (self.times, self.seen, *self.columns):
                del column[:extra]

    def add_column(self) -> None:
        """A new column: 0 before now."""
        self.columns.append(array("d", bytes(8 * len(self.times))))


class Ring:
    """The tiers of one target. `time` is the monotonic clock, `seen` the seconds observed so far.

    What is between two points is seen when the counters tell what happened there: always within one life of
    the runtime, not across a restart.
    """

    __slots__ = ("gaps", "newest", "seen", "tiers")

    def __init__(self) -> None:
        self.tiers = [Tier(step, depth) for step, depth in TIERS]
        self.newest = float("nan")
        self.seen = 0.0
        self.gaps = (0.0, 0.0)

    @property
    def empty(self) -> bool:
        return self.newest != self.newest

    def add_column(self) -> None:
        for tier in self.tiers:
            tier.add_column()

    def keep_columns(self, kept: Sequence[int]) -> None:
        """Only these stay, in this order."""
        for tier in self.tiers:
            tier.columns = [tier.columns[number] for number in kept]

    def append(self, time: float, values: Sequence[float], *, unbroken: bool) -> None:
        """A new point; `unbroken` says that the counts since the last one are complete."""
        if not self.empty:
            gap = time - self.newest
            self.gaps = (self.gaps[1] or gap, gap)
            if unbroken:
                self.seen += gap
        self.newest = time
        for tier in self.tiers:
            if tier.wants(time):
                tier.append(time, self.seen, values)

    def shift(self, by: float) -> None:
        """Move all times: another clock."""
        self.newest += by
        for tier in self.tiers:
            tier.times = array("d", [time + by for time in tier.times])
            tier.slot = None

    def base(self, now: float, window: float) -> Base | None:
        """The point that a window's increase is measured from; None before the first point.

        The newest point at or before the window's start, from the finest tier that reaches so far back. One
        that is much older (a gap lies across the start) gives way to the first point inside of the window,
        as a range selector has it. The oldest point of all where nothing reaches.
        """
        if self.empty:
            return None
        start = now - window
        for number, tier in enumerate(self.tiers):
            times = tier.times
            if times[0] > start and number + 1 < len(self.tiers):
                continue
            index = max(bisect_right(times, start) - 1, 0)
            slack = max(0.1 * window, 1.5 * min(self.gaps))
            if start - times[index] > slack and index + 1 < len(times):
                index += 1
            span = max(window, now - times[index])
            coverage = min(1.0, (self.seen - tier.seen[index]) / span)
            return Base(number, index, times[index], coverage)
        return None
