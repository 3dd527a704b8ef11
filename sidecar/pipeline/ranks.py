"""A data-parallel rank that vanishes from a page takes its gauges along, and nothing that was counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from sidecar.exposition import Reading, Sample, Shape

COUNTED = frozenset({"counter", "histogram"})
Rank = tuple[str, ...]


class Ranks:
    """Holds the last counts of ranks that a page no longer shows, as long as it shows others of the same kind.

    Without that the sum over ranks would fall, which is what a restart looks like: the rest of the target's
    life would count again. A rank that returns goes on from what it had; one that returns with less has begun
    anew, and what it counted before stays.
    """

    def __init__(self) -> None:
        self._shape: Shape | None = None
        self._values: Sequence[float] = ()
        self._held: dict[Sample, float] = {}
        self._whole: Shape | None = None
        self._frozen: list[float] = []

    def forget(self) -> None:
        """The target has restarted as a whole."""
        self._held, self._whole, self._frozen = {}, None, []

    def keep(self, reading: Reading, rank_labels: Sequence[str]) -> Reading:
        """The reading with what vanished ranks had counted."""
        if not rank_labels:
            return reading
        if reading.shape is not self._shape:
            self._compare(reading, rank_labels)
        self._shape, self._values = reading.shape, reading.values
        if self._whole is None:
            return reading
        return Reading(self._whole, [*reading.values, *self._frozen])

    def _compare(self, reading: Reading, rank_labels: Sequence[str]) -> None:
        """The series have changed: whose counts are gone, and whose are back?"""
        now = dict(zip(reading.shape.samples, reading.values, strict=True))
        kinds = {_kind(sample, rank_labels) for sample in now if sample.type in COUNTED}
        self._settle(now, rank_labels)
        for sample, value in zip(self._shape.samples if self._shape else (), self._values, strict=True):
            counted = sample.type in COUNTED and 0 <= value < inf
            if counted and sample not in now and _kind(sample, rank_labels) in kinds:
                self._held[sample] = self._held.get(sample, 0.0) + value
        shown = {sample: value for sample, value in self._held.items() if _kind(sample, rank_labels) in kinds}
        self._frozen = list(shown.values())
        self._whole = None
        if shown:
            former = [replace(one, labels=(*one.labels, ("former", "1"))) for one in shown]
            samples = (*reading.shape.samples, *former)
            self._whole = Shape(samples, reading.shape.families, reading.shape.bad_lines)

    def _settle(self, now: dict[Sample, float], rank_labels: Sequence[str]) -> None:
        """Let go of what ranks that are back count on themselves."""
        back = {_rank(sample, rank_labels) for sample in self._held if sample in now}
        anew = {
            _rank(sample, rank_labels)
            for sample, value in self._held.items()
            if sample in now and now[sample] < value
        }
        self._held = {
            sample: value
            for sample, value in self._held.items()
            if _rank(sample, rank_labels) not in back - anew
        }


def _rank(sample: Sample, rank_labels: Sequence[str]) -> Rank:
    return tuple(sample.label(label) for label in rank_labels)


def _kind(sample: Sample, rank_labels: Sequence[str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What a sample counts, whichever rank it is of."""
    return sample.name, tuple(pair for pair in sample.labels if pair[0] not in rank_labels)
