"""Each formula on numbers that can be checked by hand."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.history import Table
from sidecar.signals.arrivals import Arrivals
from sidecar.signals.capacity import KvCapacity, ObservedCapacity, slo_capacity
from sidecar.signals.decision import Decision
from sidecar.signals.energy import Meter
from sidecar.signals.gap_line import IdleGap, median, slope
from sidecar.signals.offered_load import offered_load
from sidecar.signals.peaks import peak
from sidecar.signals.queue_to_compute import queue_to_compute
from sidecar.signals.queued_gpu_seconds import queued_gpu_seconds
from sidecar.signals.replica_demand import backlog, replica_demand, stretch
from sidecar.signals.saturation import RESOURCES, saturation
from sidecar.signals.service_time import ServiceTime
from sidecar.signals.settings import GapObjective, GpuFigures, Settings
from sidecar.signals.work import mean_level, trapezoid

amounts = st.floats(0, 1e6)


def table(rows: list[tuple[float, ...]], horizon: float = 600.0) -> Table:
    """Rows of (mono, column, column, …)."""
    made = Table(len(rows[0]) - 1, horizon)
    for mono, *row in rows:
        made.append(mono, row)
    return made


# Table ---------------------------------------------------------------------------------------------


def test_a_window_starts_at_the_newest_row_at_or_before_it() -> None:
    rows = table([(0, 0), (10, 1), (20, 3), (30, 6)])
    assert rows.base(20) == 1
    assert rows.increase(0, rows.base(20)) == 5
    assert rows.base(15) == 1  # no row at 15: the one before, so that the window is covered
    assert rows.base(100) == 0
    assert rows.inside(20) == 2  # a window is open at its start


def test_old_rows_go_and_one_stays_as_the_base() -> None:
    rows = table([(float(second), second) for second in range(2000)], horizon=100.0)
    assert len(rows) < 250
    assert rows.times[rows.base(100)] == 1899


def test_peak_ignores_polls_that_told_nothing() -> None:
    rows = table([(0, nan), (1, 3), (2, nan), (3, 2)])
    assert peak(rows, 0, 0) == 3
    assert peak(rows, 0, 2) == 2
    assert isnan(peak(table([(0, nan)]), 0, 0))


# Work ----------------------------------------------------------------------------------------------


def test_work_is_the_area_under_a_gauge() -> None:
    assert trapezoid(4, 8, 10) == 60
    assert mean_level(60, 10) == 6
    assert mean_level(60, nan) == 0  # before the first interval


def test_the_ratio_is_0_when_idle_and_finite_when_nothing_computes() -> None:
    assert queue_to_compute(0, 0, 60) == 0
    assert queue_to_compute(0, 30, 60) == 0
    assert queue_to_compute(90, 30, 60) == 3
    assert queue_to_compute(120, 0, 60) == 2  # two requests wait: one over the window is the denominator
    assert queue_to_compute(240, 0, 60) == 4
    assert isnan(queue_to_compute(nan, 30, 60))


@given(amounts, amounts, st.floats(1, 600))
def test_the_ratio_is_never_negative_nor_infinite(queued: float, computed: float, seconds: float) -> None:
    ratio = queue_to_compute(queued, computed, seconds)
    assert ratio >= 0
    assert ratio < inf or computed < 1e-290


# Arrivals ------------------------------------------------------------------------------------------


def test_arrivals_are_what_finished_and_what_came_to_be_in_flight() -> None:
    arrivals = Arrivals()
    arrivals.add(3, 2)
    assert arrivals.total == 5
    arrivals.add(5, -5)
    assert arrivals.total == 5


def test_an_end_told_before_or_after_the_gauges_counts_nothing_twice() -> None:
    arrivals = Arrivals()
    arrivals.add(0, 10)
    arrivals.add(0, -4)  # the gauges know of four ends, the counter doesn't yet
    arrivals.add(4, 0)
    assert arrivals.total == 10


def test_what_was_lost_hides_no_later_arrival_for_ever() -> None:
    arrivals = Arrivals()
    arrivals.add(0, 10)
    arrivals.add(0, -10)  # all clients left and no counter ever tells
    arrivals.add(0, 0)
    arrivals.add(0, 7)
    assert arrivals.total == 17


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(-50, 50))))
def test_arrivals_never_fall_and_never_exceed_the_ups(steps: list[tuple[int, int]]) -> None:
    arrivals, before = Arrivals(), 0.0
    for finished, change in steps:
        arrivals.add(finished, change)
        assert arrivals.total >= before
        before = arrivals.total
    assert arrivals.total <= sum(max(finished + change, 0) for finished, change in steps)


# Service time --------------------------------------------------------------------------------------


def test_service_time_takes_the_shortest_window_with_ten_finishes() -> None:
    service_time = ServiceTime()
    rows = [(0.0, 0.0, 0.0), (100.0, 100.0, 10.0), (170.0, 104.0, 12.0), (200.0, 120.0, 20.0)]
    service_time.update(table(rows), 0, 1)
    assert service_time.value == 2.0  # 60 s and 120 s: 8 and 10 finishes
    rows.append((230.0, 180.0, 40.0))
    service_time.update(table(rows), 0, 1)
    assert service_time.value == pytest.approx(76 / 28)


def test_service_time_is_the_last_known_then_the_seed_then_nothing() -> None:
    quiet = table([(0.0, 0.0, 0.0), (700.0, 0.0, 0.0)])
    nothing = ServiceTime()
    nothing.update(quiet, 0, 1)
    assert nothing.value is None
    seeded = ServiceTime(4.0)
    seeded.update(quiet, 0, 1)
    assert seeded.value == 4.0
    seeded.update(table([(0.0, 0.0, 0.0), (60.0, 20.0, 10.0)]), 0, 1)
    seeded.update(quiet, 0, 1)
    assert seeded.value == 2.0


# Offered load --------------------------------------------------------------------------------------


def test_offered_load_is_what_runs_and_what_comes_beyond() -> None:
    assert offered_load(600, 0, 60, 5) == 10
    assert offered_load(600, 12, 60, 5) == 11  # 12 more in flight, each for 5 of 60 s
    assert offered_load(600, 60, 60, 300) == 70  # long ones: at most for the window
    assert offered_load(60, -600, 60, 60) == 0


# Gap line ------------------------------------------------------------------------------------------


def observed(gap: IdleGap, levels: list[float], a: float = 0.01, b: float = 0.0002) -> IdleGap:
    for second, level in enumerate(levels):
        gap.observe(float(second), level, 200, 200 * (a + b * level))
    return gap


def test_the_idle_gap_is_the_lines_intercept() -> None:
    gap = observed(IdleGap(), [1, 2, 4, 8, 16, 32, 64])
    assert gap.value(64) == pytest.approx(0.01)
    assert slope(0.0164, 0.01, 32) == pytest.approx(0.0002)


def test_without_a_light_level_it_is_the_seed_or_half_of_the_smallest() -> None:
    lowest = 0.01 + 0.0002 * 40
    assert observed(IdleGap(), [40, 64]).value(64) == pytest.approx(lowest / 2)
    assert observed(IdleGap(0.009), [40, 64]).value(64) == 0.009
    assert observed(IdleGap(0.09), [40, 64]).value(64) == pytest.approx(lowest)  # a seed that can't be


def test_heavy_levels_far_apart_make_a_line_and_a_seed_is_believed_before_it() -> None:
    assert observed(IdleGap(), [16, 24, 40, 64]).value(64) == pytest.approx(0.01)
    assert observed(IdleGap(0.009), [16, 24, 40, 64]).value(64) == 0.009


def test_one_level_says_nine_tenths_of_its_gap() -> None:
    assert observed(IdleGap(), [2]).value(64) == pytest.approx(0.9 * 0.0104)


def test_few_gaps_and_an_idle_engine_say_nothing() -> None:
    gap = IdleGap()
    gap.observe(0, 5, 9, 1)
    gap.observe(1, 0, 100, 1)
    gap.observe(2, 5, 50, 1)
    assert gap.value(64) is None


def test_old_gaps_fade() -> None:
    gap = observed(IdleGap(), [1, 2, 4, 8, 16, 32, 64], a=0.01)
    for second in range(6000, 6300):
        for level in (1, 2, 4, 8, 16, 32, 64):
            gap.observe(second, level, 200, 200 * (0.02 + 0.0002 * level))
    assert gap.value(64) == pytest.approx(0.02, rel=1e-3)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_median_lies_between_the_extremes(values: list[float]) -> None:
    ordered = sorted(values)
    assert ordered[0] <= median(ordered) <= ordered[-1]


# Capacity ------------------------------------------------------------------------------------------


def test_kv_capacity_is_the_median_of_full_enough_polls() -> None:
    kv = KvCapacity()
    assert kv.value is None
    kv.observe(0, 1, 0.1)
    assert kv.value is None
    for second, running in enumerate((10, 20, 60)):
        kv.observe(second, running, 0.5)
    assert kv.value == 40
    kv.observe(700, 1, 0.1)
    assert kv.value is None  # all of it is older than ten minutes


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 500), st.floats(0.2, 1)), max_size=400))
def test_kv_capacity_forgets_exactly_what_it_saw(polls: list[tuple[float, float, float]]) -> None:
    kv, now, seen = KvCapacity(), 0.0, []
    for seconds, running, usage in polls:
        now += seconds
        kv.observe(now, running, usage)
        seen = [(at, one) for at, one in [*seen, (now, running / usage)] if at > now - 600][-300:]
        assert kv.value == max(median(sorted(one for _, one in seen)), 1.0)


#: Columns of the tables here: running, waiting, served, KV cache usage.
OBSERVED = (0, 1, 2, 3)


def test_observed_capacity_is_what_runs_while_a_queue_stands() -> None:
    observed = ObservedCapacity()
    rows: list[tuple[float, ...]] = [(2.0 * place, 47.0 + place % 3, 6.0, place, 0.5) for place in range(14)]
    observed.update(table(rows), *OBSERVED)
    assert observed.value(26) is None  # not for 30 s yet
    rows += [(28.0, 48.0, 6.0, 14, 0.5), (30.0, 50.0, 6.0, 15, 0.5)]
    observed.update(table(rows), *OBSERVED)
    assert observed.value(30) == pytest.approx(48, rel=0.01)
    assert observed.value(30 + 601) is None


def test_another_process_may_have_other_limits() -> None:
    decision = Decision(Settings(), None)
    rows = [(2.0 * place, 48.0, 6.0, place, 0.5) for place in range(16)]
    decision.observed.update(table(rows), *OBSERVED)
    assert decision.observed.value(30) == 48.0
    decision.restarted()
    assert decision.observed.value(30) is None


def test_a_plateau_under_a_queue_is_what_the_engine_has_slots_for() -> None:
    observed = ObservedCapacity()
    rows: list[tuple[float, ...]] = [(2.0 * at, 24.0 - (at % 6 == 0), 9.0, at, 0.5) for at in range(16)]
    observed.update(table(rows), *OBSERVED)
    assert observed.value(30 + 86_400) == 24.0
    observed.update(table([*rows, (32.0, 25.0, 0.0, 16, 0.5)]), *OBSERVED)
    assert observed.value(32 + 601) is None, "it ran more"


@pytest.mark.parametrize(
    ("served", "usage"),
    [(0.0, 0.5), (1.0, 0.93)],
    ids=["nothing comes and goes: it hangs", "its KV cache is full"],
)
def test_a_plateau_of_something_else_is_forgotten(served: float, usage: float) -> None:
    observed = ObservedCapacity()
    observed.update(table([(2.0 * at, 24.0, 9.0, served * at, usage) for at in range(16)]), *OBSERVED)
    assert observed.value(30 + 600) == 24.0
    assert observed.value(30 + 601) is None


def test_a_queue_that_comes_and_goes_shows_no_capacity() -> None:
    observed = ObservedCapacity()
    observed.update(
        table([(2.0 * place, 48.0, 12.0 * (place % 2), place, 0.5) for place in range(20)]), *OBSERVED
    )
    assert observed.value(40) is None


def limit(**over: float) -> float:
    given = {
        "level": 32,
        "idle": 0.01,
        "slope": 0.0002,
        "gaps": 1000,
        "bad_gaps": 0,
        "most": 100,
        "threshold": 0.05,
        "budget": 0.05,
    }
    return slo_capacity(**(given | over))  # type: ignore[arg-type]


def test_the_objective_limits_by_its_mean_and_by_its_tail() -> None:
    assert limit() == pytest.approx((0.0425 - 0.01) / 0.0002)
    assert limit(bad_gaps=50) == pytest.approx(32 * 0.5)  # a share of 5 %: half of the budget is the aim
    assert limit(bad_gaps=500) == pytest.approx(32 * 0.5)  # never below half of the present level
    assert limit(bad_gaps=50, gaps=199) == limit()  # too few gaps to judge a tail


def test_an_objective_can_at_most_triple_the_fleet() -> None:
    capacity = limit(threshold=0.0001)
    throughput = capacity / (0.01 + 0.0002 * capacity)
    assert throughput == pytest.approx(100 / (0.01 + 0.0002 * 100) / 3)


# Demand --------------------------------------------------------------------------------------------


def test_the_demand_is_load_and_backlog_stretched_over_capacity() -> None:
    assert backlog(30, 10, 40, 30) == 10
    assert backlog(300, 10, 40, 30) == 20  # at most half of the load
    assert stretch(0.01, 0.0002, 64, 0.0164) == pytest.approx(0.0228 / 0.0164)
    assert replica_demand(40, 10, 1.2, 100, 0.8) == pytest.approx(50 * 1.2 / 80)


def test_queued_gpu_seconds() -> None:
    assert queued_gpu_seconds(32, 10, 64, 4) == 20
    assert isnan(queued_gpu_seconds(32, 10, nan, 4))


def test_saturation_leaves_out_what_is_not_known() -> None:
    known = dict(zip(RESOURCES, saturation(32, 64, 0.7, 96, 64, 0.9), strict=True))
    assert known == {"slots": 0.5, "kv_cache": 0.7, "queue": 1.5, "gpu_memory": 0.9, "max": 1.5}
    part = dict(zip(RESOURCES, saturation(32, nan, nan, 0, nan, 0.9), strict=True))
    assert part["max"] == 0.9 and isnan(part["slots"])
    assert isnan(saturation(1, nan, nan, nan, nan, nan)[-1])


def test_an_engines_own_pool_says_nothing_of_its_gpus_memory() -> None:
    assert saturation(32, 64, 0.1, 0, 64, 0.95)[-1] == 0.5


# Energy and cost -----------------------------------------------------------------------------------


def test_energy_counts_from_the_first_sight_and_over_a_reload_of_the_driver() -> None:
    meter = Meter(None)
    for mono, joules in ((0, 1000.0), (1, 1300.0), (2, nan), (3, 50.0), (4, 80.0)):
        meter.feed(mono, GpuFigures(2, joules))
    assert meter.joules == 300 + 50 + 30
    assert isnan(meter.cost)
    meter.feed(5, GpuFigures(2))
    assert isnan(meter.joules)


def test_cost_is_gpu_hours_times_the_price() -> None:
    meter = Meter(2.5)
    meter.feed(0, GpuFigures())
    assert isnan(meter.cost)
    meter.feed(100, GpuFigures(4))
    meter.feed(3700, GpuFigures(4))
    assert meter.cost == pytest.approx(4 * 2.5 * 3700 / 3600)


def test_the_strictest_gap_objective_of_a_model_counts() -> None:
    settings = Settings(
        gap_objectives=(
            GapObjective(0.1, 0.05),
            GapObjective(0.05, 0.01, ("llama*",)),
            GapObjective(0.2, 0.1),
        )
    )
    assert settings.gap_objective("llama-8b") == GapObjective(0.05, 0.01, ("llama*",))
    other = settings.gap_objective("qwen")
    assert other is not None and other.threshold == 0.1
    assert Settings().gap_objective("qwen") is None
