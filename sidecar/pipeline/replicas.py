"""Does one address answer from several replicas in turn? A Service in front of two pods does.

Each swap looks like a restart, and to count it as one would count a whole replica's past again, time after time.
What tells them apart: a process that restarted begins at 0 and climbs. A replica that answers again goes on from
the counts at which it was left, however low the other's were.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import nan
from operator import gt

from sidecar.runtimes.binding import Binding, pick
from sidecar.schema import Kind, Status
from sidecar.snapshot import Provenance

REASON = "the address answers from several replicas in turn"
MEND = "give each its own target: a headless service, or the addresses of the pods"

#: Falls in a row, each to where an earlier process was left, before replicas are taken for the cause. Where start
#: times are told one return to an earlier process is enough: no restart goes back in time.
RETURNS = 3
#: Seconds that a process which no longer answers is remembered.
MEMORY = 3600.0
#: Seconds without a swap after which the replica that answers is taken for the only one: a rollout is over.
SETTLED = 300.0
#: Replicas that are told apart.
MOST = 16
#: What goes on from an earlier process has its counts and at most this share more; fewer counts prove nothing.
GROWN, ENOUGH = 0.1, 100.0
#: Start times of one process differ by less (seconds).
JITTER = 2.0

#: vLLM can observe negative times in its queue: this sum may fall within one process.
_MAY_FALL = frozenset({"request_queue_time_seconds"})


Names = tuple[Hashable, ...]
Take = Callable[[Sequence[float]], tuple[float, ...]]


class _Order:
    """Numbers that only grow within a process: by name, and how to take them from those of `source`."""

    __slots__ = ("names", "places", "source", "take")

    def __init__(self, source: Binding | Names) -> None:
        self.source = source
        places = _counts_of(source) if isinstance(source, Binding) else dict(enumerate(source))
        self.names: Names = tuple(places.values())
        self.places = tuple(places)
        self.take: Take = pick(self.places)


def _counts_of(binding: Binding) -> dict[int, Hashable]:
    """The outputs of a binding that only grow, and their names."""
    falling = frozenset(binding.falling)
    places: dict[int, Hashable] = {}
    for one in binding.layout.series:
        histogram = one.signal.kind is Kind.HISTOGRAM
        count = one.count_index if histogram else one.start
        if count in falling:
            places[count] = (one.signal.name, one.labels)
            if histogram and one.signal.name not in _MAY_FALL:
                places[one.sum_index] = (one.signal.name, one.labels, "sum")
    return places


class _Process:
    """One that answered: its start time where known, and the last counts that it showed."""

    __slots__ = ("_counts", "_higher", "_known", "_order", "at", "fell", "start")

    def __init__(self, order: _Order, values: Sequence[float], start: float | None, at: float) -> None:
        self.start = start
        self.at = at
        self.fell = False  # whether counts fell when another took over
        self._higher = 0
        self._order = order
        self._counts: tuple[float, ...] = order.take(values)
        self._known = dict(zip(order.names, self._counts, strict=True))

    def counts(self, order: _Order) -> tuple[float, ...]:
        """The counts in this order; NaN, which never compares, where there is none."""
        if order is not self._order:
            self._order = order
            self._counts = tuple([self._known.get(name, nan) for name in order.names])
        return self._counts

    def exceeds(self, order: _Order, values: Sequence[float]) -> bool:
        """Whether it had counted more of anything than these values say. One count tells, for long the same."""
        counts = self._counts if order is self._order else self.counts(order)
        if self._higher < len(counts) and counts[self._higher] > values[order.places[self._higher]]:
            return True
        found = (
            number
            for number, (count, place) in enumerate(zip(counts, order.places, strict=True))
            if count > values[place]
        )
        self._higher = next(found, len(counts))
        return self._higher < len(counts)


class Replicas:
    """Watches who answers. `alternate` says that several do; `settled`, since this look, that one does again."""

    def __init__(self) -> None:
        self.alternate = False
        self.settled = False
        self._order: _Order | None = None
        self._values: Sequence[float] = ()
        self._start: float | None = None
        self._left: list[_Process] = []
        self._above: list[_Process] = []  # of these: who had counted more of anything than who answers now
        self._returns = 0
        self._proven = False
        self._swapped = nan

    def look(
        self,
        source: Binding | Names,
        values: Sequence[float],
        *,
        fell: bool,
        start: float | None,
        mono: float,
    ) -> None:
        """A good scrape: a binding and its values, or names of counts and the counts. `fell` says that a count
        has fallen since the last one."""
        self.settled = False
        known = self._order
        order = known if known is not None and known.source is source else _Order(source)
        if known is not None and (fell or _differ(self._start, start) or self._overtaken(order, values)):
            last = _Process(known, self._values, self._start, mono)
            self._compare(last, _Process(order, values, start, mono), order, values, fell=fell)
        if self.alternate and mono - self._swapped > SETTLED:
            self.alternate, self.settled = False, True
        self._order, self._values = order, values
        self._start = start if start is not None else self._start

    def _overtaken(self, order: _Order, values: Sequence[float]) -> bool:
        return bool(self._above) and any(not one.exceeds(order, values) for one in self._above)

    def refused(self) -> None:
        """Nobody listens there: a process has ended, and what answers next has just begun."""
        self._returns = 0

    def _compare(
        self, last: _Process, now: _Process, order: _Order, values: Sequence[float], *, fell: bool
    ) -> None:
        moved = _differ(last.start, now.start)
        candidates = self._left if fell or moved else self._above
        candidates = [one for one in candidates if now.at - one.at <= MEMORY]
        back = next((one for one in reversed(candidates) if _is_back(one, now, last, order, fell)), None)
        if back is None and not fell and not moved:
            self._above = [one for one in candidates if one.exceeds(order, values)]
            return
        self._left = [one for one in self._left if one is not back and now.at - one.at <= MEMORY]
        if back is None:
            self._returns, self._proven = 0, self._proven and bool(self._left)
        else:
            through_time = moved and (fell or back.fell)
            self._returns += RETURNS if through_time else int(fell or moved)  # a clock may have been set back
            self._proven = self._proven or self._returns >= RETURNS
        last.fell = fell
        self._left = [*self._left[1 - MOST :], last]
        self._above = [one for one in self._left if one.exceeds(order, values)]
        if self._proven:
            self.alternate, self._swapped = True, now.at


def _is_back(left: _Process, now: _Process, last: _Process, order: _Order, fell: bool) -> bool:
    """Whether who answers now is who was left, and neither the last one nor a new one."""
    counts, new = left.counts(order), now.counts(order)
    if _differ(left.start, now.start) or _exceeds(counts, new):
        return False
    if _differ(last.start, now.start):
        return left.start is not None
    if not fell and not _exceeds(counts, last.counts(order)):
        return False
    pairs = [(count, count_now) for count, count_now in zip(counts, new, strict=True) if count <= count_now]
    before = sum([count for count, _ in pairs])
    return before >= ENOUGH and sum([count_now for _, count_now in pairs]) <= (1 + GROWN) * before


def _exceeds(counts: Sequence[float], others: Sequence[float]) -> bool:
    """Whether any is higher than the other one."""
    return any(map(gt, counts, others))


def _differ(one: float | None, other: float | None) -> bool:
    return one != other and one is not None and other is not None and abs(one - other) > JITTER


def withheld(provenance: tuple[Provenance, ...]) -> tuple[Provenance, ...]:
    """What is said of the signals while replicas answer in turn: nothing that the page has can be used."""
    there = (Status.OK, Status.INVALID, Status.DROPPED)
    return tuple(
        Provenance(one.signal, Status.CONFLICT, one.method, one.source, one.scope, f"{REASON}: {MEND}")
        if one.status in there
        else one
        for one in provenance
    )
