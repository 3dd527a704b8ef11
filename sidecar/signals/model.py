"""All derived signals of one model of a target: bound per layout, computed on each poll."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

from sidecar.signals import polls as at
from sidecar.signals.capacity import LIMIT_NEEDS, LIMITS, SLO
from sidecar.signals.decision import Decision
from sidecar.signals.formula import Way
from sidecar.signals.inputs import SUCCEEDED, TOKENS, Inputs
from sidecar.signals.peaks import peak
from sidecar.signals.polls import Polls
from sidecar.signals.queue_to_compute import WINDOWS, queue_to_compute
from sidecar.signals.queued_gpu_seconds import queued_gpu_seconds
from sidecar.signals.replica_demand import DECISIONS
from sidecar.signals.saturation import RESOURCE_NEEDS, RESOURCES, saturation
from sidecar.signals.settings import WINDOW, GpuFigures, Settings
from sidecar.snapshot import Labels

#: Every series of a model, in the order of `values`: the signal and its own labels.
ROWS: tuple[tuple[str, Labels], ...] = (
    ("requests_waiting_peak", ()),
    ("requests_running_peak", ()),
    ("kv_cache_usage_peak_ratio", ()),
    ("queue_seconds_total", ()),
    ("compute_seconds_total", ()),
    *(("queue_to_compute_ratio", (("window", window),)) for window in WINDOWS),
    ("arrivals_total", ()),
    ("service_time_seconds", ()),
    ("idle_inter_token_latency_seconds", ()),
    ("offered_load_requests", ()),
    *(("capacity_requests", (("limit", limit),)) for limit in LIMITS),
    *(("saturation_ratio", (("resource", resource),)) for resource in RESOURCES),
    ("replica_demand", ()),
    ("queued_gpu_seconds", ()),
    ("accepted_generation_tokens_total", ()),
    ("accepted_requests_total", ()),
    ("safe_to_remove", ()),
    *(("replica_demand_info", (("limit", limit), ("reason", reason))) for limit, reason in DECISIONS),
)
ABSENT_ROWS = [nan] * len(ROWS)
_NO_DECISION = [nan] * len(DECISIONS)
_DECISION = {decision: place for place, decision in enumerate(DECISIONS)}


class ModelSignals:
    """One model. A decision that changes sets another of the rows of `replica_demand_info`, so the layout of a
    block never changes for it."""

    def __init__(self, name: str, settings: Settings, *, known: bool = False) -> None:
        """`known`: an earlier process of the sidecar saw this replica a moment ago."""
        self.name = name
        self.polls = Polls(known=known)
        self.decision = Decision(settings, settings.gap_objective(name))
        self.accepted_tokens = self.accepted_requests = 0.0

    def bind(self, inputs: Inputs, ways: Mapping[str, Way]) -> None:
        self.polls.bind(inputs, ways)

    def rows(self, available: frozenset[str]) -> list[tuple[int, str, Labels]]:
        """Place, signal and own labels of the rows that can ever have a value. `available` are the signals and
        facts that are there, derived ones included."""
        limits = {limit for limit, needs in LIMIT_NEEDS.items() if needs <= available}
        if self.decision.objective is None:
            limits.discard(SLO)
        unknown = {("limit", limit) for limit in LIMITS if limit not in limits}
        unknown |= {("resource", name) for name, needs in RESOURCE_NEEDS.items() if not needs <= available}
        return [
            (place, signal, labels)
            for place, (signal, labels) in enumerate(ROWS)
            if signal in available and unknown.isdisjoint(labels)
        ]

    def feed(
        self,
        values: Sequence[float],
        mono: float,
        *,
        epoch: int,
        age: float,
        held: bool,
        gpus: GpuFigures,
    ) -> list[float]:
        """Take one poll and return the values of ROWS; NaN for what can't be told. `held` says whether the
        model's objectives hold; `epoch` and `age` are of the runtime's process."""
        polls, decision = self.polls, self.decision
        if not polls.feed(values, mono, epoch=epoch, age=age):
            return ABSENT_ROWS
        if polls.restarted:
            decision.restarted()
        decision.update(polls)
        if held:
            self.accepted_tokens += polls.grown[TOKENS]
            self.accepted_requests += polls.grown[SUCCEEDED]
        return self._rows(gpus)

    def _rows(self, gpus: GpuFigures) -> list[float]:
        polls, decision = self.polls, self.decision
        table = polls.table
        running, waiting, in_flight, kv_usage = [column[-1] for column in table.columns[: at.KV_USAGE + 1]]
        inside = table.inside(WINDOW)
        service_time = decision.service_time.value
        duration = nan if service_time is None else service_time
        decided = list(_NO_DECISION)
        decided[_DECISION[decision.why]] = 1.0
        return [
            peak(table, at.WAITING, inside),
            peak(table, at.RUNNING, inside),
            peak(table, at.KV_USAGE, inside),
            table.columns[at.QUEUE][-1],
            table.columns[at.COMPUTE][-1],
            *[self._queue_to_compute(window) for window in WINDOWS.values()],
            polls.arrivals.total,
            duration,
            decision.idle,
            decision.load,
            *decision.limits,
            *saturation(running, polls.slots, kv_usage, waiting, decision.capacity, gpus.memory_used_ratio),
            decision.demand,
            queued_gpu_seconds(waiting, duration, decision.capacity, gpus.count),
            self.accepted_tokens,
            self.accepted_requests,
            1.0 if in_flight == 0 else 0.0,
            *decided,
        ]

    def _queue_to_compute(self, window: float) -> float:
        table = self.polls.table
        since = table.base(window)
        seconds = table.times[-1] - table.times[since]
        return queue_to_compute(table.increase(at.QUEUE, since), table.increase(at.COMPUTE, since), seconds)

    def saved(self, clock_offset: float) -> dict[str, Any]:
        """What a later process should know of this replica, JSON-able. Times are moved by `clock_offset`, from
        the monotonic clock to Unix time."""
        decision = self.decision
        seen = decision.observed.seen
        return {
            "service_time": decision.service_time.value,
            "gaps": {
                str(place): [*pool[:3], pool[3] + clock_offset]
                for place, pool in decision.idle_gap.bins.items()
            },
            "observed": None if seen is None else [seen[0], seen[1] + clock_offset],
            "plateau": decision.observed.plateau,
        }

    def restore(self, saved: Mapping[str, Any], clock_offset: float, mono: float) -> None:
        """Go on from what `saved` returned. Raises ValueError, KeyError or TypeError for anything else."""
        decision = self.decision
        if saved["service_time"] is not None:
            decision.service_time.seed = float(saved["service_time"])
        bins = {int(place): [float(one) for one in pool] for place, pool in saved["gaps"].items()}
        for pool in bins.values():
            pool[3] = min(pool[3] - clock_offset, mono)  # a wall clock that was set back makes nothing future
        decision.idle_gap.restore(bins)
        if saved["observed"] is not None:
            requests, seen = saved["observed"]
            decision.observed.seen = (float(requests), min(float(seen) - clock_offset, mono))
        if saved.get("plateau") is not None:  # not in states of before
            decision.observed.plateau = float(saved["plateau"])
