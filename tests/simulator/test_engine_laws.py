"""What must hold whatever comes: sums, Little's law, and that looking changes nothing."""

from __future__ import annotations

from dataclasses import fields
from random import Random

import pytest

from sidecar.simulator.engine import Engine
from sidecar.simulator.model import NS, EngineConfig
from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.request import FINISHED, Request
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.telemetry import Histogram, Telemetry
from sidecar.simulator.traffic import Shape, Steady, Steps, Traffic, calm_overload_calm

TIGHT = EngineConfig(kv_blocks=700, max_model_len=6000, max_num_seqs=32)
SHAPE = Shape(prefixed=0.4, impatient=0.2, patience=8.0)


def _run(seed: int, look: float | None = None) -> tuple[Telemetry, list[Request]]:
    traffic = Traffic(calm_overload_calm(120, 2, 14), SHAPE, seed, until=120)
    simulation = Simulation(Replica(ReplicaConfig(engine=TIGHT)), traffic, keep=True)
    now = 0.0
    while look is not None and now < 120:
        now += look
        simulation.advance(now)
    simulation.advance(400)
    return simulation.service.ranks[0], simulation.ended


def _numbers(seen: Telemetry) -> dict[str, object]:
    numbers: dict[str, object] = {}
    for one in fields(seen):
        value = getattr(seen, one.name)
        if isinstance(value, Histogram):
            value = (value.count, value.cumulative(value.bounds), pytest.approx(value.total))
        numbers[one.name] = pytest.approx(value) if isinstance(value, float) else value
    return numbers


def test_the_same_seed_is_the_same_run_and_another_is_another() -> None:
    first, requests = _run(3)
    second, again = _run(3)
    assert _numbers(first) == _numbers(second)
    assert [r.ended_ns for r in requests] == [r.ended_ns for r in again]
    assert _numbers(_run(4)[0]) != _numbers(first)


@pytest.mark.parametrize("look", [0.0171, 1.0])
def test_how_often_it_is_looked_at_changes_nothing(look: float) -> None:
    assert _numbers(_run(5, look)[0]) == _numbers(_run(5)[0])


def test_sums_of_the_page_are_sums_over_the_requests() -> None:
    seen, requests = _run(6)
    assert seen.preemptions > 10
    assert seen.cancelled_running and seen.cancelled_waiting
    done = [r for r in requests if r.outcome in FINISHED]
    begun = [r for r in requests if r.generated]
    assert seen.received == len(requests)
    assert seen.finished == len(done)
    assert seen.generation_tokens == sum(r.generated for r in requests)
    assert seen.prompt_tokens == sum(r.prompt_tokens for r in begun)
    assert seen.cached_tokens == sum(r.cached_tokens for r in begun)
    assert seen.request_generation_tokens.total == sum(r.generated for r in done)
    assert seen.request_prompt_tokens.total == sum(r.prompt_tokens for r in done)
    assert seen.preemptions == sum(r.preemptions for r in requests)
    assert seen.time_to_first_token.count == len(begun)
    assert seen.inter_token.count == sum(r.generated - 1 for r in begun)
    assert (seen.running, seen.waiting, seen.kv_used) == (0, 0, 0)


def test_times_of_the_page_add_up() -> None:
    seen, requests = _run(7)
    begun = [r for r in requests if r.generated]
    for request in begun:
        assert request.first_token_ns - request.arrived_ns == (
            request.scheduled_ns - request.arrived_ns + request.first_token_ns - request.scheduled_ns
        )
        assert request.arrived_ns <= request.scheduled_ns < request.first_token_ns <= request.last_token_ns
    done = [r for r in requests if r.outcome in FINISHED]
    assert all(r.ended_ns == r.last_token_ns for r in done)
    assert seen.queue.total + seen.prefill.total == pytest.approx(sum(r.first_token_seconds for r in done))
    assert seen.end_to_end.total == pytest.approx(seen.queue.total + seen.inference.total)
    assert seen.inference.total == pytest.approx(seen.prefill.total + seen.decode.total)
    slow = seen.inter_token.count - seen.inter_token.cumulative((0.05,))[0]
    assert slow == sum(r.slow_gaps for r in begun) > 0
    # each gap of each request, those of preempted and cancelled ones too
    assert seen.inter_token.total == pytest.approx(
        sum(r.last_token_ns - r.first_token_ns for r in begun) / NS
    )


def test_littles_law() -> None:
    simulation = Simulation(Replica(ReplicaConfig()), Traffic(Steady(8.0), Shape(), 11), keep=True)
    simulation.advance(60.0)
    simulation.ended.clear()
    samples, ticks = 0, 0
    now = 60.0
    while now < 660.0:
        now += 0.1
        simulation.advance(now)
        samples += simulation.service.in_flight
        ticks += 1
    present = samples / ticks
    done = simulation.ended
    arrivals = len(done) / 600.0
    stay = sum(r.end_to_end_seconds for r in done) / len(done)
    assert present == pytest.approx(arrivals * stay, rel=0.02)
    assert arrivals == pytest.approx(8.0, rel=0.05)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_leaks_whatever_happens(seed: int) -> None:
    random = Random(seed)
    config = EngineConfig(
        max_num_seqs=random.choice([2, 8, 30]),
        max_batched_tokens=random.choice([64, 500]),
        kv_blocks=random.choice([40, 120]),
        max_model_len=600,
        max_queued_requests=random.choice([None, 5]),
    )
    engine = Engine(config)
    alive: list[Request] = []
    every: list[Request] = []
    for _ in range(1500):
        action = random.random()
        if action < 0.4:
            request = Request(
                random.randrange(1, 400),
                random.randrange(1, 200),
                random.choice([None, 20, 100]),
                prefix_key=random.choice([None, 1, 2, 3]),
                prefix_tokens=random.randrange(300),
            )
            every.append(request)
            if engine.submit(request):
                alive.append(request)
        elif action < 0.5 and alive:
            engine.abort(alive.pop(random.randrange(len(alive))))
        elif action < 0.52:
            engine.hang()
        elif action < 0.6:
            engine.resume()
        else:
            engine.advance(engine.now + random.expovariate(8))
        assert 0 <= engine.kv_used <= config.kv_blocks
        assert engine.running <= config.max_num_seqs
    engine.resume()
    engine.advance(engine.now + 3600)
    assert all(request.outcome is not None for request in every)
    assert (engine.in_flight, engine.kv_used) == (0, 0)
    seen = engine.telemetry
    assert seen.generation_tokens == sum(request.generated for request in every)
    assert seen.inter_token.count == sum(max(0, request.generated - 1) for request in every)
    assert seen.finished == sum(request.outcome in FINISHED for request in every)


def test_overload_makes_a_queue_and_calm_drains_it() -> None:
    traffic = Traffic(Steps(((0, 1), (30, 1), (31, 20), (60, 20), (61, 1))), Shape(), 2, until=500)
    simulation = Simulation(Replica(ReplicaConfig(engine=TIGHT)), traffic)
    waiting = []
    for second in range(1, 501):
        simulation.advance(second)
        waiting.append(simulation.service.ranks[0].waiting)
    assert max(waiting[:30]) <= 1
    assert max(waiting) > 50
    assert waiting[-1] == 0
