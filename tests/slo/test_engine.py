"""Events of an objective against the truth: restarts, gaps, layouts that change, lines that fail."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isnan, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.slo import SloEngine
from sidecar.snapshot import Block
from tests.slo.worlds import AVAILABILITY, GOODPUT, TTFT, Runtime, bad, burn, events, status


def test_all_series_exist_at_zero_before_the_first_event() -> None:
    block = SloEngine([TTFT, AVAILABILITY]).feed(Runtime().snapshot(0))
    for slo in ("ttft", "availability"):
        assert events(block, slo) == 0
        for bound in ("strict", "lenient", "estimate"):
            assert bad(block, slo, bound) == 0
        assert isnan(block.get("slo_error_budget_remaining_ratio", slo=slo))  # nothing was watched yet
        assert status(block, slo) == "ok"


def test_labels_are_those_of_the_schema() -> None:
    block = SloEngine([TTFT, AVAILABILITY, GOODPUT]).feed(Runtime().snapshot(0))
    for series in block.layout.series:
        allowed = {"target", "runtime", "model_name", *series.signal.labels}
        assert {name for name, _ in series.labels} <= allowed


def test_what_happened_before_the_sidecar_is_not_counted() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT])
    runtime.observe(3.0, 1000)
    engine.feed(runtime.snapshot(0))
    runtime.observe(3.0, 2)
    runtime.observe(0.2, 5)
    block = engine.feed(runtime.snapshot(2))
    assert (events(block), bad(block)) == (7, 2)


def test_a_restart_is_a_matter_of_the_whole_target() -> None:
    """Bad events overtake their old count at once; alone they would not look restarted."""
    runtime, engine = Runtime(), SloEngine([TTFT, AVAILABILITY])
    engine.feed(runtime.snapshot(0))
    runtime.observe(0.2, 1000)
    runtime.observe(3.0, 10)
    runtime.finish("error", 3)
    engine.feed(runtime.snapshot(2))
    runtime.restart()
    runtime.observe(3.0, 20)
    runtime.finish("error", 5)
    block = engine.feed(runtime.snapshot(4))
    assert (events(block), bad(block)) == (1030, 30)
    assert bad(block, "availability") == 8


def test_a_counter_that_falls_is_a_restart_even_if_nobody_said_so() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT, AVAILABILITY])
    engine.feed(runtime.snapshot(0))
    runtime.observe(0.2, 100)
    runtime.finish("error", 1)
    engine.feed(runtime.snapshot(2))
    runtime.restart()
    runtime.observe(0.2, 50)
    runtime.finish("error", 2)
    block = engine.feed(replace(runtime.snapshot(4), epoch=0))
    assert (events(block), bad(block, "availability")) == (150, 3)


def test_a_start_time_that_is_computed_anew_is_no_restart() -> None:
    """A restart within the sidecar's life is the snapshot's epoch to tell, which knows of jitter."""
    runtime, engine = Runtime(started=100.0), SloEngine([TTFT])
    runtime.observe(0.2, 1000)
    engine.feed(runtime.snapshot(0))
    runtime.started = 107.0
    runtime.observe(0.2, 5)
    assert events(engine.feed(runtime.snapshot(2))) == 5


def test_a_gap_loses_nothing_and_is_blind_not_idle() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT])
    for time in range(0, 400, 2):
        runtime.observe(0.2)
        block = engine.feed(runtime.snapshot(time))
    assert burn(block, "5m") == 0
    for time in range(400, 500, 2):
        block = engine.feed(runtime.down(time))
    assert isnan(burn(block, "5m"))
    assert events(block) == 199  # a counter stays, whatever the target does
    runtime.observe(3.0, 50)
    block = engine.feed(runtime.snapshot(500))
    assert (events(block), bad(block)) == (249, 50)


def test_idle_burns_nothing() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT])
    for time in range(0, 400, 2):
        block = engine.feed(runtime.snapshot(time))
    assert burn(block, "5m") == 0
    assert block.get("slo_error_budget_remaining_ratio", slo="ttft") == 1


def test_a_window_is_told_when_it_was_seen() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT])
    told = {}
    for time in range(0, 400, 2):
        runtime.observe(3.0)
        block = engine.feed(runtime.snapshot(time))
        told[time] = burn(block, "5m")
        coverage = block.get("slo_window_coverage_ratio", slo="ttft", window="5m")
        assert coverage == pytest.approx(min(1.0, time / 300))
    assert all(isnan(value) for time, value in told.items() if time < 270)
    assert all(value == pytest.approx(20) for time, value in told.items() if time > 270)


def test_other_buckets_in_the_same_life_lose_one_poll_at_most() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT])
    engine.feed(runtime.snapshot(0))
    runtime.observe(3.0, 10)
    runtime.observe(0.2, 90)
    engine.feed(runtime.snapshot(2))
    runtime.observe(0.2, 7)  # the poll that is lost
    runtime.relayout((0.5, 0.9, 2.0, 10.0, inf))
    engine.feed(runtime.snapshot(4))
    runtime.observe(3.0, 1)
    block = engine.feed(runtime.snapshot(6))
    assert (events(block), bad(block)) == (101, 11)


def test_other_buckets_in_a_new_life_lose_nothing() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT])
    engine.feed(runtime.snapshot(0))
    runtime.observe(3.0, 10)
    engine.feed(runtime.snapshot(2))
    runtime.restart(bounds=(0.5, 1.0, 2.0, inf))
    runtime.observe(3.0, 4)
    block = engine.feed(runtime.snapshot(4))
    assert (events(block), bad(block)) == (14, 14)


def test_a_series_that_is_born_with_its_first_event_counts_it() -> None:
    few = Runtime(outcomes=("success", "error"))
    engine = SloEngine([AVAILABILITY])
    engine.feed(few.snapshot(0))
    few.finish("success", 5)
    engine.feed(few.snapshot(2))
    more = Runtime(outcomes=("success", "error", "timeout"))
    more.finish("success", 5)
    more.finish("timeout", 1)
    block = engine.feed(more.snapshot(4))
    assert (events(block, "availability"), bad(block, "availability")) == (6, 1)


def test_numbers_that_are_absent_for_a_tick_are_made_up_later() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT, AVAILABILITY])
    engine.feed(runtime.snapshot(0))
    runtime.observe(3.0, 5)
    runtime.finish("error", 2)
    whole = runtime.data()
    histogram = len(runtime.bounds) + 1
    holey = Block(whole.layout, (*(nan for _ in range(histogram)), *whole.values[histogram:]))
    block = engine.feed(runtime.snapshot(2, data=holey))
    assert (events(block), bad(block, "availability")) == (0, 2)
    block = engine.feed(runtime.snapshot(4))
    assert (events(block), bad(block), bad(block, "availability")) == (5, 5, 2)


def test_numbers_that_were_never_there_begin_with_their_first() -> None:
    runtime, engine = Runtime(), SloEngine([TTFT])
    runtime.observe(3.0, 500)
    whole = runtime.data()
    engine.feed(runtime.snapshot(0, data=Block(whole.layout, tuple(nan for _ in whole.values))))
    engine.feed(runtime.snapshot(2))
    runtime.observe(3.0, 1)
    assert events(engine.feed(runtime.snapshot(4))) == 1


def test_a_cancelled_request_is_neither_good_nor_bad() -> None:
    runtime, engine = Runtime(), SloEngine([AVAILABILITY])
    engine.feed(runtime.snapshot(0))
    for outcome, times in {"success": 5, "error": 1, "timeout": 2, "rejected": 3, "cancelled": 40}.items():
        runtime.finish(outcome, times)
    block = engine.feed(runtime.snapshot(2))
    assert (events(block, "availability"), bad(block, "availability")) == (11, 6)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("work", "work", "work", "restart", "down", "buckets")),
            st.integers(0, 30),
            st.integers(0, 30),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_nothing_is_ever_counted_twice(story: list[tuple[str, int, int]]) -> None:
    """Counts stay below the truth, by no more than what restarts and changed buckets may cost."""
    runtime, engine = Runtime(), SloEngine([TTFT])
    engine.feed(runtime.snapshot(0))
    truth, truth_bad, pending, lost = 0, 0, 0, 0
    for step, (what, good, slow) in enumerate(story, 1):
        runtime.observe(0.2, good)
        runtime.observe(3.0, slow)
        truth, truth_bad, pending = truth + good + slow, truth_bad + slow, pending + good + slow
        if what == "restart":
            lost, pending = lost + pending, 0
            runtime.restart()
        elif what == "buckets":
            lost, pending = lost + pending, 0
            runtime.relayout((0.5, 1.0, inf) if len(runtime.bounds) > 3 else (0.25, 1.0, 2.5, inf))
        block = engine.feed(runtime.down(2.0 * step) if what == "down" else runtime.snapshot(2.0 * step))
        pending = pending if what == "down" else 0
    block = engine.feed(runtime.snapshot(2.0 * len(story) + 2))
    assert truth - lost <= events(block) <= truth
    assert truth_bad - lost <= bad(block) <= truth_bad
