"""Values over time: reset-aware increase, integral and peak of a window, for the signals that are asked for.

All times are of the monotonic clock. A counter's values are stored adjusted: they go on rising when the
runtime restarts, since the increase over a restart is the new value.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from math import nan

from sidecar.snapshot import Block, Layout, Series

#: What of a series is recorded: its value, or a histogram's sum or count.
VALUE, SUM, COUNT = "value", "sum", "count"

#: Points are cut off in lumps, so that a cut is paid once in many polls.
_SLACK = 64


class Track:
    """One number over time, as far back as `horizon` seconds."""

    __slots__ = ("_base", "_horizon", "_raw", "_torn", "times", "values")

    def __init__(self, horizon: float) -> None:
        self.times = array("d")
        self.values = array("d")
        self._horizon = horizon
        self._base = 0.0
        self._raw = nan
        self._torn = -1e300

    def append(self, mono: float, value: float) -> None:
        if self.times and mono <= self.times[-1]:
            return
        self.times.append(mono)
        self.values.append(value)
        old = bisect_right(self.times, mono - self._horizon) - 1  # one point stays as the base of a window
        if old > _SLACK:
            del self.times[:old]
            del self.values[:old]

    def count(self, mono: float, raw: float, *, restarted: bool) -> None:
        """Append a cumulative value. A sum that falls without a restart tears the windows that hold it."""
        if raw != raw:
            return
        if restarted:
            self._base += self._raw if self._raw == self._raw else 0.0
        elif raw < self._raw:
            self._base += self._raw - raw
            self._torn = mono
        self._raw = raw
        self.append(mono, self._base + raw)

    @property
    def last(self) -> float:
        return self.values[-1] if self.values else nan

    def start_of(self, window: float) -> int:
        """Index of the newest point at or before the window's start, else the oldest there is."""
        return max(bisect_right(self.times, self.times[-1] - window + 1e-6) - 1, 0)

    def span(self, window: float) -> float:
        """Seconds that the window really covers."""
        return self.times[-1] - self.times[self.start_of(window)] if self.times else 0.0

    def increase(self, window: float) -> float:
        """Increase of a cumulative value over the window; NaN without two points, or where it is torn."""
        if len(self.times) < 2:
            return nan
        start = self.start_of(window)
        if self._torn > self.times[start] or start == len(self.times) - 1:
            return nan
        return self.values[-1] - self.values[start]

    def integral(self, window: float) -> float:
        """∫ value dt over the window by trapezoids; NaN without two points."""
        if len(self.times) < 2:
            return nan
        times, values = self.times, self.values
        return sum(
            (times[i + 1] - times[i]) * (values[i + 1] + values[i]) / 2
            for i in range(self.start_of(window), len(times) - 1)
        )

    def peak(self, window: float) -> float:
        """The highest value of the polls in the window; NaN without any."""
        if not self.times:
            return nan
        first = bisect_right(self.times, self.times[-1] - window)
        return max(self.values[first:], default=nan)


class History:
    """Tracks of one target for the named signals, one for each series of them."""

    def __init__(self, gauges: Sequence[str], counters: Sequence[tuple[str, str]], horizon: float) -> None:
        """`counters` are pairs of a signal and VALUE, SUM or COUNT."""
        self._gauges = tuple(gauges)
        self._counters = tuple(counters)
        self._horizon = horizon
        self._tracks: dict[tuple[str, str, tuple[tuple[str, str], ...]], Track] = {}
        self._layout: Layout | None = None
        self._levels: list[tuple[int, Track]] = []
        self._counts: list[tuple[int, Track]] = []
        self._epoch = 0

    def append(self, block: Block, mono: float, epoch: int) -> None:
        """Record a fresh block. An epoch other than the last one means that the runtime has restarted."""
        if block.layout is not self._layout:
            self._compile(block.layout)
        restarted = epoch != self._epoch
        self._epoch = epoch
        values = block.values
        for index, track in self._levels:
            if values[index] == values[index]:
                track.append(mono, values[index])
        for index, track in self._counts:
            track.count(mono, values[index], restarted=restarted)

    def tracks(self, signal: str, part: str = VALUE) -> list[tuple[Series, Track]]:
        """Tracks of a signal on the present layout, one for each series."""
        if self._layout is None:
            return []
        found = []
        for series in self._layout.by_signal.get(signal, ()):
            track = self._tracks.get((signal, part, series.labels))
            if track is not None:
                found.append((series, track))
        return found

    def _compile(self, layout: Layout) -> None:
        self._layout = layout
        kept: dict[tuple[str, str, tuple[tuple[str, str], ...]], Track] = {}

        def track(series: Series, part: str) -> Track:
            key = (series.signal.name, part, series.labels)
            kept[key] = self._tracks.get(key) or Track(self._horizon)
            return kept[key]

        self._levels = [
            (series.start, track(series, VALUE))
            for name in self._gauges
            for series in layout.by_signal.get(name, ())
        ]
        self._counts = [
            (
                {VALUE: series.start, SUM: series.sum_index, COUNT: series.count_index}[part],
                track(series, part),
            )
            for name, part in self._counters
            for series in layout.by_signal.get(name, ())
        ]
        self._tracks = kept
