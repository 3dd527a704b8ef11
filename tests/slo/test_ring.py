"""The ring against a plain list of everything."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.slo.ring import TIERS, Ring

WINDOWS = (5.0, 300.0, 1800.0, 3600.0, 21600.0, 86400.0, 259200.0)


def filled(times: list[float]) -> Ring:
    ring = Ring()
    ring.add_column()
    for time in times:
        ring.append(time, [time], unbroken=True)
    return ring


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.2, 400), min_size=1, max_size=2500), st.sampled_from(WINDOWS))
def test_a_base_is_a_point_near_the_windows_start(gaps: list[float], window: float) -> None:
    times = [sum(gaps[:1])]
    for gap in gaps[1:]:
        times.append(times[-1] + gap)
    ring, now = filled(times), times[-1]
    base = ring.base(now, window)
    assert base is not None
    assert base.time in times
    assert ring.tiers[base.tier].columns[0][base.index] == base.time
    if base.time > times[0]:
        resolution = TIERS[base.tier][0]
        slack = max(0.1 * window, 1.5 * min(gaps[-2:]), resolution)
        nearest = max((one for one in times if one <= now - window), default=times[0])
        assert base.time >= nearest - slack - resolution
    assert 0 <= base.coverage <= 1


def test_memory_is_bounded_and_the_past_is_kept() -> None:
    ring = filled([float(time) for time in range(0, 40 * 86400, 30)])
    for tier, (_, depth) in zip(ring.tiers, TIERS, strict=True):
        assert depth <= len(tier.times) <= depth * 1.25 + 1
    now = ring.newest
    for window in (*WINDOWS, 30 * 86400.0):
        base = ring.base(now, window)
        assert base is not None
        assert 0 <= (now - window) - base.time <= 3600
        assert base.coverage == 1


def test_aligned_polls_have_exact_bases() -> None:
    ring = filled([float(time) for time in range(0, 4 * 86400 + 1, 15)])
    for window in WINDOWS[1:]:
        base = ring.base(4 * 86400.0, window)
        assert base is not None
        assert base.time == 4 * 86400 - window


def test_a_gap_across_the_start_is_left_out() -> None:
    ring = filled([*map(float, range(0, 1000, 2)), *map(float, range(8000, 8100, 2))])
    base = ring.base(8098, 300)
    assert base is not None
    assert base.time == 8000
    assert base.coverage < 0.9


def test_what_is_not_seen_is_not_covered() -> None:
    ring = Ring()
    for time in range(0, 600, 2):
        ring.append(float(time), [], unbroken=not 298 < time < 402)
    base = ring.base(598, 300)
    assert base is not None
    assert 0.6 < base.coverage < 0.7
    assert ring.base(900, 300).coverage == 0  # type: ignore[union-attr]


def test_an_empty_ring_has_no_base() -> None:
    assert Ring().base(100, 5) is None


def test_another_clock_moves_everything() -> None:
    ring = filled([float(time) for time in range(0, 5000, 2)])
    before = ring.base(4998, 3600)
    ring.shift(1e9)
    after = ring.base(1e9 + 4998, 3600)
    assert before is not None
    assert after is not None
    assert (after.tier, after.index, after.time) == (before.tier, before.index, before.time + 1e9)
