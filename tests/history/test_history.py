"""Increase, integral and peak over windows."""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.history import COUNT, SUM, VALUE, History, Track
from sidecar.snapshot import Block, LayoutBuilder


def counted(values: list[tuple[float, float, bool]], horizon: float = 600.0) -> Track:
    track = Track(horizon)
    for mono, raw, restarted in values:
        track.count(mono, raw, restarted=restarted)
    return track


def test_the_increase_over_a_restart_is_the_new_value() -> None:
    track = counted([(0, 100, False), (10, 160, False), (20, 5, True), (30, 8, False)])
    assert track.increase(60) == 60 + 5 + 3
    assert track.increase(10) == 3


def test_a_sum_that_falls_without_a_restart_tears_its_windows_only() -> None:
    track = counted([(0, 4.0, False), (10, -44.0, False), (20, -43.0, False), (30, -41.0, False)])
    assert isnan(track.increase(30))
    assert track.increase(10) == 2.0
    assert track.increase(20) == 3.0


@given(st.lists(st.tuples(st.floats(0, 1e9), st.booleans()), min_size=3, max_size=60), st.data())
def test_the_increase_is_never_negative_and_adds_up_over_adjacent_windows(
    steps: list[tuple[float, bool]], data: st.DataObject
) -> None:
    total, points = 0.0, []
    for second, (step, restarted) in enumerate(steps):
        restarted = restarted and second > 0
        total = step if restarted else total + step
        points.append((float(second), total, restarted))
    track = counted(points)
    middle = data.draw(st.integers(1, len(steps) - 2))
    end = len(steps) - 1
    late = track.increase(end - middle)
    whole = track.increase(end)
    early = counted(points[: middle + 1]).increase(middle)
    assert late >= 0
    assert early >= 0
    assert whole == pytest.approx(early + late, rel=1e-9, abs=1e-6)


def test_integral_and_peak() -> None:
    track = Track(60.0)
    for mono, value in ((0, 0.0), (10, 4.0), (20, 2.0)):
        track.append(mono, value)
    assert track.integral(20) == 20 + 30
    assert track.integral(10) == 30
    assert track.peak(5) == 2.0
    assert track.peak(15) == 4.0


def test_old_points_are_forgotten_but_for_the_base_of_the_window() -> None:
    track = Track(10.0)
    for second in range(10_000):
        track.append(float(second), float(second))
    assert len(track.times) < 200
    assert track.increase(10) == 10


def test_a_clock_that_stands_still_or_goes_back_adds_nothing() -> None:
    track = Track(60.0)
    for mono in (5.0, 5.0, 4.0, 6.0):
        track.append(mono, 1.0)
    assert list(track.times) == [5.0, 6.0]


def test_tracks_outlive_a_change_of_layout() -> None:
    history = History(
        ("requests_running",),
        (("generation_tokens_total", VALUE), ("time_to_first_token_seconds", SUM)),
        60.0,
    )

    def block(extra: bool, tokens: float) -> Block:
        build = LayoutBuilder()
        if extra:
            build.add("preemptions_total", {"model_name": "m"})
        build.add("requests_running", {"model_name": "m"})
        build.add("generation_tokens_total", {"model_name": "m"})
        build.add("time_to_first_token_seconds", {"model_name": "m"}, (1.0,))
        values = [0.0] * extra + [2.0, tokens, 1.0, 3.0, 0.5]
        return Block(build.build(), values)

    history.append(block(False, 100), 0.0, 0)
    history.append(block(True, 130), 10.0, 0)
    ((_, track),) = history.tracks("generation_tokens_total")
    assert track.increase(10) == 30
    assert history.tracks("time_to_first_token_seconds", COUNT) == []
    history.append(block(True, 7), 20.0, 1)
    assert track.increase(10) == 7
