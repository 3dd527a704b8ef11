"""Bins are exact for every subset of the bounds."""

from __future__ import annotations

from random import Random

import pytest

from sidecar.simulator.telemetry import TIME_BOUNDS, TOKEN_BOUNDS, Histogram


def test_cumulative_counts_what_is_at_or_below_each_bound() -> None:
    random = Random(1)
    values = [random.lognormvariate(0, 2) for _ in range(500)] + [0.001, 0.3, 2560.0, 1e6]
    histogram = Histogram(TIME_BOUNDS)
    for value in values:
        histogram.observe(value)
    for bounds in (TIME_BOUNDS, (0.001, 0.3, 1.0, 2560.0), (0.5, 60.0), ()):
        expected = [sum(value <= bound for value in values) for bound in bounds]
        assert histogram.cumulative(bounds) == expected
    assert histogram.count == len(values)
    assert histogram.total == pytest.approx(sum(values))


def test_repeated_and_merged_observations_equal_single_ones() -> None:
    once, many, other = Histogram(TOKEN_BOUNDS), Histogram(TOKEN_BOUNDS), Histogram(TOKEN_BOUNDS)
    for _ in range(7):
        once.observe(48)
    once.observe(3)
    many.observe(48, 5)
    other.observe(48, 2)
    other.observe(3)
    many.add(other)
    assert many.cumulative(TOKEN_BOUNDS) == once.cumulative(TOKEN_BOUNDS)
    assert (many.count, many.total) == (once.count, once.total)


def test_a_bound_that_is_not_counted_is_refused() -> None:
    histogram = Histogram(TIME_BOUNDS)
    with pytest.raises(ValueError, match=r"0\.31"):
        histogram.cumulative((0.3, 0.31))
    with pytest.raises(ValueError, match="99999"):
        histogram.cumulative((99999.0,))
