"""Capacity: how many requests one replica can run at once, by the limit that says so."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

from sidecar.history import Table
from sidecar.signals.formula import Formula, Way
from sidecar.signals.gap_line import median

SLOTS, KV_CACHE, SLO, OBSERVED = LIMITS = ("slots", "kv_cache", "slo", "observed")
NONE = "none"

#: What a limit is told by, beside the objective of `slo`.
LIMIT_NEEDS: dict[str, frozenset[str]] = {
    SLOTS: frozenset({"request_slots"}),
    KV_CACHE: frozenset({"kv_cache_usage_max_ratio", "compute_seconds_total"}),
    SLO: frozenset({"idle_inter_token_latency_seconds", "compute_seconds_total"}),
    OBSERVED: frozenset({"compute_seconds_total", "queue_seconds_total"}),
}

#: Stands for a limit that isn't known: more than any replica runs.
UNBOUNDED = 1e6

CAPACITY = Formula(
    "capacity_requests",
    (
        Way(("request_slots",), "request_slots and the other limits"),
        Way(("kv_cache_usage_max_ratio", "compute_seconds_total"), "running over KV cache usage"),
        Way(("idle_inter_token_latency_seconds", "compute_seconds_total"), "inter-token latency objective"),
        Way(("compute_seconds_total", "queue_seconds_total"), "what ran while a queue stood"),
    ),
)

_KV_TELLS = 0.2  # usage below which its quotient says little
_KV_POLLS, _KEPT = 300, 600.0
_MEAN_SHARE, _BUDGET_SHARE, _MOST_REPLICAS = 0.85, 0.5, 3.0
_ENOUGH_GAPS, _BAD_TELLS = 200, 0.002
_QUEUE_SPAN, _QUEUE_WHOLE, _QUEUE_SHARE, _QUEUE_DEEP = 30.0, 28.0, 0.8, 3.0
_KV_FULL, _PLATEAU_TURNS = 0.9, 5.0


class KvCapacity:
    """Requests that fit into the KV cache: the median of running ÷ usage over the polls of ten minutes (the
    last 300 of them) whose usage was 20 % or more."""

    __slots__ = ("_ordered", "_polls")

    def __init__(self) -> None:
        self._polls: deque[tuple[float, float]] = deque()
        self._ordered: list[float] = []

    def observe(self, mono: float, running: float, usage: float) -> None:
        if usage >= _KV_TELLS:
            self._polls.append((mono, running / usage))
            insort(self._ordered, running / usage)
            if len(self._polls) > _KV_POLLS:
                self._drop()
        while self._polls and self._polls[0][0] <= mono - _KEPT:
            self._drop()

    def _drop(self) -> None:
        del self._ordered[bisect_left(self._ordered, self._polls.popleft()[1])]

    @property
    def value(self) -> float | None:
        return max(median(self._ordered), 1.0) if self._ordered else None


class ObservedCapacity:
    """What ran on average while a queue stood for 30 s: the engine took no more. Ten minutes later that is
    forgotten, as it may have been throttled, or met longer requests.

    A plateau is kept: the same number at four polls of five, though requests came and went and the KV cache had
    room, is what the engine has slots for. It goes when more was seen to run.
    """

    __slots__ = ("plateau", "seen")

    def __init__(self) -> None:
        self.seen: tuple[float, float] | None = None  # requests, when
        self.plateau: float | None = None

    def update(self, table: Table, running: int, waiting: int, served: int, kv_usage: int) -> None:
        """After a poll; the numbers are the table's columns."""
        since = table.base(_QUEUE_SPAN)
        now = table.times[-1]
        if self.plateau is not None and table.columns[running][-1] > self.plateau:
            self.plateau = None
        queue = table.columns[waiting][since:]
        polls = len(queue)
        if now - table.times[since] < _QUEUE_WHOLE or not sum(queue) >= _QUEUE_DEEP * polls:
            return
        if sum([one >= 1 for one in queue]) < _QUEUE_SHARE * polls:
            return
        levels = table.columns[running][since:]
        self.seen = (max(sum(levels) / polls, 1.0), now)
        most = max(levels)
        full = max(table.columns[kv_usage][since:]) >= _KV_FULL
        turned_over = table.increase(served, since) >= _PLATEAU_TURNS
        if not full and turned_over and levels.count(most) >= _QUEUE_SHARE * polls:
            self.plateau = most

    def value(self, now: float) -> float | None:
        recent = self.seen[0] if self.seen is not None and now - self.seen[1] <= _KEPT else None
        return min((one for one in (recent, self.plateau) if one is not None), default=None)


def slo_capacity(
    *,
    level: float,
    idle: float,
    slope: float,
    gaps: float,
    bad_gaps: float,
    most: float,
    threshold: float,
    budget: float,
) -> float:
    """Requests at which the inter-token latency still keeps its objective.

    By its mean: (0.85 · threshold − a) ÷ b. By its tail, where enough gaps were over the threshold: the level
    times half of the budget over their share. Never below the level whose throughput is a third of that at
    `most`: an objective can at most triple the fleet.
    """
    capacity = (_MEAN_SHARE * threshold - idle) / slope
    bad = bad_gaps / gaps
    if gaps >= _ENOUGH_GAPS and bad > _BAD_TELLS:
        capacity = min(capacity, level * max(_BUDGET_SHARE * budget / bad, 0.5))
    third = most / (idle + slope * most) / _MOST_REPLICAS
    return max(capacity, third * idle / max(1 - third * slope, 1e-9), 1.0)
