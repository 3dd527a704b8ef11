"""Several replicas behind one address are told from a runtime that restarts again and again."""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.pipeline.diagnose import Level, diagnose
from sidecar.pipeline.replicas import SETTLED
from sidecar.runtimes.adapter import Answer
from sidecar.snapshot import Snapshot
from tests.pipeline.worlds import DYNAMO, NIM, NOW, TRITON, TRT, VLLM, Address, Process, value

#: Triton with several models at work.
MANY = "triton/pages/captures/load_11_six_async_streams_running.prom"
REFUSED = Answer(error="refused", detail="connection refused")
#: Of each runtime, whether its page tells when the process began.
PAGES = [(VLLM, True), (VLLM, False), (NIM, True), (TRITON, False), (TRT, False), (DYNAMO, False)]
SLOW = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],  # to shrink takes minutes, and says no more
)


def statuses(snapshot: Snapshot) -> set[str]:
    return {one.status.value for one in snapshot.provenance}


def replicas(page: str, levels: list[float], *, told: bool = True) -> list[Process]:
    return [
        Process(page, start=NOW - 5000 - 100 * place if told else None, seed=place)
        for place in range(len(levels))
    ]


@pytest.mark.parametrize(("page", "told"), PAGES)
def test_two_replicas_in_turn_are_not_a_runtime_that_restarts(page: str, told: bool) -> None:
    """However long it goes on, what is counted is never more than some swaps' worth."""
    levels = [300.0, 200.0]
    address, two = Address(page), replicas(page, levels, told=told)
    seen = []
    for tick in range(200):
        which = tick % 2
        levels[which] += 0.05
        seen.append(address.read(two[which].page(levels[which])))
    conflicts = [place for place, snapshot in enumerate(seen) if "conflict" in statuses(snapshot)]
    assert conflicts, "they are noticed"
    first = conflicts[0]
    assert first <= (2 if told else 7)
    assert conflicts == list(range(first, 200)), "and for as long as they answer in turn"
    for snapshot in seen[first:]:
        assert not snapshot.data.layout.series
        assert isnan(snapshot.life.get("target_start_timestamp_seconds"))
        assert isnan(snapshot.life.get("target_wedged"))
    restarts = value(seen[first], "target_restarts_total")
    assert value(seen[-1], "target_restarts_total") == restarts <= 3
    assert value(seen[-1], "slo_events_total", slo="availability") == pytest.approx(
        value(seen[first], "slo_events_total", slo="availability"), nan_ok=True
    )
    (found,) = [one for one in diagnose(address.pipeline, seen[-1]).findings if one.level is Level.PROBLEM]
    assert "several replicas" in found.what and "headless service" in found.mend


def test_swaps_that_look_like_models_that_reload() -> None:
    """Triton's counts of a reloaded model go on: what falls of one model alone is no restart of the server."""
    address = Address(MANY)
    two = [Process(MANY, seed=0, busy='model="slow"'), Process(MANY, seed=1)]
    seen = [address.read(two[tick % 2].page((200, 400)[tick % 2] + tick * 0.01)) for tick in range(60)]
    first = next(place for place, one in enumerate(seen) if "conflict" in statuses(one))
    assert first <= 8
    assert all("conflict" in statuses(one) for one in seen[first:])


def test_replicas_that_have_counted_the_same_are_told_by_when_they_began() -> None:
    address = Address()
    two = replicas(VLLM, [500.0, 500.0])
    seen = [address.read(two[tick % 2].page(500)) for tick in range(20)]
    first = next(place for place, one in enumerate(seen) if "conflict" in statuses(one))
    assert first <= 4
    assert value(seen[-1], "target_restarts_total") <= 3


@SLOW
@given(
    page=st.sampled_from(PAGES),
    picks=st.lists(st.integers(0, 3), min_size=120, max_size=120),
    start=st.lists(st.floats(60, 900), min_size=4, max_size=4),
    growth=st.floats(0.0, 0.3),
    several=st.integers(2, 4),
)
def test_any_service_is_noticed(
    page: tuple[str, bool], picks: list[int], start: list[float], growth: float, several: int
) -> None:
    """However a service picks: unless two of its replicas can't be told apart, what is read is withheld in the
    end, and what is counted before that is some swaps' worth."""
    path, told = page
    levels, behind = start[:several], replicas(path, start[:several], told=told)
    address = Address(path)
    swaps, last, noticed = 0, -1, False
    for pick in picks:
        which = pick % several
        levels = [level + growth for level in levels]
        snapshot = address.read(behind[which].page(levels[which]))
        swaps += which != last
        last = which
        noticed = noticed or "conflict" in statuses(snapshot)
        if noticed:
            assert not snapshot.data.layout.series
    alike = any(abs(one - other) < 5 for place, one in enumerate(levels) for other in levels[:place])
    assert noticed or swaps < 30 or (alike and not told)
    assert value(snapshot, "target_restarts_total") <= several * 4


Lives = list[tuple[int, float, bool]]


@SLOW
@given(
    page=st.sampled_from(PAGES),
    lives=st.lists(st.tuples(st.integers(1, 6), st.floats(0.01, 40), st.booleans()), min_size=5, max_size=40),
)
def test_a_runtime_that_crashes_again_and_again_is_not_several(page: tuple[str, bool], lives: Lives) -> None:
    """Each process begins at 0 and counts at its own pace for some polls; now and then the port is closed."""
    path, told = page
    address = Address(path)
    for place, (polls, pace, closed) in enumerate(lives):
        process = Process(path, start=NOW + 30.0 * place if told else None, seed=place)
        if closed:
            address.read(REFUSED)
        for poll in range(polls):
            snapshot = address.read(process.page(pace * (poll + 0.3)))
            assert "conflict" not in statuses(snapshot)
    if told:
        assert value(snapshot, "target_restarts_total") == len(lives) - 1


def test_a_crash_loop_that_gets_as_far_each_time_is_a_crash_loop() -> None:
    address = Address()
    for life in range(30):
        process = Process(VLLM, seed=life)
        for level in (0.0, 5.0, 10.0, 10.0):
            snapshot = address.read(process.page(level))
            assert "conflict" not in statuses(snapshot)
    assert value(snapshot, "target_restarts_total") == 29


def test_after_a_rollout_the_replica_that_is_left_counts_from_there_on() -> None:
    """The old pod and the new one answer in turn, then the new one alone: nothing of the past is counted."""
    address = Address()
    old, new = replicas(VLLM, [500.0, 20.0])
    address.read(old.page(500))
    for tick in range(20):
        snapshot = address.read((new, old)[tick % 2].page((20 + tick, 500 + tick)[tick % 2]))
    assert "conflict" in statuses(snapshot)
    counted = value(snapshot, "slo_events_total", slo="ttft")
    level, waited = 40.0, 0.0
    while "conflict" in statuses(snapshot):
        level += 1
        waited += 2
        snapshot = address.read(new.page(level))
    assert SETTLED <= waited <= SETTLED + 4
    assert snapshot.data.layout.series
    assert snapshot.rebased
    assert value(snapshot, "slo_events_total", slo="ttft") == counted
    assert value(snapshot, "target_restarts_total") == 1, "the one that could not be told from a restart"
    tokens = value(snapshot, "accepted_generation_tokens_total")
    after = address.read(new.page(level + 1))
    grown = value(after, "time_to_first_token_seconds") - value(snapshot, "time_to_first_token_seconds")
    assert value(after, "slo_events_total", slo="ttft") == counted + grown
    more = value(after, "generation_tokens_total") - value(snapshot, "generation_tokens_total")
    assert value(after, "accepted_generation_tokens_total") <= tokens + more
    assert after.life.get("target_start_timestamp_seconds") == NOW - 5100


def test_a_swap_after_it_had_settled_is_known_at_once() -> None:
    address = Address()
    two = replicas(VLLM, [500.0, 20.0])
    for tick in range(6):
        address.read(two[tick % 2].page((500, 20)[tick % 2]))
    for _ in range(int(SETTLED)):
        snapshot = address.read(two[1].page(20))
    assert "conflict" not in statuses(snapshot)
    counted = value(snapshot, "slo_events_total", slo="ttft")
    snapshot = address.read(two[0].page(501))
    assert "conflict" in statuses(snapshot)
    assert value(snapshot, "slo_events_total", slo="ttft") == counted


def test_a_clock_that_is_set_there_and_back_is_one_process() -> None:
    address = Address()
    clocks = [Process(VLLM, start=NOW - 100 + off) for off in (0, 7, 0, 7)]
    for tick, process in enumerate(clocks):
        assert "conflict" not in statuses(address.read(process.page(100 + tick)))
