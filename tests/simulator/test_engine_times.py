"""One engine, times that can be worked out by hand."""

from __future__ import annotations

import pytest

from sidecar.simulator.engine import Engine, Iteration
from sidecar.simulator.model import EngineConfig, Timing
from sidecar.simulator.request import Outcome, Request

TIMING = Timing(step_base=0.010, per_sequence=0.001, per_prompt_token=0.0001)
CONFIG = EngineConfig(
    TIMING, max_num_seqs=4, max_batched_tokens=100, kv_blocks=64, block_size=16, max_model_len=512
)


def test_one_request_alone() -> None:
    engine = Engine(CONFIG)
    engine.advance(1.0)
    request = Request(prompt_tokens=50, output_tokens=3)
    assert engine.submit(request)
    engine.advance(2.0)
    # prefill 10 ms + 50 · 0.1 ms = 15 ms, then two steps of 10 ms + 1 sequence · 1 ms
    assert request.queue_seconds == 0.0
    assert request.prefill_seconds == pytest.approx(0.015)
    assert request.first_token_seconds == pytest.approx(0.015)
    assert request.decode_seconds == pytest.approx(0.022)
    assert request.end_to_end_seconds == pytest.approx(0.037)
    assert (request.outcome, request.generated) == (Outcome.STOP, 3)
    assert engine.take_ended() == [request]
    seen = engine.telemetry
    assert (seen.steps, seen.prompt_tokens, seen.generation_tokens) == (3, 50, 3)
    assert seen.inter_token.cumulative((0.01, 0.02)) == [0, 2]
    assert seen.time_per_output_token.total == pytest.approx(0.011)
    assert seen.busy_seconds == pytest.approx(0.037)
    assert seen.step_tokens.total == 53  # 50 prompt tokens and 3 generated, as vLLM counts


def test_one_token_answers_have_no_gap_and_a_time_per_token_of_zero() -> None:
    engine = Engine(CONFIG)
    engine.submit(Request(10, 1))
    engine.advance(1.0)
    seen = engine.telemetry
    assert (seen.inter_token.count, seen.time_per_output_token.count) == (0, 1)
    assert seen.time_per_output_token.total == 0.0
    assert seen.decode.total == 0.0


def test_a_request_that_comes_during_a_step_waits_for_the_next() -> None:
    engine = Engine(CONFIG)
    engine.submit(Request(50, 100))
    engine.advance(0.005)
    late = Request(20, 2)
    engine.submit(late)
    engine.advance(0.010)
    assert (engine.waiting, engine.telemetry.waiting) == (1, 0)  # the page knows at the end of the step
    engine.advance(1.0)
    assert late.queue_seconds == pytest.approx(0.010)
    assert late.prefill_seconds == pytest.approx(0.010 + 0.001 + 20 * 0.0001)  # with the other's token


def test_long_prompts_are_prefilled_in_chunks_beside_the_decoding() -> None:
    told: list[Iteration] = []
    engine = Engine(CONFIG)
    engine.on_iteration = told.append
    engine.submit(Request(10, 200))
    engine.advance(0.0115)
    long = Request(250, 2)
    engine.submit(long)
    engine.advance(0.2)
    chunks = [one.prompt_tokens for one in told if one.prompt_tokens]
    assert chunks == [10, 99, 99, 52]  # the budget of 100 less the token of the decoding sequence
    steps = [0.011 + chunk * 0.0001 for chunk in chunks[1:]]
    assert long.prefill_seconds == pytest.approx(sum(steps))
    slow = engine.telemetry.inter_token.count - engine.telemetry.inter_token.cumulative((0.02,))[0]
    assert slow == 2  # the first request's gaps were stretched by the two full chunks


def test_the_batch_is_never_larger_than_its_slots_and_serves_in_order() -> None:
    engine = Engine(CONFIG)
    requests = [Request(10, 20) for _ in range(10)]
    for request in requests:
        engine.submit(request)
    largest = 0
    for tick in range(200):
        engine.advance(tick * 0.005)
        largest = max(largest, engine.telemetry.running)
    assert largest == 4
    assert [request.outcome for request in requests] == [Outcome.STOP] * 10
    starts = [request.scheduled_ns for request in requests]
    assert starts == sorted(starts)
    assert starts[3] < starts[4]


def test_bounds_of_the_client_and_the_reason_of_the_end() -> None:
    engine = Engine(CONFIG)
    stop, length, both, failed = (
        Request(5, 7, max_tokens=100),
        Request(5, 100, max_tokens=7),
        Request(5, 7, max_tokens=7),
        Request(5, 100, max_tokens=50, fails_after=3),
    )
    for request in (stop, length, both, failed):
        engine.submit(request)
    engine.advance(5.0)
    assert [r.outcome for r in (stop, length, both, failed)] == ["stop", "length", "length", "error"]
    assert [r.generated for r in (stop, length, both, failed)] == [7, 7, 7, 3]
    seen = engine.telemetry
    assert (seen.stopped, seen.length_reached, seen.errors, seen.finished) == (1, 2, 1, 4)


def test_what_can_never_run_is_refused() -> None:
    engine = Engine(CONFIG)
    with pytest.raises(ValueError, match="512"):
        engine.submit(Request(500, 13))
    with pytest.raises(ValueError, match="at least one"):
        engine.submit(Request(0, 5))
    with pytest.raises(ValueError, match="KV cache"):
        EngineConfig(kv_blocks=10, block_size=16, max_model_len=161)
    with pytest.raises(ValueError, match="max_batched_tokens"):
        EngineConfig(max_num_seqs=64, max_batched_tokens=64)


def test_the_queue_limit_refuses_at_the_door() -> None:
    engine = Engine(EngineConfig(TIMING, 2, 100, 64, 16, 512, max_queued_requests=3))
    accepted = [engine.submit(Request(10, 50)) for _ in range(2)]
    engine.advance(0.005)
    accepted += [engine.submit(Request(10, 50)) for _ in range(5)]
    assert accepted == [True] * 5 + [False] * 2
    engine.advance(10.0)
    assert engine.telemetry.finished == 5


def test_a_slower_gpu_stretches_the_steps() -> None:
    engine = Engine(CONFIG)
    engine.slow_down(3.0)
    request = Request(50, 3)
    engine.submit(request)
    engine.advance(1.0)
    assert request.end_to_end_seconds == pytest.approx(3 * 0.037)
