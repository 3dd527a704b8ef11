"""The block of a target: what is there, what is absent, over restarts, silences, new series and new models."""

from __future__ import annotations

from dataclasses import replace
from math import isnan, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.outputs.prometheus.page import render_blocks
from sidecar.schema import SIGNALS, Kind
from sidecar.signals import GapObjective, GpuFigures, Settings, Signals
from sidecar.snapshot import Block, block_of
from tests.signals.worlds import EMPTY_GAPS, FULL, Replica, burn_rates, fed, present

OBJECTIVE = (GapObjective(0.05, 0.05),)


def run(signals: Signals, replica: Replica, polls: list[dict[str, Any]], start: float = 0.0) -> list[Block]:
    """One poll every two seconds."""
    return [fed(signals, replica.snapshot(start + 2.0 * place, poll)) for place, poll in enumerate(polls)]


def told(block: Block, signal: str) -> list[dict[str, str]]:
    return [
        dict(one.labels)
        for one in block.layout.by_signal["signal_info"]
        if one.label("signal") == signal and block.values[one.start] == 1
    ]


def test_an_idle_replica_has_every_signal_from_the_first_poll_on_and_they_are_0() -> None:
    everything = Settings(gap_objectives=OBJECTIVE, service_time=5, gpus=2, gpu_hour_price=2.5)
    signals = Signals(everything, gpus=lambda: GpuFigures(2, 10.0, 0.5))
    replica = Replica(extra=(burn_rates(0.0),))
    block = fed(signals, replica.snapshot(0, FULL))
    for signal in (
        *("queue_seconds_total", "compute_seconds_total", "queue_to_compute_ratio", "arrivals_total"),
        *("offered_load_requests", "replica_demand", "queued_gpu_seconds", "accepted_requests_total"),
        *("accepted_generation_tokens_total", "energy_joules_total", "requests_waiting_peak"),
    ):
        assert block.get(signal) == 0, signal
    assert block.get("replica_demand_info", limit="slots", reason="idle") == 1
    assert block.get("safe_to_remove") == 1
    assert block.get("service_time_seconds") == 5
    assert told(block, "service_time_seconds")[0]["method"] == "estimated"


def test_labels_are_those_of_the_schema() -> None:
    signals = Signals(
        Settings(gap_objectives=OBJECTIVE, gpu_hour_price=2.5), gpus=lambda: GpuFigures(1, 0.0, 0.5)
    )
    block = fed(signals, Replica(extra=(burn_rates(0.0),)).snapshot(0, FULL))
    seen = set()
    for series in block.layout.series:
        names = {name for name, _ in series.labels}
        assert names <= {"target", "runtime", "model_name", *series.signal.labels}
        assert {"target", "runtime"} <= names
        seen.add(series.signal.name)
    derived = {name for name in SIGNALS if (name in seen) and name != "signal_info"}
    assert derived == {record.signal for record in signals.provenance}
    page = render_blocks([block]).decode()
    assert "} nan" not in page.lower()


# Blind ----------------------------------------------------------------------------------------------


def test_blind_is_absent_but_for_what_is_paid_for() -> None:
    signals = Signals(Settings(gpu_hour_price=2.0), gpus=lambda: GpuFigures(1, 50.0))
    replica = Replica()
    assert signals.feed(replica.down(0)) is None
    fed(signals, replica.snapshot(10, FULL))
    block = fed(signals, replica.down(3610))
    assert present(block) == {"energy_joules_total", "cost_total"}
    assert block.get("cost_total", currency="USD") == pytest.approx(2.0, rel=0.01)
    assert "energy_joules_total" in present(fed(signals, replica.snapshot(3612, FULL)))


def test_values_are_held_as_long_as_the_runtimes_are_but_nobody_knows_that_it_is_idle() -> None:
    signals, replica = Signals(), Replica()
    last = fed(signals, replica.snapshot(0, FULL))
    held = fed(signals, replica.snapshot(2, FULL, up=False))
    assert present(last) - present(held) == {"safe_to_remove"}


def test_a_poll_that_misses_a_gauge_has_no_values_and_costs_no_work() -> None:
    signals, replica = Signals(), Replica()
    blocks = run(
        signals,
        replica,
        [FULL | {"running": 4.0}, FULL | {"running": nan}, FULL | {"running": 4.0}],
    )
    assert present(blocks[1]) == {"signal_info"}
    assert blocks[2].get("compute_seconds_total") == 16


# Time -----------------------------------------------------------------------------------------------


def test_a_restart_loses_nothing_that_was_counted_and_counts_nothing_twice() -> None:
    signals, replica = Signals(), Replica()
    busy = FULL | {"running": 10.0, "waiting": 5.0, "finished": 100.0}
    run(signals, replica, [busy | {"finished": 90.0 + place} for place in range(11)])
    replica.epoch += 1
    fresh = FULL | {"running": 2.0, "finished": 3.0}
    block = fed(signals, replica.snapshot(22, fresh))
    assert block.get("compute_seconds_total") == 200
    assert block.get("arrivals_total") == 10 + 3 + 2
    block = fed(signals, replica.snapshot(24, fresh))
    assert block.get("compute_seconds_total") == 204
    assert block.get("requests_waiting_peak") == 0  # of this life


@pytest.mark.parametrize("away", ["gauges", "model"])
def test_a_restart_is_not_forgotten_over_polls_that_told_nothing(away: str) -> None:
    """After a restart a runtime may show no gauge, or not serve the model, for a while."""
    signals, replica = Signals(), Replica()
    served = {"running": 10.0, "finished": 500.0, "inf_cnt": 500.0, "inf_sum": 2000.0}
    run(signals, replica, [FULL | served] * 5)
    replica.epoch += 1
    if away == "gauges":
        fed(signals, replica.snapshot(10, FULL | {"running": nan, "waiting": nan}))
    else:
        fed(signals, replica.snapshot(10, {"other": FULL}))
    fresh = {"running": 10.0, "finished": 12.0, "inf_cnt": 12.0, "inf_sum": 60.0}
    block = fed(signals, replica.snapshot(12, {"m": FULL | fresh, "other": FULL}))
    assert block.get("compute_seconds_total", model_name="m") == 80
    assert block.get("arrivals_total", model_name="m") == 12 + 10
    block = fed(
        signals,
        replica.snapshot(14, {"m": FULL | fresh | {"inf_cnt": 24.0, "inf_sum": 132.0}, "other": FULL}),
    )
    assert block.get("service_time_seconds", model_name="m") == 6


def test_a_replica_that_is_young_starts_from_nothing() -> None:
    """Its load grows over a window, so that the sum over the fleet stays the fleet's."""
    signals, replica = Signals(Settings(service_time=10)), Replica()
    first = fed(signals, replica.snapshot(0, FULL | {"running": 30.0}))
    assert first.get("offered_load_requests") == 30 / 60 * 10
    for place in range(1, 31):
        block = fed(signals, replica.snapshot(2.0 * place, FULL | {"running": 30.0}))
    assert block.get("offered_load_requests") == 30


@pytest.mark.parametrize("known", ["process start", "an earlier process of the sidecar"])
def test_an_old_replica_that_is_met_anew_is_taken_at_its_level(known: str) -> None:
    poll = FULL | {"running": 30.0}
    replica = Replica(clock=1e9)
    saved = None
    if known == "process start":
        replica.started = 1e9 - 3600
    else:
        before = Signals(Settings(service_time=10))
        run(before, replica, [poll] * 5, start=-40)
        saved = before.saved()
    signals = Signals(Settings(service_time=10), saved=saved)
    block = fed(signals, replica.snapshot(0, poll))
    assert block.get("offered_load_requests") == 30
    assert block.get("compute_seconds_total") == 0  # nothing is invented that others would add up
    assert isnan(block.get("capacity_requests", limit="observed"))


def test_a_clock_that_goes_back_is_a_silence() -> None:
    signals, replica = Signals(), Replica()
    poll = FULL | {"running": 30.0}
    run(signals, replica, [poll] * 5)
    block = fed(signals, replica.snapshot(-50, poll))
    assert block.get("compute_seconds_total") == 240
    block = fed(signals, replica.snapshot(-48, poll))
    assert block.get("compute_seconds_total") == 300


def test_a_silence_longer_than_a_window_is_no_work() -> None:
    signals, replica = Signals(Settings(service_time=10)), Replica()
    poll = FULL | {"running": 30.0, "waiting": 3.0}
    run(signals, replica, [poll] * 40)
    before = fed(signals, replica.snapshot(80, poll))
    after = fed(signals, replica.snapshot(480, poll | {"running": 6.0}))
    assert after.get("compute_seconds_total") == before.get("compute_seconds_total")
    assert after.get("offered_load_requests") == 6
    short = fed(signals, replica.snapshot(530, poll | {"running": 6.0}))
    assert short.get("compute_seconds_total") == after.get("compute_seconds_total") + 6 * 50


def test_other_buckets_start_the_windows_anew() -> None:
    signals = Signals(Settings(gap_objectives=OBJECTIVE))
    gaps = {"itl_sum": 50.0, "itl_cnt": 2000.0, "itl_good": 0.0}
    replica = Replica()
    run(signals, replica, [FULL | {"running": 8.0}, FULL | {"running": 8.0} | gaps])
    snapshot = replica.snapshot(4, FULL | {"running": 8.0} | gaps)
    (one,) = snapshot.data.layout.by_signal["inter_token_latency_seconds"]
    narrow = block_without_bounds(snapshot.data, one.start, len(one.bounds))
    block = fed(signals, replace(snapshot, data=narrow))
    assert not isnan(block.get("replica_demand"))


def block_without_bounds(block: Block, start: int, width: int) -> Block:
    """The same numbers with only the last bucket of a histogram."""
    from sidecar.snapshot import LayoutBuilder

    build, values = LayoutBuilder(), []
    for series in block.layout.series:
        build.add(series.signal, series.labels, series.bounds[-1:])
        first = series.count_index if series.bounds else series.start
        values += block.values[first : first + (2 if series.bounds else 1)]
    return Block(build.build(), tuple(values))


# Several models -------------------------------------------------------------------------------------


def test_each_model_has_its_own_and_the_gpus_belong_to_all() -> None:
    signals = Signals(Settings(gpu_hour_price=1.0), gpus=lambda: GpuFigures(1, 5.0))
    replica = Replica(runtime="triton")
    block = fed(signals, replica.snapshot(0, {"a": FULL, "b": FULL | {"running": 3.0}}))
    assert block.get("safe_to_remove", model_name="a") == 1
    assert block.get("safe_to_remove", model_name="b") == 0
    (cost,) = block.layout.find("cost_total")
    assert cost.label("model_name") == ""
    block = fed(signals, replica.snapshot(2, {"a": FULL}))
    (cost,) = block.layout.find("cost_total")
    assert cost.label("model_name") == "a"


def test_a_model_that_comes_back_goes_on_counting() -> None:
    signals, replica = Signals(), Replica()
    a, b = FULL | {"running": 2.0}, FULL | {"running": 3.0}
    fed(signals, replica.snapshot(0, {"a": a, "b": b}))
    fed(signals, replica.snapshot(2, {"a": a, "b": b}))
    fed(signals, replica.snapshot(4, {"a": a}))
    block = fed(signals, replica.snapshot(6, {"a": a, "b": b}))
    assert block.get("compute_seconds_total", model_name="a") == 12
    assert block.get("compute_seconds_total", model_name="b") == 18


def test_a_server_of_very_many_models_is_bounded_and_says_so() -> None:
    signals, replica = Signals(), Replica(runtime="triton")
    poll = {"running": 1.0, "waiting": 0.0}
    for first in (0, 200):
        block = fed(
            signals, replica.snapshot(first, {f"m{place}": poll for place in range(first, first + 300)})
        )
        assert len(block.layout.by_signal["queue_seconds_total"]) == 256
    assert len(signals._models) == 256
    assert len(signals.problems) == 1 and "256" in signals.problems[0]


def test_ranks_of_one_model_are_one_replica() -> None:
    labels = {"target": "local", "runtime": "vllm", "model_name": "m"}
    rows = [
        (signal, labels | {"rank": rank}, value)
        for signal, values in (("requests_running", (4.0, 6.0)), ("requests_waiting", (1.0, 0.0)))
        for rank, value in zip(("0", "1"), values, strict=True)
    ]
    snapshot = replace(Replica().snapshot(0, FULL), data=block_of(rows))
    block = fed(Signals(), snapshot)
    assert block.get("requests_running_peak") == 10
    assert block.get("requests_waiting_peak") == 1


# Objectives -----------------------------------------------------------------------------------------


# Properties -----------------------------------------------------------------------------------------

POLL = st.fixed_dictionaries(
    {
        "running": st.integers(0, 300),
        "waiting": st.integers(0, 1000),
        "kv": st.integers(0, 100).map(lambda percent: percent / 100),
        "finished": st.integers(0, 100),
        "inf_sum": st.integers(0, 1000),
        "inf_cnt": st.integers(0, 100),
        "itl_sum": st.integers(0, 100),
        "itl_cnt": st.integers(0, 10_000),
        "itl_good": st.just(0),
        "tokens": st.integers(0, 10_000),
    }
)
COUNTED = ("finished", "inf_sum", "inf_cnt", "itl_sum", "itl_cnt", "itl_good", "tokens")


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 100), POLL, st.sampled_from("pppppprdn")), min_size=1, max_size=20),
    st.booleans(),
)
def test_nothing_is_negative_no_counter_falls_and_blind_is_absent(
    steps: list[tuple[float, dict[str, float], str]], slots: bool
) -> None:
    """Whatever a runtime tells, over polls (p), restarts (r), silence (d) and numbers that miss (n)."""
    signals, replica = Signals(Settings(gap_objectives=OBJECTIVE, gpus=1.0, gpu_hour_price=1.0)), Replica()
    total = dict.fromkeys(COUNTED, 0.0)
    before: dict[Any, float] = {}
    now = 0.0
    for seconds, poll, what in steps:
        now += seconds
        if what == "d":
            block = signals.feed(replica.down(now))
            assert block is None or present(block) <= {"cost_total", "energy_joules_total"}
            continue
        if what == "r":
            replica.epoch += 1
            total = dict.fromkeys(COUNTED, 0.0)
        total = {name: total[name] + poll[name] for name in COUNTED}
        shown = poll | total | ({"running": nan, "tokens": nan} if what == "n" else {})
        block = fed(signals, replica.snapshot(now, shown | ({"slots": 64.0} if slots else {})))
        if what == "n":
            assert isnan(block.get("replica_demand"))
        for series in block.layout.series:
            value = block.values[series.start]
            if not isnan(value):
                assert 0 <= value < float("inf"), (series.signal.name, value)
                if series.signal.kind is Kind.COUNTER:
                    key = (series.signal.name, series.labels)
                    assert value >= before.get(key, 0.0), key
                    before[key] = value


def test_a_gauge_that_comes_later_makes_no_sum_unknown_for_ever() -> None:
    """Runtimes show a gauge when it is first used; its past is not known, its future is."""
    signals, replica = Signals(), Replica()
    late = {"waiting": 1.0, "finished": 5.0, "queue_sum": 3.0, "inf_sum": 2.0, "inf_cnt": 5.0} | EMPTY_GAPS
    block = fed(signals, replica.snapshot(0, late))
    block = fed(signals, replica.snapshot(2, late))
    for second in range(4, 10, 2):
        gaps = {"itl_sum": second * 1.0, "itl_cnt": second * 50.0, "itl_good": second * 50.0}
        block = fed(signals, replica.snapshot(second, late | {"running": 4.0} | gaps))
        for signal in ("compute_seconds_total", "queue_seconds_total", "queue_to_compute_ratio"):
            assert block.get(signal) >= 0, signal
    block = fed(signals, replica.snapshot(10, {"running": 4.0, "finished": 5.0}))
    block = fed(signals, replica.snapshot(12, {"running": 4.0, "waiting": 2.0, "finished": 5.0}))
    block = fed(signals, replica.snapshot(14, {"running": 4.0, "waiting": 2.0, "finished": 5.0}))
    assert block.get("queue_seconds_total") >= 0
    assert block.get("compute_seconds_total") >= 4 * 8


def test_nothing_is_told_to_come_from_gpus_that_nobody_sees() -> None:
    figures = [GpuFigures()]
    signals = Signals(Settings(gpus=2, gpu_hour_price=2.0), gpus=lambda: figures[0])
    replica = Replica()
    block = fed(signals, replica.snapshot(0, FULL))
    assert told(block, "energy_joules_total")[0]["status"] != "ok"
    assert told(block, "cost_total")[0]["source"].startswith("GPU-hours of the config")
    figures[0] = GpuFigures(1, 50.0, 0.5)
    block = fed(signals, replica.snapshot(2, FULL))
    assert told(block, "energy_joules_total")[0]["status"] == "ok"
    assert told(block, "cost_total")[0]["source"].startswith("GPU-hours · ")
    figures[0] = GpuFigures()
    block = fed(signals, replica.snapshot(4, FULL))
    assert told(block, "energy_joules_total")[0]["status"] != "ok"
    assert "energy_joules_total" not in present(block)
