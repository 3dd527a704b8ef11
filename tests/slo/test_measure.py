"""How an objective is measured: bounds around the truth, estimates, and what can't be measured."""

from __future__ import annotations

import random
from dataclasses import replace
from math import inf, isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.schema import Method, Status
from sidecar.slo import SloEngine
from sidecar.snapshot import Provenance
from tests.slo.worlds import AVAILABILITY, GOODPUT, TTFT, Runtime, bad, burn, events, status


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 30), min_size=1, max_size=200), st.floats(0.11, 9.9))
def test_bounds_bracket_the_truth(latencies: list[float], threshold: float) -> None:
    runtime = Runtime()
    engine = SloEngine([replace(TTFT, threshold=threshold)])
    engine.feed(runtime.snapshot(0))
    for latency in latencies:
        runtime.observe(latency)
    block = engine.feed(runtime.snapshot(2))
    truth = sum(latency > threshold for latency in latencies)
    assert bad(block, bound="lenient") <= truth <= bad(block, bound="strict")
    estimate = bad(block, bound="estimate")
    assert bad(block, bound="lenient") <= estimate + 1e-9
    assert estimate <= bad(block, bound="strict") + 1e-9
    assert events(block) == len(latencies)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 9), st.floats(0.01, 9)), min_size=1, max_size=100))
def test_goodput_bounds_bracket_the_truth(requests: list[tuple[float, float]]) -> None:
    runtime = Runtime(signals=("time_to_first_token_seconds", "e2e_request_latency_seconds"))
    engine = SloEngine([GOODPUT])
    engine.feed(runtime.snapshot(0))
    for first, rest in requests:
        runtime.observe(first)
        runtime.observe(first + rest, signal="e2e_request_latency_seconds")
    block = engine.feed(runtime.snapshot(2))
    truth = sum(first > 1 or first + rest > 5 for first, rest in requests)
    assert bad(block, "goodput", "lenient") <= truth <= bad(block, "goodput", "strict")
    assert events(block, "goodput") == len(requests)


def test_yesterdays_limit_does_not_hide_todays() -> None:
    runtime = Runtime(signals=("time_to_first_token_seconds", "e2e_request_latency_seconds"))
    engine = SloEngine([GOODPUT])
    for time in range(0, 4000, 2):
        first = 3.0 if time < 2000 else 0.2
        runtime.observe(first)
        runtime.observe(first + (0.5 if time < 2000 else 9.0), signal="e2e_request_latency_seconds")
        block = engine.feed(runtime.snapshot(time))
    assert burn(block, "5m", "goodput") == pytest.approx(10, rel=0.02)


def test_goodput_counters_only_grow() -> None:
    runtime = Runtime(signals=("time_to_first_token_seconds", "e2e_request_latency_seconds"))
    engine, dice, before = SloEngine([GOODPUT]), random.Random(1), (0.0, 0.0, 0.0)
    for time in range(0, 3000, 7):
        for _ in range(dice.randrange(4)):
            runtime.observe(dice.choice((0.2, 3.0)))
        for _ in range(dice.randrange(4)):
            runtime.observe(dice.choice((0.2, 9.0)), signal="e2e_request_latency_seconds")
        block = engine.feed(runtime.snapshot(time))
        now = (
            events(block, "goodput"),
            bad(block, "goodput", "strict"),
            bad(block, "goodput", "lenient"),
        )
        assert all(new >= old for new, old in zip(now, before, strict=True))
        assert now[2] <= now[1] <= now[0]
        before = now


def test_a_histogram_without_buckets_is_not_measurable() -> None:
    note = Provenance("time_to_first_token_seconds", Status.OK, note="start it with histogram_latencies=true")
    runtime, engine = Runtime(bounds=(inf,), provenance=(note,)), SloEngine([TTFT])
    block = engine.feed(runtime.snapshot(0))
    assert status(block, "ttft") == "not_measurable"
    assert not list(block.layout.find("slo_events_total"))
    (finding,) = engine.findings("local")
    assert finding.code == "not_measurable"
    assert "histogram_latencies=true" in finding.message


def test_a_mean_judges_whole_intervals_and_is_an_estimate() -> None:
    runtime, engine = Runtime(bounds=(inf,)), SloEngine([replace(TTFT, method="mean")])
    engine.feed(runtime.snapshot(0))
    runtime.observe(0.2, 4)
    runtime.observe(3.0, 1)  # mean 0.76
    engine.feed(runtime.snapshot(2))
    runtime.observe(3.0, 3)
    block = engine.feed(runtime.snapshot(4))
    assert (events(block), bad(block), bad(block, bound="strict")) == (8, 3, 3)
    assert status(block, "ttft") == "estimated"


def test_availability_needs_an_outcome_that_fails() -> None:
    note = Provenance("requests_total:error", Status.NOT_OBSERVABLE, note="needs version 0.13")
    runtime = Runtime(outcomes=("success", "cancelled"), provenance=(note,))
    engine = SloEngine([AVAILABILITY])
    assert status(engine.feed(runtime.snapshot(0)), "availability") == "not_measurable"
    assert "needs version 0.13" in engine.findings("local")[0].message


def test_a_lower_bound_of_errors_is_an_estimate() -> None:
    note = Provenance("requests_total", Status.OK, Method.ESTIMATED)
    engine = SloEngine([AVAILABILITY])
    assert status(engine.feed(Runtime(provenance=(note,)).snapshot(0)), "availability") == "estimated"


@pytest.mark.parametrize(("threshold", "nearest"), [(0.05, "0.1 s"), (20.0, "10 s")])
def test_a_threshold_outside_of_the_buckets_is_told(threshold: float, nearest: str) -> None:
    engine = SloEngine([replace(TTFT, threshold=threshold)])
    assert status(engine.feed(Runtime().snapshot(0)), "ttft") == "not_measurable"
    assert nearest in engine.findings("local")[0].message


def test_a_bucket_that_holds_more_than_the_budget_is_told() -> None:
    runtime, engine = Runtime(), SloEngine([replace(TTFT, threshold=0.8)])
    engine.feed(runtime.snapshot(0))
    assert [one.code for one in engine.findings("local")] == ["threshold_between"]
    runtime.observe(0.2, 90)
    runtime.observe(0.9, 10)
    engine.feed(runtime.snapshot(2))
    (finding,) = engine.findings("local")
    assert finding.code == "threshold_unresolved"
    assert "0.75 s and 1 s" in finding.message


def test_an_objective_covers_the_models_it_names() -> None:
    engine = SloEngine([replace(TTFT, models=("chat-*",)), replace(TTFT, name="all")])
    block = engine.feed(Runtime(model="chat-7b").snapshot(0))
    assert {one.label("slo") for one in block.layout.find("slo_events_total")} == {"ttft", "all"}
    engine = SloEngine([replace(TTFT, models=("chat-*",)), replace(TTFT, name="all")])
    block = engine.feed(Runtime(model="embed").snapshot(0))
    assert {one.label("slo") for one in block.layout.find("slo_events_total")} == {"all"}
    assert status(block, "ttft") == "no_data"


def test_targets_are_apart() -> None:
    engine = SloEngine([TTFT])
    one, other = Runtime(target="a"), Runtime(target="b")
    engine.feed(one.snapshot(0))
    engine.feed(other.snapshot(0))
    one.observe(3.0, 5)
    assert events(engine.feed(one.snapshot(2))) == 5
    assert events(engine.feed(other.snapshot(2))) == 0


def test_a_target_that_was_never_up_says_so() -> None:
    block = SloEngine([TTFT]).feed(Runtime().down(0))
    assert [one.signal.name for one in block.layout.series] == ["slo_info", "slo_accounts_refused"]
    assert status(block, "ttft") == "no_data"


def test_a_model_that_is_unloaded_is_not_idle() -> None:
    engine, loaded = SloEngine([TTFT]), Runtime()
    for time in range(0, 400, 2):
        block = engine.feed(loaded.snapshot(time))
    assert burn(block, "5m") == 0
    block = engine.feed(Runtime(model="other").snapshot(400))
    (series,) = block.layout.find("slo_burn_rate", window="5m", model_name="m")
    assert isnan(block.values[series.start])
