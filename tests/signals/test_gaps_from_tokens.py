"""Runtimes that tell no gaps between tokens: what runs over the tokens that come out of it stands for them."""

from __future__ import annotations

from math import isnan

import pytest

from sidecar.autoscale.sidecars import Sidecar
from sidecar.autoscale.traffics import CHAT
from sidecar.schema import Method, Status
from sidecar.signals import GapObjective, Settings, Signals
from sidecar.simulator import Replica, ReplicaConfig, Simulation
from sidecar.simulator.traffic import Steady, Traffic
from sidecar.snapshot import Block
from tests.signals.worlds import EMPTY_POLL
from tests.signals.worlds import Replica as World

OBJECTIVE = (GapObjective(0.05, 0.05),)


def demands(rate: float, *settings: tuple[Settings, bool]) -> list[float]:
    """Of several sidecars of one replica, after ten minutes: light at first, then `rate` requests a second."""
    replica = Replica(ReplicaConfig(engine=CHAT.engine))
    simulation = Simulation(replica, Traffic(Steady(1.0), CHAT.shape))
    readers = [Sidecar(one, gaps=gaps) for one, gaps in settings]
    for second in range(2, 602, 2):
        if second == 200:
            simulation.play(Traffic(Steady(rate), CHAT.shape))
        simulation.advance(float(second))
        for reader in readers:
            reader.read(replica)
    return [float((reader.last or {})["replica_demand"]) for reader in readers]


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.9, 1.0])
def test_the_demand_comes_close_to_the_truth(share: float) -> None:
    """The truth is the share of the rate that a replica sustains, over the utilisation that is aimed at. An
    estimate has the prefills in its gaps, so a light load looks heavier than it is: too many, never too few."""
    settings = Settings(gap_objectives=OBJECTIVE)
    told, estimated = demands(share * CHAT.sustained, (settings, True), (settings, False))
    assert told == pytest.approx(share / 0.9, rel=0.1)
    assert 0.9 < estimated / (share / 0.9) < (1.15 if share >= 0.7 else 1.5)


def test_without_any_gaps_no_limit_is_known() -> None:
    settings = Settings(gap_objectives=OBJECTIVE, gaps_from_tokens=False)
    (off,) = demands(0.5 * CHAT.sustained, (settings, False))
    assert isnan(off)


def steady(first: dict[str, float], rates: dict[str, float], settings: Settings) -> tuple[Signals, Block]:
    """Five minutes of polls whose counters grow at constant rates."""
    world, signals = World(), Signals(settings)
    block = None
    for second in range(0, 302, 2):
        poll = first | {name: first[name] + rate * second for name, rate in rates.items()}
        block = signals.feed(world.snapshot(float(second), poll))
    assert block is not None
    return signals, block


FIRST = EMPTY_POLL | {"running": 2.0, "slots": 64.0, "tokens": 0.0}
RATES = {"finished": 1.0, "inf_cnt": 1.0, "inf_sum": 2.0}


def test_two_requests_and_a_hundred_tokens_a_second_are_gaps_of_20_ms() -> None:
    signals, block = steady(FIRST, {**RATES, "tokens": 100.0}, Settings(gap_objectives=OBJECTIVE))
    assert block.get("idle_inter_token_latency_seconds") == pytest.approx(0.9 * 0.02)
    (said,) = [one for one in signals.provenance if one.signal == "idle_inter_token_latency_seconds"]
    assert (said.status, said.method) == (Status.OK, Method.ESTIMATED)
    assert not isnan(block.get("capacity_requests", limit="slo"))


def test_a_replica_that_only_prefills_has_no_gaps() -> None:
    _, block = steady(FIRST, {**RATES, "tokens": 1.0}, Settings(gap_objectives=OBJECTIVE))
    assert isnan(block.get("capacity_requests", limit="slo"))
    assert isnan(block.get("idle_inter_token_latency_seconds"))
    assert block.get("replica_demand") == pytest.approx(2 / (64 * 0.9))


def test_it_can_be_switched_off() -> None:
    off = Settings(gap_objectives=OBJECTIVE, gaps_from_tokens=False)
    signals, block = steady(FIRST, {**RATES, "tokens": 100.0}, off)
    assert block.get("replica_demand") == pytest.approx(2 / (64 * 0.9))
    (said,) = [one for one in signals.provenance if one.signal == "idle_inter_token_latency_seconds"]
    assert said.status is Status.NOT_EXPOSED
