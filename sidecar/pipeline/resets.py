"""Has the runtime restarted? Told for the target as a whole, so that numerator and denominator can't tear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter, lt
from typing import Any

from sidecar.runtimes.binding import Binding
from sidecar.snapshot import Labels

#: A start time that moves by less is the jitter of a clock, not a restart.
START_TIME_JITTER = 2.0


class ResetDetector:
    """Compares the counts of consecutive good scrapes."""

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._pick: Callable[[Sequence[float]], Any] | None = None
        self._counts: tuple[float, ...] = ()
        self._start_time: float | None = None
        self.fell = False  # whether a count fell, the last time

    def restarted(self, binding: Binding, values: Sequence[float], start_time: float | None) -> bool:
        """Whether any count has fallen or the start time has moved since the last scrape."""
        before = self._counts
        if binding is not self._binding:
            before = self._moved(binding)
        counts = self._take(values)
        total = sum(counts)
        if total != total:  # what can't be used now is compared with when it can again
            counts = tuple(
                [was if now != now else now for now, was in zip(counts, before or counts, strict=True)]
            )
        self.fell = any(map(lt, counts, before))
        moved = (
            self._start_time is not None
            and start_time is not None
            and abs(start_time - self._start_time) > START_TIME_JITTER
        )
        self._counts = counts
        self._start_time = start_time if start_time is not None else self._start_time
        return self.fell or moved

    def begin(self, binding: Binding, values: Sequence[float]) -> None:
        """Compare with these counts from now on: a restart was settled."""
        if binding is not self._binding:
            self._moved(binding)
        self._counts = self._take(values)

    def _take(self, values: Sequence[float]) -> tuple[float, ...]:
        if self._pick is None:
            return ()
        picked = self._pick(values)
        return picked if isinstance(picked, tuple) else (picked,)

    def _moved(self, binding: Binding) -> tuple[float, ...]:
        """The old counts in the order of a new binding; NaN, which never compares, for new series."""
        old = {} if self._binding is None else dict(zip(_names(self._binding), self._counts, strict=True))
        self._binding = binding
        self._pick = itemgetter(*binding.falling) if binding.falling else None
        return tuple(old.get(name, float("nan")) for name in _names(binding))


def _names(binding: Binding) -> list[tuple[str, Labels]]:
    by_place: dict[int, tuple[str, Labels]] = {}
    for series in binding.layout.series:
        place = series.count_index if series.bounds else series.start
        by_place[place] = (series.signal.name, series.labels)
    return [by_place[place] for place in binding.falling]
