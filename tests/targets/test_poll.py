"""The schedule of a target as arithmetic, and the loop that keeps it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.targets.poll import Poller, Schedule, phase_of


def test_moments_do_not_drift() -> None:
    schedule = Schedule(origin=100.3, interval=2.0)
    due = 100.3
    for _ in range(100_000):
        due = schedule.after(due, due + 0.15)
    assert due == pytest.approx(100.3 + 200_000, abs=1e-6)


def test_a_tick_that_uses_its_whole_interval_costs_no_other() -> None:
    schedule = Schedule(origin=0.0, interval=2.0)
    assert schedule.after(10.0, 12.01) == 12.0
    assert schedule.missed(10.0, 12.01) == 0


def test_what_was_missed_is_skipped() -> None:
    schedule = Schedule(origin=0.5, interval=2.0)
    assert schedule.after(2.5, 3603.7) == 3604.5
    assert schedule.missed(2.5, 3603.7) == 1800


def test_the_first_tick_may_come_before_the_grid() -> None:
    assert Schedule(origin=101.5, interval=2.0).after(100.1, 100.2) == 101.5


def test_failures_thin_the_grid_out() -> None:
    schedule = Schedule(origin=0.0, interval=2.0, back_off=10.0)
    pauses = [schedule.after(20.0, 20.1, failures) - 20.0 for failures in (0, 1, 2, 3, 4, 5, 10**9)]
    assert pauses == [2.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_an_interval_longer_than_the_back_off_is_kept() -> None:
    schedule = Schedule(origin=0.0, interval=30.0, back_off=10.0)
    assert [schedule.after(0.0, 1.0, failures) for failures in (0, 1, 9)] == [30.0] * 3


@given(
    origin=st.floats(0, 1e6),
    interval=st.floats(0.05, 600),
    start=st.floats(0, 1e6),
    took=st.floats(0, 1e5),
    failures=st.integers(0, 50),
)
def test_the_next_moment_is_ahead_on_the_grid_and_within_bounds(
    origin: float, interval: float, start: float, took: float, failures: int
) -> None:
    schedule = Schedule(origin, interval)
    due = schedule.after(start, start)
    now = due + took
    later = schedule.after(due, now, failures)
    assert later > due
    assert later > now - 0.11 * interval
    assert later <= now + max(interval, schedule.back_off) + 0.01 * interval
    steps = (later - origin) / interval
    assert steps == pytest.approx(round(steps), abs=1e-4)


def test_phases_are_spread_and_stay() -> None:
    phases = sorted(phase_of(f"gpu-{number}") for number in range(1000))
    assert phases[0] >= 0 and phases[-1] < 1
    assert max(b - a for a, b in pairwise(phases)) < 0.02
    assert phase_of("local") == pytest.approx(0.8708219068940899)


def poll(
    tick: Callable[[float], Awaitable[bool]],
    during: Callable[[Poller, asyncio.Task[None]], Awaitable[None]],
    interval: float = 0.02,
    timeout: float | None = None,
    back_off: float = 0.02,
) -> Poller:
    async def run() -> Poller:
        poller = Poller("t", tick, interval=interval, timeout=timeout, back_off=back_off, first_within=0.0)
        task = asyncio.create_task(poller.run())
        async with asyncio.timeout(20):
            await during(poller, task)
        assert task.done()
        return poller

    return asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def test_it_ticks_until_stopped_and_hands_out_deadlines() -> None:
    left: list[float] = []

    async def tick(deadline: float) -> bool:
        left.append(deadline - asyncio.get_running_loop().time())
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks >= 5)
        poller.stop()
        await task

    poller = poll(tick, during, timeout=0.015)
    assert poller.ticks == len(left) >= 5
    assert all(0 < seconds <= 0.0151 for seconds in left)
    assert (poller.failures, poller.crashes) == (0, 0)


def test_a_timeout_is_never_longer_than_the_interval() -> None:
    async def tick(deadline: float) -> bool:
        return True

    assert Poller("t", tick, interval=2.0).timeout == 2.0
    assert Poller("t", tick, interval=2.0, timeout=5.0).timeout == 2.0
    assert Poller("t", tick, interval=15.0, timeout=5.0).timeout == 5.0
    for interval, timeout in ((0.0, None), (1.0, 0.0)):
        with pytest.raises(ValueError):
            Poller("t", tick, interval=interval, timeout=timeout)


def test_ticks_never_overlap_and_late_ones_are_dropped() -> None:
    inside = 0
    seen: list[int] = []

    async def tick(_: float) -> bool:
        nonlocal inside
        inside += 1
        seen.append(inside)
        await asyncio.sleep(0.05)
        inside -= 1
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks >= 4)
        poller.stop()
        await task

    poller = poll(tick, during)
    assert set(seen) == {1}
    assert poller.missed >= 3


def test_what_a_tick_raises_is_logged_counted_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    async def tick(_: float) -> bool:
        nonlocal calls
        calls += 1
        if calls in (1, 2):
            raise RuntimeError("broken")
        if calls == 3:
            raise asyncio.CancelledError
        if calls == 4:
            raise TimeoutError
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks >= 6)
        poller.stop()
        await task

    with caplog.at_level(logging.ERROR, "sidecar"):
        poller = poll(tick, during)
    assert (poller.crashes, poller.failures) == (4, 0)
    records = [record for record in caplog.records if record.name.startswith("sidecar")]
    assert [bool(record.exc_info) for record in records] == [True, False, False, False]
    assert all("'t'" in record.getMessage() for record in records)


def test_a_tick_that_forgets_its_deadline_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async def tick(_: float) -> bool:
        await asyncio.sleep(60)
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks >= 2)
        poller.stop()
        await task

    with caplog.at_level(logging.ERROR, "sidecar"):
        poller = poll(tick, during)
    assert poller.crashes == 1 and poller.failures >= 1
    assert "deadline" in caplog.text


def test_failures_are_counted_and_a_success_forgets_them() -> None:
    answers = iter([False, False, False, True])
    counts: list[int] = []

    async def tick(_: float) -> bool:
        return next(answers, True)

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        for number in range(1, 5):
            await until(lambda number=number: poller.ticks >= number)  # type: ignore[misc]
            counts.append(poller.failures)
        poller.stop()
        await task

    poll(tick, during, interval=0.05, back_off=0.05)
    assert counts == [1, 2, 3, 0]


def test_stop_cuts_a_tick_short_and_reads_once_more() -> None:
    deadlines: list[float] = []

    async def tick(deadline: float) -> bool:
        deadlines.append(deadline - asyncio.get_running_loop().time())
        if len(deadlines) == 1:
            await asyncio.sleep(60)
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks == 1)
        poller.stop(last_within=3.0)
        await task

    poller = poll(tick, during, interval=30.0)
    assert poller.ticks == 2 and poller.crashes == 0
    assert 2.9 < deadlines[1] <= 3.0


def test_a_second_stop_cuts_the_last_tick() -> None:
    async def tick(_: float) -> bool:
        await asyncio.sleep(60)
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks == 1)
        poller.stop(last_within=50.0)
        await until(lambda: poller.ticks == 2)
        poller.stop()
        await task

    assert poll(tick, during, interval=30.0).crashes == 0


def test_stop_while_waiting_and_stop_before_the_start() -> None:
    async def tick(_: float) -> bool:
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks == 1)
        poller.stop()
        await task

    async def at_once(poller: Poller, task: asyncio.Task[None]) -> None:
        poller.stop()
        await task

    assert poll(tick, during, interval=30.0).ticks == 1
    assert poll(tick, at_once, interval=30.0).ticks == 0


@pytest.mark.parametrize("hanging", [True, False])
def test_cancelling_the_task_ends_it_without_another_tick(hanging: bool) -> None:
    async def tick(_: float) -> bool:
        await asyncio.sleep(60 if hanging else 0)
        return True

    async def during(poller: Poller, task: asyncio.Task[None]) -> None:
        await until(lambda: poller.ticks == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    poller = poll(tick, during, interval=30.0)
    assert (poller.ticks, poller.crashes) == (1, 0)
