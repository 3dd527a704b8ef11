"""A model's polls as a table: gauges as they are, counters, and the integrals that are made of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan

from sidecar.history import Table
from sidecar.signals import inputs as at
from sidecar.signals.arrivals import Arrivals
from sidecar.signals.formula import Way
from sidecar.signals.gap_line import DECODES, FROM_TOKENS
from sidecar.signals.inputs import COUNTERS, Inputs
from sidecar.signals.settings import HORIZON, WINDOW
from sidecar.signals.work import mean_level, trapezoid

# Columns of the table.
(
    RUNNING,
    WAITING,
    IN_FLIGHT,  # as far as gauges tell it
    KV_USAGE,
    QUEUE,
    COMPUTE,
    SERVED_SECONDS,
    SERVED,
    GAP_SECONDS,
    GAPS,
    GOOD_GAPS,
    GAP_LEVEL,  # ∫ running over gaps: its increase over that of GAPS is the level that gaps were made at
) = range(12)

_FROM_ZERO = [0.0] * (at.GOOD_GAPS + 1)


class Polls:
    """The last ten minutes of a model, and its counters since the sidecar started.

    A restart of the runtime begins a new table: what ran before is gone. So does a time without polls that is
    longer than a window, and what is read from other buckets than before; but then the replica is an old one,
    and is taken to have been for a window at the level at which it is met.
    """

    def __init__(self, *, known: bool = False) -> None:
        """`known`: the replica was seen before by an earlier process of the sidecar."""
        self.table = Table(GAP_LEVEL + 1, HORIZON)
        self.arrivals = Arrivals()
        self.complete = False  # whether the last poll told everything that is needed
        self.restarted = False  # whether it was the first of another process
        self.continuous = False  # whether it followed on another of the same
        self.level = 0.0  # mean running between the last two polls
        self.grown = list(_FROM_ZERO)  # what each counter grew by in the last poll
        self.gaps_estimated = False  # from what runs and the tokens that come out of it
        self.slots = nan
        self._queue = self._compute = self._gap_level = 0.0
        self._known = known
        self._inputs: Inputs | None = None
        self._last: list[float] = []
        self._before = 0.0  # in flight
        self._mono = nan
        self._epoch = 0

    def bind(self, inputs: Inputs, ways: Mapping[str, Way]) -> None:
        """Read from these inputs from now on."""
        queue, compute = ways.get("queue_seconds_total"), ways.get("compute_seconds_total")
        before = self._inputs
        self._inputs = inputs
        self._served_by_level = at.SERVED in inputs.absent
        self.gaps_estimated = ways.get("idle_inter_token_latency_seconds") is FROM_TOKENS
        self._queue_integrated = queue is not None and "requests_waiting" in queue.needs
        self._compute_integrated = compute is not None and "requests_running" in compute.needs
        self._gauges = tuple(
            place
            for place, signal in ((at.RUNNING, "requests_running"), (at.WAITING, "requests_waiting"))
            if signal in inputs.signals
        )
        if before is not None and before.good != inputs.good:
            self.table.clear()

    def rebase(self) -> None:
        """The next poll is a base: it goes on from none before, and its process didn't begin just now."""
        self._last = []
        self.table.clear()

    @property
    def young(self) -> bool:
        """Whether the table doesn't reach back a whole window."""
        times = self.table.times
        return not times or times[-1] - times[0] < WINDOW - 1

    def decodes(self, gaps: float, finished: float) -> bool:
        """Whether gaps are gaps: an estimated one of a replica that only prefills is its prefill."""
        return not self.gaps_estimated or gaps >= DECODES * finished

    def feed(self, values: Sequence[float], mono: float, *, epoch: int, age: float) -> bool:
        """Take one poll. `epoch` and `age` are of the runtime's process, the age NaN when not known. Returns
        `complete`."""
        assert self._inputs is not None
        poll = self._inputs.read(values)
        self.complete = not any(poll[place] != poll[place] for place in self._gauges)
        if not self.complete:
            return False
        last, seconds = self._last, mono - self._mono
        self.restarted = restarted = bool(last) and epoch != self._epoch
        before = _FROM_ZERO if restarted else last or poll
        self._grow(poll, before)
        self.continuous = bool(last) and not restarted and 0 <= seconds <= WINDOW
        if not self.continuous:
            self.table.clear()
        running, waiting = self._levels(poll, last, seconds)
        in_flight = sum([poll[place] for place in self._gauges])
        self._arrive(in_flight, restarted)
        self.slots = poll[at.SLOTS]
        old = age > WINDOW if age == age else self._known and not restarted
        if old and not self.table.times:
            self._assume_level(mono - WINDOW, running, waiting, in_flight, poll)
        self.table.append(mono, self._row(running, waiting, in_flight, poll))
        self._last, self._mono, self._epoch, self._before = poll, mono, epoch, in_flight
        self._known = True
        return True

    def _grow(self, poll: list[float], before: Sequence[float]) -> None:
        """What each counter grew by; one that isn't told holds its last value."""
        grown = self.grown
        for place in COUNTERS:
            now = poll[place]
            if now == now:
                by = now - before[place]
                grown[place] = by if by > 0 else 0.0
            else:
                poll[place], grown[place] = before[place], 0.0

    def _levels(self, poll: list[float], last: list[float], seconds: float) -> tuple[float, float]:
        """Running and waiting; the counters of both go on."""
        assert self._inputs is not None
        running, waiting, continuous = poll[at.RUNNING], poll[at.WAITING], self.continuous
        if self._compute_integrated:
            self.level = 0.5 * (running + _known(last[at.RUNNING], running)) if continuous else running
            self._compute += self.level * seconds if continuous else 0.0
        else:
            self._compute += self.grown[at.EXECUTED]
            running = self.level = mean_level(self.grown[at.EXECUTED], seconds)
        if self._queue_integrated:
            self._queue += (
                trapezoid(_known(last[at.WAITING], waiting), waiting, seconds) if continuous else 0.0
            )
        else:
            self._queue += self.grown[at.QUEUED]
            if at.WAITING not in self._gauges and at.QUEUED not in self._inputs.absent:
                waiting = mean_level(self.grown[at.QUEUED], seconds)
        if self.gaps_estimated and continuous:
            self.grown[at.GAPS] = self.grown[at.TOKENS]
            self.grown[at.GAP_SECONDS] = self.level * seconds
        if continuous:
            self._gap_level += self.level * self.grown[at.GAPS]
        return running, waiting

    def _arrive(self, in_flight: float, restarted: bool) -> None:
        if self._last:
            self.arrivals.add(self.grown[at.FINISHED], in_flight - (0.0 if restarted else self._before))

    def _row(self, running: float, waiting: float, in_flight: float, poll: list[float]) -> list[float]:
        served, estimated = self._served_by_level, self.gaps_estimated
        return [
            running,
            waiting,
            in_flight,
            poll[at.KV_USAGE],
            self._queue,
            self._compute,
            self._compute if served else poll[at.SERVED_SECONDS],
            poll[at.FINISHED] if served else poll[at.SERVED],
            self._compute if estimated else poll[at.GAP_SECONDS],
            poll[at.TOKENS if estimated else at.GAPS],
            poll[at.TOKENS if estimated else at.GOOD_GAPS],  # nothing tells which were bad
            self._gap_level,
        ]

    def _assume_level(
        self, mono: float, running: float, waiting: float, in_flight: float, poll: list[float]
    ) -> None:
        """A row that nobody saw: its gauges' place stays empty, so that it counts as no observation."""
        row = self._row(nan, nan, in_flight, poll)
        row[KV_USAGE] = nan
        row[QUEUE] -= waiting * WINDOW
        row[COMPUTE] -= running * WINDOW
        self.table.append(mono, row)


def _known(before: float, now: float) -> float:
    """A gauge's last value, the present one where the last poll didn't have the gauge."""
    return before if before == before else now
