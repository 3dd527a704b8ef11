"""A model that is loaded anew counts from 0; here its counts go on from where they were.

A server restart resets every model at once and is left as it is: the line sees the counts fall. A model that
is unloaded takes its success counters and durations along, its failures stay (from 24.07 on), and the other
models go on: that is no restart of the target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from operator import add, itemgetter, lt
from typing import Any

from sidecar.exposition import Reading, Sample, Shape
from sidecar.runtimes.adapter import Counts

#: Series that are remembered after they vanished.
MAX_REMEMBERED = 50_000

_COUNTING = frozenset({"counter", "histogram", "summary"})
_FAILURES = "nv_inference_request_failure"

Identity = tuple[str, tuple[tuple[str, str], ...]]
Group = tuple[str, str, str]


class Reloads:
    """Carries counts over the reload of a model, raw slot by raw slot."""

    def __init__(self) -> None:
        self.counts: Counts | None = None  # as they stand on the last page
        self._names: tuple[Identity, ...] = ()
        self._shape: Shape | None = None
        self._slots: tuple[int, ...] = ()
        self._pick: Callable[[Sequence[float]], Any] = lambda values: ()
        self._identities: list[Identity] = []
        self._groups: list[Group] = []
        self._stayed: list[bool] = []  # on the last page too: the others were unloaded in between
        self._last: tuple[float, ...] = ()
        self._offsets: list[float] = []
        self._carried = False
        self._remembered: dict[Identity, tuple[float, float]] = {}

    def forget(self) -> None:
        self.__init__()  # type: ignore[misc]

    def carry(self, reading: Reading) -> Reading:
        """The reading with the counts of reloaded models continued."""
        if reading.shape is not self._shape:
            self._compile(reading.shape)
        if not self._slots:
            self.counts = None
            return reading
        counts = told = self._take(reading.values)
        if not (
            sum(told) < inf and min(told) >= 0
        ):  # a number that can't be is no fall, and nothing to add to
            counts = tuple(
                [now if 0 <= now < inf else was for now, was in zip(told, self._last, strict=True)]
            )
        fell = any(map(lt, counts, self._last))
        self.counts = Counts(self._names, counts, fell)
        if fell:
            self._fell(counts)
        self._last = counts
        if not all(self._stayed):
            self._stayed = [True] * len(counts)
        if not self._carried:
            return reading
        values = list(reading.values)
        for slot, value in zip(self._slots, map(add, told, self._offsets), strict=True):
            values[slot] = value
        return Reading(reading.shape, values, reading.below_zero)

    def _take(self, values: Sequence[float]) -> tuple[float, ...]:
        picked = self._pick(values)
        return picked if isinstance(picked, tuple) else (picked,)

    def _compile(self, shape: Shape) -> None:
        before = frozenset(self._identities)
        for identity, last, offset in zip(self._identities, self._last, self._offsets, strict=False):
            self._remembered[identity] = (last, offset)
        if len(self._remembered) > MAX_REMEMBERED:
            self._remembered.clear()
        found = [
            (slot, sample)
            for slot, sample in enumerate(shape.samples)
            if sample.type in _COUNTING and sample.label("model")
        ]
        self._shape = shape
        self._slots = tuple(slot for slot, _ in found)
        self._pick = itemgetter(*self._slots) if self._slots else lambda values: ()
        self._identities = [(sample.name, sample.labels) for _, sample in found]
        self._names = tuple(self._identities)
        self._groups = [_group(sample) for _, sample in found]
        self._stayed = [identity in before for identity in self._identities]
        nothing = (float("-inf"), 0.0)
        known = [self._remembered.get(identity, nothing) for identity in self._identities]
        self._last = tuple(last for last, _ in known)
        self._offsets = [offset for _, offset in known]
        self._carried = any(self._offsets)

    def _fell(self, counts: Sequence[float]) -> None:
        rows = list(zip(self._groups, counts, self._last, self._stayed, strict=True))
        fallen = {group for group, now, was, _ in rows if now < was}
        stayed = {group for group, now, was, here in rows if here and now < was}
        counting = {group[:2] for group, _, was, here in rows if here and was > 0}
        if stayed and counting <= {group[:2] for group in stayed}:
            self._offsets = [0.0] * len(counts)
            self._remembered.clear()
        else:
            for place, (group, _, was, _) in enumerate(rows):
                if group in fallen and was > 0:
                    self._offsets[place] += was
        self._carried = any(self._offsets)


def _group(sample: Sample) -> Group:
    """What is reset together: all that the server itself keeps of a model, its failures and custom metrics
    apart."""
    own = sample.name.startswith("nv_inference_") or sample.name.startswith("nv_cache_")
    part = "" if own and sample.name != _FAILURES else sample.family
    return sample.label("model"), sample.label("version"), part
