"""The short way from telemetry to signals gives what the page and the whole line give."""

from __future__ import annotations

from math import isnan

import pytest

from sidecar.autoscale.objectives import USUAL
from sidecar.autoscale.sidecars import Sidecar
from sidecar.autoscale.traffics import KV_BOUND
from sidecar.pipeline import Settings as LineSettings
from sidecar.pipeline import TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.signals import Settings, Signals
from sidecar.simulator import Replica, ReplicaConfig, Simulation
from sidecar.simulator.traffic import Steps, Traffic
from sidecar.simulator.vllm_page import VllmPage

NAMES = (
    "replica_demand",
    "offered_load_requests",
    "service_time_seconds",
    "idle_inter_token_latency_seconds",
    "requests_running",
    "requests_waiting",
    "kv_cache_usage_ratio",
)


def test_the_short_way_equals_the_page_and_the_line() -> None:
    replica = Replica(ReplicaConfig(engine=KV_BOUND.engine))
    load = Steps(((0, 0.2), (40, 0.2), (80, 4.0)))
    simulation = Simulation(replica, Traffic(load, KV_BOUND.shape))
    settings = Settings(gap_objectives=(USUAL.of_gaps,))
    short, page = Sidecar(settings), VllmPage()
    line = TargetPipeline(LineSettings(runtime="vllm"), Registry(), [Signals(settings)])
    seen = 0
    for place in range(1, 81):
        second = 2.0 * place
        simulation.advance(second)
        short.read(replica)
        snapshot = line.feed({"metrics": Answer(200, page.render(replica))}, time=second, mono=second)
        assert short.last is not None
        for name in NAMES:
            values = [block.get(name) for block in snapshot.blocks if name in block.layout.by_signal]
            whole = values[0] if values else float("nan")
            if isnan(short.last[name]):
                assert isnan(whole), name
            else:
                assert short.last[name] == pytest.approx(whole, rel=1e-6), (name, second)
                seen += name == "replica_demand"
    assert seen > 60


def test_one_that_is_blind_or_whose_replica_is_starting_says_nothing() -> None:
    sidecar, replica = Sidecar(Settings()), Replica(ReplicaConfig(startup_seconds=10))
    replica.advance(2.0)
    sidecar.read(replica)
    assert sidecar.last is None
    replica.advance(12.0)
    sidecar.read(replica)
    assert sidecar.last is not None
    sidecar.blind = True
    sidecar.read(replica)
    assert sidecar.last is None
