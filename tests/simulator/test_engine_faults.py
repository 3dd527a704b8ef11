"""Clients that leave, engines that hang, servers that die."""

from __future__ import annotations

import pytest

from sidecar.simulator.engine import Engine
from sidecar.simulator.model import EngineConfig, Timing
from sidecar.simulator.replica import Replica, ReplicaConfig, State
from sidecar.simulator.request import Outcome, Request

CONFIG = EngineConfig(
    Timing(step_base=0.010, per_sequence=0.001, per_prompt_token=0.0001),
    max_num_seqs=2,
    max_batched_tokens=100,
)


def test_a_client_that_leaves_while_waiting_leaves_no_trace_but_the_engines_own() -> None:
    engine = Engine(CONFIG)
    for _ in range(2):
        engine.submit(Request(10, 500))
    waiting = Request(10, 5)
    engine.advance(0.1)
    engine.submit(waiting)
    engine.advance(0.2)
    assert engine.telemetry.waiting == 1
    assert engine.abort(waiting)
    assert not engine.abort(waiting)
    engine.advance(0.3)
    seen = engine.telemetry
    assert (seen.waiting, seen.cancelled_waiting, seen.cancelled_running) == (0, 1, 0)
    assert (waiting.outcome, waiting.generated, waiting.scheduled_ns) == (Outcome.CANCELLED, 0, -1)
    assert seen.time_to_first_token.count == 2
    assert seen.prompt_tokens == 20


def test_a_client_that_leaves_in_mid_answer_has_a_first_token_but_no_end() -> None:
    engine = Engine(CONFIG)
    request = Request(10, 500)
    engine.submit(request)
    engine.advance(0.2)
    out = engine.generated(request)
    engine.abort(request)
    seen = engine.telemetry
    assert out == request.generated > 10
    assert (seen.time_to_first_token.count, seen.end_to_end.count, seen.request_generation_tokens.count) == (
        1,
        0,
        0,
    )
    assert seen.inter_token.count == out - 1
    assert seen.finished == 0
    assert (seen.running, seen.kv_used) == (0, 0)  # nobody else: no later step would say it


def test_a_client_that_leaves_during_its_prefill() -> None:
    engine = Engine(CONFIG)
    request = Request(1000, 5)
    engine.submit(request)
    engine.advance(0.05)
    engine.abort(request)
    engine.advance(1.0)
    assert engine.telemetry.prompt_tokens == 0
    assert engine.telemetry.generation_tokens == 0
    assert engine.kv_used == 0


def test_a_hung_engine_freezes_and_goes_on_where_it_was() -> None:
    engine = Engine(CONFIG)
    request = Request(10, 100)
    engine.submit(request)
    engine.advance(0.5)
    engine.hang()
    frozen = (engine.telemetry.generation_tokens, engine.telemetry.running, engine.telemetry.steps)
    engine.submit(Request(10, 5))
    engine.advance(60.0)
    assert (engine.telemetry.generation_tokens, engine.telemetry.running, engine.telemetry.steps) == frozen
    assert engine.telemetry.waiting == 0
    assert engine.waiting == 1
    assert engine.next_event() is None
    engine.resume()
    engine.advance(62.0)
    seen = engine.telemetry
    assert seen.finished == 2
    assert seen.inter_token.count - seen.inter_token.cumulative((40.0,))[0] == 1  # one gap spans the hang
    assert request.decode_seconds == pytest.approx(59.5 + 99 * 0.011, abs=0.05)


@pytest.mark.parametrize("between_steps", [True, False])
def test_a_hang_between_two_steps_is_a_gap_too(between_steps: bool) -> None:
    engine = Engine(CONFIG)
    engine.submit(Request(10, 100))
    engine.advance(0.011 if between_steps else 0.012)
    engine.hang()
    engine.advance(10.0)
    engine.resume()
    engine.advance(12.0)
    assert engine.telemetry.inter_token.cumulative((8.0, 10.0)) == [98, 99]


def test_errors_come_at_the_asked_rate_and_end_as_errors() -> None:
    replica = Replica(ReplicaConfig(engine=EngineConfig(max_num_seqs=512), seed=4))
    replica.error_rate = 0.3
    requests = [Request(5, 40) for _ in range(400)]
    for request in requests:
        replica.submit(request)
    ended = replica.advance(600)
    failed = [r for r in ended if r.outcome is Outcome.ERROR]
    assert len(ended) == 400
    assert 90 < len(failed) < 150
    assert replica.ranks[0].errors == len(failed)
    assert all(1 <= r.generated <= 40 for r in failed)
    assert len({r.generated for r in failed}) > 10


def test_a_restart_loses_what_was_in_flight_and_all_counts() -> None:
    replica = Replica(ReplicaConfig(startup_seconds=30), start=0.0, epoch=1000.0)
    assert replica.state is State.STARTING
    assert not replica.submit(Request(5, 5))
    replica.advance(30.0)
    assert replica.state is State.READY
    requests = [Request(5, 500) for _ in range(3)]
    for request in requests:
        replica.submit(request)
    replica.advance(31.0)
    old = replica.ranks[0]
    assert old.generation_tokens > 0
    lost = replica.restart(startup=5.0)
    assert {r.outcome for r in lost} == {Outcome.LOST}
    assert all(0 < r.generated < 500 for r in requests)
    assert replica.ranks[0] is not old
    assert (replica.ranks[0].generation_tokens, replica.in_flight, replica.started) == (0, 0, 31.0)
    replica.advance(35.9)
    assert not replica.submit(Request(5, 5))
    replica.advance(36.0)
    assert replica.submit(Request(5, 5))


def test_refusals_belong_to_the_front_end() -> None:
    replica = Replica(ReplicaConfig(engine=EngineConfig(max_num_seqs=1, max_queued_requests=2)))
    replica.submit(Request(5, 500))
    replica.advance(0.1)
    accepted = [replica.submit(Request(5, 5)) for _ in range(5)]
    whole = Request(5, 5, streaming=False)
    replica.submit(whole)
    assert accepted == [True, True, False, False, False]
    assert replica.front.rejected_by_requests == 4
    assert replica.ranks[0].received == 3
    statuses = {key[2]: one.count for key, one in replica.front.exchanges.items()}
    assert statuses == {"2xx": 3, "5xx": 1}  # a refused stream is a 200 with an error in it


def test_ranks_share_the_load_and_hang_apart() -> None:
    replica = Replica(ReplicaConfig(ranks=2))
    for _ in range(10):
        replica.submit(Request(50, 200))
    replica.advance(0.5)
    assert [rank.running for rank in replica.ranks] == [5, 5]
    replica.hang(rank=1)
    ended = replica.advance(60.0)
    assert len(ended) == 5
    assert [rank.running for rank in replica.ranks] == [0, 5]
    replica.resume()
    assert len(replica.advance(120.0)) == 5


def test_when_all_have_left_no_step_follows() -> None:
    engine = Engine(CONFIG)
    requests = [Request(10, 500) for _ in range(2)]
    for request in requests:
        engine.submit(request)
    engine.advance(1.0)
    steps = engine.telemetry.steps
    for request in requests:
        engine.abort(request)
    engine.advance(3600.0)
    assert engine.telemetry.steps == steps + 1  # the one that was under way
    assert engine.telemetry.busy_seconds < 1.1


def test_a_smaller_batch_is_faster_from_the_next_step_on() -> None:
    engine = Engine(CONFIG)
    stays, leaves = Request(10, 500), Request(10, 500)
    engine.submit(stays)
    engine.submit(leaves)
    engine.advance(1.0)
    engine.abort(leaves)
    before, gaps = engine.generated(stays), engine.telemetry.inter_token.count
    engine.advance(2.0)
    assert engine.generated(stays) - before == pytest.approx(1.0 / 0.011, abs=1)
    assert engine.telemetry.inter_token.count - gaps == engine.generated(stays) - before
    engine.slow_down(10.0)
    before = engine.generated(stays)
    engine.advance(4.2)
    assert engine.generated(stays) - before == pytest.approx(2.2 / 0.11, abs=1)
