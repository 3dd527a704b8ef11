"""Derived signals beside the truth of a simulated engine, through its own page and the whole line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isnan

import pytest

from sidecar.pipeline import Settings as TargetSettings
from sidecar.pipeline import TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.signals import Settings, Signals
from sidecar.simulator import EngineConfig, Replica, ReplicaConfig, Request, Simulation
from sidecar.simulator.traffic import Steady, Steps, Traffic
from sidecar.simulator.vllm_page import VllmPage
from sidecar.snapshot import Block, LayoutBuilder, Snapshot

SLOTS, EVERY = 64, 2.0


class Run:
    """A replica under traffic for so many simulated seconds; snapshots as they were published, `natives` what
    the same signals are when the runtime's gauges are kept from them."""

    def __init__(self, traffic: Traffic, seconds: float) -> None:
        engine = ReplicaConfig(engine=EngineConfig(max_num_seqs=SLOTS))
        simulation = Simulation(Replica(engine, epoch=1e9), traffic, keep=True)
        line = TargetPipeline(TargetSettings(slots=SLOTS), Registry(), [Signals(Settings(gpus=1))])
        page, blind = VllmPage("0.32.0"), Signals(Settings())
        without = withouts(("requests_running", "requests_waiting"))
        self.snapshots: list[Snapshot] = []
        self.natives: list[Block] = []
        now = 0.0
        while now < seconds:
            now += EVERY
            simulation.advance(now)
            answer = Answer(200, page.render(simulation.service))
            snapshot = line.feed({"metrics": answer}, time=1e9 + now, mono=now)
            native = blind.feed(without(snapshot))
            assert native is not None
            self.snapshots.append(snapshot)
            self.natives.append(native)
        self.ended: list[Request] = simulation.ended
        self.in_flight = simulation.service.in_flight

    def series(self, signal: str, **labels: str) -> list[tuple[float, float]]:
        return [(one.mono, one.extra[-1].get(signal, **labels)) for one in self.snapshots]

    def mean(self, signal: str, since: float) -> float:
        values = [value for mono, value in self.series(signal) if mono >= since]
        return sum(values) / len(values)

    def native(self, signal: str, **labels: str) -> list[tuple[float, float]]:
        return [
            (one.mono, block.get(signal, **labels))
            for one, block in zip(self.snapshots, self.natives, strict=True)
        ]


def withouts(signals: tuple[str, ...]) -> Callable[[Snapshot], Snapshot]:
    """Takes signals out of a snapshot, as if the runtime had none."""

    def take_out(snapshot: Snapshot) -> Snapshot:
        data = snapshot.data
        kept = [one for one in data.layout.series if one.signal.name not in signals]
        if data.layout not in layouts:
            build = LayoutBuilder()
            for one in kept:
                build.add(one.signal, one.labels, one.bounds)
            layouts[data.layout] = build.build()
        values = [value for one in kept for value in data.values[one.start : one.start + one.width]]
        return replace(snapshot, data=Block(layouts[data.layout], tuple(values)), extra=())

    layouts: dict[object, object] = {}
    return take_out  # type: ignore[return-value]


@cache
def steady() -> Run:
    return Run(Traffic(Steady(6.0), seed=3), 900)


@cache
def burst() -> Run:
    """Calm, then three times what the engine can take for a minute, then nothing until all is done."""
    rates = Steps(((0.0, 4.0), (240.0, 4.0), (240.0, 30.0)))
    return Run(Traffic(rates, seed=1, until=300.0), 540)


def crossed(series: list[tuple[float, float]], limit: float, since: float) -> float:
    return next(mono for mono, value in series if mono >= since and value > limit)


def test_offered_load_and_service_time_are_within_5_percent_in_steady_state() -> None:
    run, since = steady(), 300.0
    served = [one for one in run.ended if one.scheduled_ns > 0 and one.arrived_ns >= since * 1e9]
    executed = [(one.last_token_ns - one.scheduled_ns) / 1e9 for one in served]
    service_time = sum(executed) / len(executed)
    load = len(served) / (900 - since) * service_time  # Little: arrivals a second × time each
    assert run.mean("service_time_seconds", since) == pytest.approx(service_time, rel=0.05)
    assert run.mean("offered_load_requests", since) == pytest.approx(load, rel=0.05)


def test_arrivals_are_those_that_came() -> None:
    run = steady()
    assert run.series("arrivals_total")[-1][1] == pytest.approx(len(run.ended) + run.in_flight, rel=0.01)


def test_work_adds_up_to_what_the_requests_have_waited_and_executed() -> None:
    run = burst()
    assert run.in_flight == 0
    queued = sum(one.queue_seconds for one in run.ended)
    executed = sum((one.last_token_ns - one.scheduled_ns) / 1e9 for one in run.ended)
    assert run.series("queue_seconds_total")[-1][1] == pytest.approx(queued, rel=0.03)
    assert run.series("compute_seconds_total")[-1][1] == pytest.approx(executed, rel=0.03)


def test_the_native_times_give_the_same_work_in_the_end() -> None:
    run = burst()
    for signal in ("queue_seconds_total", "compute_seconds_total"):
        assert run.native(signal)[-1][1] == pytest.approx(run.series(signal)[-1][1], rel=0.03)


@pytest.mark.parametrize("limit", [0.25, 0.5, 1.0])
def test_the_ratio_leads_the_native_times_in_a_burst(limit: float) -> None:
    """A runtime observes a request's queue time when the request ends; gauges move at once. Measured: 12 to
    22 s of a burst of 60."""
    run = burst()
    gauges = crossed(run.series("queue_to_compute_ratio", window="1m"), limit, 240)
    natives = crossed(run.native("queue_to_compute_ratio", window="1m"), limit, 240)
    assert natives - gauges >= 8


def test_a_burst_asks_for_more_replicas_and_its_end_for_none() -> None:
    run = burst()
    demand = dict(run.series("replica_demand"))
    assert demand[230.0] < 1 < max(demand.values())
    assert demand[540.0] == 0
    reasons = {
        (one.label("limit"), one.label("reason"))
        for snapshot in run.snapshots
        for one in snapshot.extra[-1].layout.find("replica_demand_info")
        if snapshot.extra[-1].values[one.start] == 1
    }
    assert {reason for _, reason in reasons} >= {"load", "backlog", "idle"}


def test_the_demand_tells_of_a_queue_before_the_native_times_do() -> None:
    run = burst()
    assert crossed(run.series("replica_demand"), 1.0, 240) <= crossed(
        run.native("queue_to_compute_ratio", window="1m"), 0.1, 240
    )


def test_peaks_see_what_a_scrape_every_30_s_would_miss() -> None:
    run = burst()
    waiting = {
        snapshot.mono: snapshot.data.get("requests_waiting", model_name="sim/llama-8b")
        for snapshot in run.snapshots
    }
    for mono, peak in run.series("requests_waiting_peak"):
        seen = [value for at, value in waiting.items() if mono - 60 < at <= mono]
        assert peak == max(seen)
    assert not any(isnan(value) for value in waiting.values())
