"""Runtimes that lack an input: what is still said, how, and what is not."""

from __future__ import annotations

from math import isnan
from typing import Any

import pytest

from sidecar.schema import Method, Status
from sidecar.signals import GapObjective, Settings, Signals
from sidecar.snapshot import Block
from tests.signals.worlds import EMPTY_GAPS, EMPTY_POLL, Replica

Poll = dict[str, float]


def steady(polls: int, first: Poll, each: Poll) -> list[Poll]:
    """Counters that grow by `each` from poll to poll."""
    return [
        {field: value + each.get(field, 0.0) * place for field, value in first.items()}
        for place in range(polls)
    ]


def last(signals: Signals, polls: list[Poll], runtime: str = "vllm") -> Block:
    replica = Replica(runtime=runtime)
    blocks = [signals.feed(replica.snapshot(2.0 * place, poll)) for place, poll in enumerate(polls)]
    assert blocks[-1] is not None
    return blocks[-1]


def said(signals: Signals, signal: str) -> tuple[Status, Method, str]:
    (one,) = [record for record in signals.provenance if record.signal == signal]
    return one.status, one.method, one.source or one.note


def decision(block: Block) -> tuple[str, str]:
    (one,) = [
        series for series in block.layout.find("replica_demand_info") if block.values[series.start] == 1
    ]
    return one.label("limit"), one.label("reason")


def test_without_a_gauge_of_what_runs_the_native_times_are_the_work() -> None:
    """Triton: a gauge of what is pending, and the sums of queue and compute time. 2 requests a second, each
    waits 1 s and computes 4 s."""
    first = {"waiting": 2.0, "slots": 16.0, "finished": 0.0, "inf_sum": 0.0, "queue_sum": 0.0}
    signals = Signals(Settings(gpus=2))
    polls = steady(60, first, {"finished": 4, "inf_sum": 16, "queue_sum": 4})
    block = last(signals, polls, "triton")
    assert said(signals, "queue_seconds_total")[2] == "sum of request_queue_time_seconds"
    assert said(signals, "compute_seconds_total")[2] == "sum of request_inference_time_seconds"
    assert block.get("queue_seconds_total") == 4 * 59
    assert block.get("compute_seconds_total") == 16 * 59
    assert block.get("queue_to_compute_ratio", window="1m") == 0.25
    assert block.get("service_time_seconds") == 4
    assert block.get("offered_load_requests") == 8
    assert block.get("saturation_ratio", resource="slots") == 0.5
    assert block.get("saturation_ratio", resource="queue") == 2 / 16
    assert decision(block) == ("slots", "load")
    assert block.get("replica_demand") == pytest.approx((8 + 2 * 4 / 30) / (16 * 0.9))
    assert block.get("queued_gpu_seconds") == 2 * 4 / 16 * 2
    assert said(signals, "arrivals_total")[1] is Method.ESTIMATED
    assert block.get("arrivals_total") == 4 * 59
    assert isnan(block.get("safe_to_remove"))  # nobody knows what executes
    assert said(signals, "safe_to_remove")[0] is Status.NOT_EXPOSED


def test_without_any_gauge_levels_come_from_the_native_times() -> None:
    first = {"slots": 16.0, "finished": 0.0, "inf_sum": 0.0, "queue_sum": 0.0}
    polls = steady(60, first, {"finished": 4, "inf_sum": 16, "queue_sum": 4})
    block = last(Signals(), polls, "triton")
    assert block.get("saturation_ratio", resource="queue") == 2 / 16
    assert block.get("replica_demand") == pytest.approx((8 + 2 * 4 / 30) / (16 * 0.9))


def test_without_gaps_between_tokens_nothing_is_stretched_and_no_objective_limits() -> None:
    polls = steady(
        60, EMPTY_POLL | {"running": 16.0, "slots": 64.0}, {"finished": 4, "inf_cnt": 4, "inf_sum": 32}
    )
    signals = Signals(Settings(gap_objectives=(GapObjective(0.05, 0.05),)))
    block = last(signals, polls)
    assert isnan(block.get("capacity_requests", limit="slo"))
    assert isnan(block.get("idle_inter_token_latency_seconds"))
    assert block.get("replica_demand") == pytest.approx(16 / (64 * 0.9))
    assert decision(block) == ("slots", "load")
    assert said(signals, "idle_inter_token_latency_seconds")[0] is Status.NOT_EXPOSED


def test_a_replica_that_only_prefills_has_gaps_without_observations() -> None:
    """Each request ends with its first token: the objective on gaps belongs to those who decode."""
    first = EMPTY_POLL | EMPTY_GAPS | {"running": 16.0, "slots": 64.0}
    signals = Signals(Settings(gap_objectives=(GapObjective(0.05, 0.05),)))
    block = last(signals, steady(60, first, {"finished": 40, "inf_cnt": 40, "inf_sum": 32}))
    assert isnan(block.get("capacity_requests", limit="slo"))
    assert block.get("replica_demand") == pytest.approx(16 / (64 * 0.9))


def test_without_execution_times_they_come_from_whole_and_queue_times() -> None:
    first = {"running": 8.0, "waiting": 0.0, "finished": 0.0, "slots": 16.0, "e2e_sum": 0.0, "queue_sum": 0.0}
    signals = Signals()
    block = last(signals, steady(40, first, {"finished": 4, "e2e_sum": 28, "queue_sum": 12}))
    assert block.get("service_time_seconds") == 4
    assert said(signals, "service_time_seconds")[1] is Method.ESTIMATED


def test_without_any_times_littles_law_gives_the_service_time() -> None:
    first = {"running": 8.0, "waiting": 0.0, "finished": 0.0, "slots": 16.0}
    signals = Signals()
    block = last(signals, steady(40, first, {"finished": 4}))
    assert block.get("service_time_seconds") == pytest.approx(4)
    assert "Little" in said(signals, "service_time_seconds")[2]


def test_without_finishes_what_runs_is_the_load() -> None:
    signals = Signals()
    block = last(signals, steady(40, {"running": 8.0, "waiting": 2.0, "slots": 16.0}, {}))
    assert isnan(block.get("service_time_seconds"))
    assert block.get("offered_load_requests") == 8
    assert decision(block) == ("slots", "no_service_time")
    assert isnan(block.get("queued_gpu_seconds"))
    assert said(signals, "offered_load_requests")[1] is Method.ESTIMATED


def test_without_a_gauge_of_what_waits_there_is_no_queue_and_no_backlog() -> None:
    signals = Signals()
    block = last(signals, steady(40, {"running": 8.0, "finished": 0.0, "slots": 16.0}, {"finished": 4}))
    for signal in ("queue_seconds_total", "queue_to_compute_ratio", "queued_gpu_seconds", "safe_to_remove"):
        assert isnan(block.get(signal)), signal
        assert said(signals, signal)[0] is Status.NOT_EXPOSED
    assert block.get("replica_demand") == pytest.approx(8 / (16 * 0.9))
    assert said(signals, "offered_load_requests")[1] is Method.ESTIMATED


def test_a_runtime_of_which_nothing_is_known_has_no_block() -> None:
    signals = Signals()
    block: Any = signals.feed(Replica().snapshot(0, {"tokens": 5.0}))
    assert {series.signal.name for series in block.layout.series} == {"signal_info"}


def test_work_without_a_model_belongs_to_the_only_one() -> None:
    """A server of one model may label its requests and not its queue."""
    replica = Replica()
    block = Signals().feed(
        replica.snapshot(0, {"m": {"running": 3.0, "finished": 0.0}, "": {"waiting": 2.0, "slots": 8.0}})
    )
    assert block is not None
    assert block.get("requests_waiting_peak", model_name="m") == 2
    assert block.get("saturation_ratio", resource="slots", model_name="m") == 3 / 8
