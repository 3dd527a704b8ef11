"""The formulas, against their definitions and published figures."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.slo import formulas
from sidecar.slo.windows import DAY, HOUR, STANDARD, AlertWindow, Severity, duration, duration_text

SHARES = st.floats(0.001, 0.999)
COUNTS = st.integers(0, 10**9)


@pytest.mark.parametrize(
    ("days", "expected"),
    [(30, [14.4, 6, 3, 1]), (28, [13.44, 5.6, 2.8, 0.9333]), (7, [3.36, 1.4, 0.7, 0.2333])],
)
def test_factors_are_the_published_ones(days: int, expected: list[float]) -> None:
    factors = [formulas.factor(one.share, days * DAY, one.long) for one in STANDARD]
    assert factors == pytest.approx(expected, abs=1e-4)


def test_windows_are_twelve_to_one() -> None:
    assert [one.long / one.short for one in STANDARD] == [12, 12, 12, 12]


def test_an_alert_never_fires_for_an_objective_that_will_be_met() -> None:
    assert AlertWindow(Severity.TICKET, 6 * HOUR, 3 * DAY, 0.10).factor(7 * DAY) == 1


@given(COUNTS, COUNTS, SHARES)
def test_burn_rate_and_budget(good: int, bad: int, objective: float) -> None:
    total, budget = good + bad, formulas.budget(objective)
    rate = formulas.burn_rate(bad, total, budget)
    if total == 0:
        assert rate == 0
    else:
        assert rate * budget == pytest.approx(bad / total)
    assert formulas.budget_remaining(bad, total, budget) == 1 - rate


def test_budget_is_free_of_binary_tails() -> None:
    assert formulas.budget(0.999) == 0.001


@given(SHARES, st.floats(1.0, 14.4), SHARES)
def test_detection_time_is_when_the_long_window_crosses(error: float, factor: float, budget: float) -> None:
    """A step to `error` after silence fills the window linearly; it fires when the mean crosses the limit."""
    at = formulas.detection_time(factor, budget, error, HOUR)
    if error <= factor * budget:
        assert at == inf
    else:
        assert error * at / HOUR == pytest.approx(factor * budget)
        assert at <= HOUR


@given(st.integers(1, 20), st.floats(1.0, 14.4), st.floats(0.001, 0.06))
def test_fewest_events_is_the_least_that_stays_below_the_limit(
    bad: int, factor: float, budget: float
) -> None:
    events = formulas.fewest_events(bad, factor, budget)
    assert bad / events <= factor * budget * (1 + 1e-6)
    assert events == 1 or bad / (events - 1) > factor * budget * (1 - 1e-6)


BOUNDS = st.lists(st.floats(0.001, 1000), min_size=1, max_size=20, unique=True).map(
    lambda bounds: (*sorted(bounds), inf)
)


@given(BOUNDS, st.floats(0.0005, 2000))
def test_a_split_brackets_the_threshold(bounds: tuple[float, ...], threshold: float) -> None:
    cut = formulas.split(threshold, bounds)
    if cut is None:
        assert threshold < bounds[0] or threshold > bounds[-2]
        return
    if cut.exact:
        assert bounds[cut.lower] == pytest.approx(threshold, rel=1e-8)
        return
    low, high = bounds[cut.lower], bounds[cut.upper]
    assert cut.upper == cut.lower + 1
    assert low < threshold < high
    assert low + cut.fraction * (high - low) == pytest.approx(threshold)


@given(BOUNDS, st.data())
def test_a_bound_is_exact(bounds: tuple[float, ...], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(bounds) - 2))
    cut = formulas.split(bounds[at], bounds)
    assert cut is not None
    assert cut.exact
    assert bounds[cut.lower] == pytest.approx(bounds[at], rel=1e-8)


def test_a_split_without_buckets_is_none() -> None:
    assert formulas.split(1.0, (inf,)) is None
    assert formulas.split(1.0, ()) is None


@pytest.mark.parametrize(
    ("threshold", "nearest"), [(0.8, (0.5, 1.0)), (1.0, (0.5, 1.0)), (0.1, (0.5,)), (9.0, (2.5,))]
)
def test_nearest_bounds(threshold: float, nearest: tuple[float, ...]) -> None:
    assert formulas.nearest_bounds(threshold, (0.5, 1.0, 2.5, inf)) == nearest


@pytest.mark.parametrize(
    ("text", "seconds"), [("800ms", 0.8), ("5m", 300), ("1h30m", 5400), ("7d", 604800), ("1.5s", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "5y", "-5m", "5m!"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration(text)


@given(st.integers(1, 10**9))
def test_duration_text_is_read_back(milliseconds: int) -> None:
    assert duration(duration_text(milliseconds / 1000)) == pytest.approx(milliseconds / 1000)
