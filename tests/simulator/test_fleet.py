"""Cold starts, routing, draining."""

from __future__ import annotations

import pytest

from sidecar.simulator.fleet import Fleet, round_robin
from sidecar.simulator.replica import ReplicaConfig, State
from sidecar.simulator.request import Outcome, Request
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.traffic import Shape, Steady, Traffic

CONFIG = ReplicaConfig(startup_seconds=60.0)


def test_new_replicas_serve_after_their_cold_start_and_cost_from_its_beginning() -> None:
    fleet = Fleet(CONFIG, 1)
    fleet.advance(100.0)
    fleet.scale(3)
    fleet.advance(159.0)
    assert (len(fleet.ready), len(fleet.replicas)) == (1, 3)
    fleet.advance(160.0)
    assert len(fleet.ready) == 3
    assert fleet.replica_seconds == pytest.approx(100 + 3 * 60)


def test_requests_go_where_the_fewest_are() -> None:
    fleet = Fleet(CONFIG, 3)
    for _ in range(9):
        fleet.submit(Request(100, 500))
        fleet.advance(fleet.now + 0.01)
    assert [replica.in_flight for replica in fleet.replicas] == [3, 3, 3]
    turns = Fleet(CONFIG, 2, router=round_robin())
    for _ in range(4):
        turns.submit(Request(100, 500))
    assert [replica.in_flight for replica in turns.replicas] == [2, 2]


def test_draining_cuts_nothing_that_ends_in_time() -> None:
    fleet = Fleet(CONFIG, 2)
    requests = [Request(100, 300) for _ in range(4)]
    for request in requests:
        fleet.submit(request)
    fleet.advance(1.0)
    fleet.scale(1)
    draining = fleet.replicas[1]
    assert draining.state is State.DRAINING
    late = Request(100, 5)
    fleet.submit(late)
    assert draining.in_flight == 2
    fleet.advance(60.0)
    assert fleet.replicas == [fleet.ready[0]]
    assert draining.state is State.STOPPED
    assert {request.outcome for request in requests} == {Outcome.STOP}
    assert fleet.lost == 0


def test_a_drain_has_an_end() -> None:
    fleet = Fleet(CONFIG, 2, drain_seconds=2.0)
    requests = [Request(100, 4000) for _ in range(2)]
    for request in requests:
        fleet.submit(request)
    fleet.scale(1)
    ended = fleet.advance(30.0)
    assert ended == [requests[1]]
    assert (requests[1].outcome, requests[1].ended_ns) == (Outcome.LOST, 2_000_000_000)
    assert fleet.lost == 1
    assert fleet.replica_seconds == pytest.approx(30 + 2)


def test_from_zero_the_router_holds_requests_until_a_replica_is_ready() -> None:
    fleet = Fleet(CONFIG, 0)
    waits, leaves = Request(100, 5), Request(100, 5)
    fleet.advance(10.0)
    assert fleet.submit(waits)
    fleet.submit(leaves)
    assert fleet.in_flight == 2
    fleet.advance(12.0)
    fleet.scale(1)
    fleet.advance(20.0)
    assert fleet.abort(leaves)
    fleet.advance(100.0)
    assert (waits.outcome, leaves.outcome) == (Outcome.STOP, Outcome.CANCELLED)
    assert waits.client_first_token_seconds > 60.0
    assert waits.first_token_seconds < 0.1  # the replica's page knows nothing of the router
    assert fleet.in_flight == 0


def test_how_often_it_is_looked_at_changes_nothing() -> None:
    def run(look: float) -> tuple[object, ...]:
        shape = Shape(impatient=0.3, patience=5.0)
        simulation = Simulation(Fleet(CONFIG, 3), Traffic(Steady(20.0), shape, 5, until=60), keep=True)
        for second in (20, 40, 300):
            while simulation.now < second:
                simulation.advance(min(second, simulation.now + look))
            simulation.service.scale({20: 1, 40: 4, 300: 4}[second])
        fleet = simulation.service
        ends = sorted((r.ended_ns, r.arrived_ns, r.outcome) for r in simulation.ended)
        return ends, pytest.approx(fleet.replica_seconds), [one.ranks[0].steps for one in fleet.replicas]

    assert run(1000.0) == run(0.31)


def test_a_start_that_is_no_longer_wanted_ends_at_once() -> None:
    fleet = Fleet(CONFIG, 1)
    fleet.scale(3)
    fleet.advance(5.0)
    fleet.scale(1)
    assert len(fleet.replicas) == 1


def test_a_fleet_serves_what_one_replica_cannot() -> None:
    traffic = Traffic(Steady(12.0), Shape(impatient=0.3, patience=5.0), 5, until=60)
    waits = []
    for size in (1, 4):
        simulation = Simulation(Fleet(CONFIG, size), traffic, keep=True)
        simulation.advance(400.0)
        assert simulation.service.in_flight == 0
        begun = [r for r in simulation.ended if r.first_token_ns >= 0]
        waits.append(sum(r.first_token_seconds for r in begun) / len(begun))
        assert len(simulation.ended) == sum(1 for _ in traffic.arrivals())
    assert waits[1] < waits[0] / 5
