"""From a model's table to its demand for replicas: the formulas in their order, each term of one window."""

from __future__ import annotations

from math import nan

from sidecar.signals import polls as at
from sidecar.signals.capacity import (
    LIMITS,
    NONE,
    UNBOUNDED,
    KvCapacity,
    ObservedCapacity,
    slo_capacity,
)
from sidecar.signals.gap_line import IdleGap, slope
from sidecar.signals.inputs import FINISHED, GAP_SECONDS, GAPS
from sidecar.signals.offered_load import offered_load
from sidecar.signals.polls import Polls
from sidecar.signals.replica_demand import (
    NO_CAPACITY,
    backlog,
    reason,
    replica_demand,
    stretch,
)
from sidecar.signals.service_time import ServiceTime
from sidecar.signals.settings import WINDOW, GapObjective, Settings

_ENOUGH_GAPS = 20
_LOWEST_LEVEL = 0.3


class Decision:
    """What is learnt of a replica (service time, idle gap, capacity) and what follows from it now. NaN where a
    value isn't known."""

    def __init__(self, settings: Settings, objective: GapObjective | None) -> None:
        self.settings, self.objective = settings, objective
        self.service_time = ServiceTime(settings.service_time)
        self.idle_gap = IdleGap(settings.idle_gap)
        self.kv = KvCapacity()
        self.observed = ObservedCapacity()
        self.limits = [nan] * len(LIMITS)
        self.idle = self.load = self.capacity = self.demand = nan
        self.why = (NONE, NO_CAPACITY)

    def seed(self, service_time: float | None, idle_gap: float | None) -> None:
        """Take other seeds; None leaves one as it is."""
        self.service_time.seed = service_time or self.service_time.seed
        self.idle_gap.seed = idle_gap or self.idle_gap.seed

    def restarted(self) -> None:
        """The runtime may have come back with other limits; its times are still the best guess."""
        self.kv, self.observed = KvCapacity(), ObservedCapacity()

    def update(self, polls: Polls) -> None:
        """Decide anew after a poll."""
        table, columns = polls.table, polls.table.columns
        now = table.times[-1]
        since = table.base(WINDOW)
        waiting = columns[at.WAITING][-1]
        if polls.continuous and polls.decodes(polls.grown[GAPS], polls.grown[FINISHED]):
            self.idle_gap.observe(now, polls.level, polls.grown[GAPS], polls.grown[GAP_SECONDS])
        self.kv.observe(now, columns[at.RUNNING][-1], columns[at.KV_USAGE][-1])
        self.observed.update(table, at.RUNNING, at.WAITING, at.SERVED, at.KV_USAGE)
        self.service_time.update(table, at.SERVED_SECONDS, at.SERVED)

        kv = self.kv.value
        most = min(polls.slots if polls.slots > 0 else UNBOUNDED, kv if kv is not None else UNBOUNDED)
        idle = self.idle_gap.value(most)
        gaps = table.increase(at.GAPS, since)
        tells = gaps >= _ENOUGH_GAPS and polls.decodes(gaps, table.increase(at.SERVED, since))
        level = table.increase(at.GAP_LEVEL, since) / gaps if tells else columns[at.RUNNING][-1]
        gap = table.increase(at.GAP_SECONDS, since) / gaps if tells else 0.0
        steepness = slope(gap, idle, level) if idle and gap > 0 and level > _LOWEST_LEVEL else None

        slo = nan
        if steepness is not None and self.objective is not None:
            slo = slo_capacity(
                level=level,
                idle=idle or 0.0,
                slope=steepness,
                gaps=gaps,
                bad_gaps=gaps - table.increase(at.GOOD_GAPS, since),
                most=most,
                threshold=self.objective.threshold,
                budget=self.objective.budget,
            )
        observed = self.observed.value(now)
        self.limits = [polls.slots, nan if kv is None else kv, slo, nan if observed is None else observed]
        limit, capacity = NONE, UNBOUNDED
        for name, value in zip(LIMITS, self.limits, strict=True):
            if value < capacity:
                limit, capacity = name, value

        longer = 1.0 if steepness is None else stretch(idle or 0.0, steepness, capacity, gap)
        self.load, queued = self._load(polls, since, waiting)
        self.idle = nan if idle is None else idle
        self.capacity = capacity if limit != NONE else nan
        self.why = (limit, reason(limit, self.load, queued, timed=self.service_time.value is not None))
        self.demand = replica_demand(self.load, queued, longer, capacity, self.settings.target_utilisation)
        if limit == NONE and steepness is None and self.load + queued > 0:
            self.demand, self.why = nan, (NONE, NO_CAPACITY)

    def _load(self, polls: Polls, since: int, waiting: float) -> tuple[float, float]:
        """Offered load and backlog. A young replica starts from nothing and is measured over a whole window,
        so that the sum over a fleet stays the fleet's."""
        table = polls.table
        service_time = self.service_time.value
        if service_time is None:
            return table.columns[at.RUNNING][-1], 0.0
        in_flight = table.columns[at.IN_FLIGHT]
        before = 0.0 if polls.young else in_flight[since]
        load = offered_load(
            table.increase(at.COMPUTE, since),
            in_flight[-1] - before,
            max(table.times[-1] - table.times[since], WINDOW),
            service_time,
        )
        if not waiting > 0:
            return load, 0.0
        return load, backlog(waiting, service_time, load, self.settings.drain_target)
