"""Rows of numbers over time: what windows are read from."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

#: Old rows are cut off in lumps, so that a cut is paid once in many polls.
_SLACK = 64


class Table:
    """Rows of `width` numbers on one time axis (seconds of the monotonic clock), as far back as `horizon`.

    One axis for all columns: every term of a formula then has the very same window.
    """

    __slots__ = ("_horizon", "columns", "times")

    def __init__(self, width: int, horizon: float) -> None:
        self.times = array("d")
        self.columns = tuple(array("d") for _ in range(width))
        self._horizon = horizon

    def __len__(self) -> int:
        return len(self.times)

    def append(self, mono: float, row: Sequence[float]) -> None:
        self.times.append(mono)
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)
        old = bisect_right(self.times, mono - self._horizon) - 1  # one row stays as the base of a window
        if old > _SLACK:
            del self.times[:old]
            for column in self.columns:
                del column[:old]

    def clear(self) -> None:
        del self.times[:]
        for column in self.columns:
            del column[:]

    def base(self, window: float) -> int:
        """The newest row at or before the window's start, else the oldest there is."""
        return max(bisect_right(self.times, self.times[-1] - window + 1e-6) - 1, 0)

    def inside(self, window: float) -> int:
        """The first row after the window's start."""
        return bisect_right(self.times, self.times[-1] - window)

    def increase(self, column: int, since: int) -> float:
        """What a cumulative column has grown by since a row."""
        values = self.columns[column]
        return values[-1] - values[since]
