"""The arithmetic of objectives, each formula once: plain numbers in, plain numbers out."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf

#: A threshold this near to a bucket bound (relatively) is that bound: 0.1 + 0.2 is 0.3 to a user.
SAME_BOUND = 1e-9


def budget(objective: float) -> float:
    """Share of events that may be bad, `1 - objective`, without the tail of a binary fraction."""
    return round(1.0 - objective, 12)


def burn_rate(bad: float, total: float, error_budget: float) -> float:
    """How many times faster than allowed the budget is spent. No events at all spend nothing: 0."""
    return bad / total / error_budget if total > 0 else 0.0


def budget_remaining(bad: float, total: float, error_budget: float) -> float:
    """Share of the period's budget that is left, 1 when nothing was spent, negative when overspent."""
    return 1.0 - burn_rate(bad, total, error_budget)


def factor(share: float, period: float, long: float) -> float:
    """Burn rate that spends `share` of a period's budget within the window `long` (both in seconds).

    From the SRE workbook, chapter 5: 2 % of 30 days in one hour is 14.4.
    """
    return share * period / long


def detection_time(factor: float, error_budget: float, error_ratio: float, long: float) -> float:
    """Seconds until a step from no errors to `error_ratio` fires; infinite when it never does."""
    limit = factor * error_budget
    return limit / error_ratio * long if error_ratio > limit else inf


def fewest_events(bad_events: int, factor: float, error_budget: float) -> int:
    """Events from which on `bad_events` bad ones are no longer above the alert's limit."""
    return ceil(round(bad_events / (factor * error_budget), 9))


@dataclass(frozen=True, slots=True)
class Split:
    """A threshold on a histogram: indices of the bounds around it, and where it lies between them.

    `lower == upper` and `fraction == 0` when the threshold is a bound: the count is exact then.
    """

    lower: int
    upper: int
    fraction: float

    @property
    def exact(self) -> bool:
        return self.lower == self.upper


def split(threshold: float, bounds: Sequence[float]) -> Split | None:
    """Where a threshold cuts a histogram with ascending `bounds` (the last is +Inf).

    None when it lies outside of the finite bounds, or there are none: no share can be told there.
    """
    finite = len(bounds) - 1 if bounds and bounds[-1] == inf else len(bounds)
    at = bisect_left(bounds, threshold, 0, finite)
    for near in (at - 1, at):
        if 0 <= near < finite and abs(bounds[near] - threshold) <= SAME_BOUND * abs(threshold):
            return Split(near, near, 0.0)
    if at == 0 or at >= finite:
        return None
    low, high = bounds[at - 1], bounds[at]
    return Split(at - 1, at, (threshold - low) / (high - low))


def nearest_bounds(threshold: float, bounds: Sequence[float]) -> tuple[float, ...]:
    """The one or two finite bounds around a threshold: the nearest thresholds that are exact."""
    finite = [one for one in bounds if one != inf]
    at = bisect_left(finite, threshold)
    return tuple(finite[max(0, at - 1) : at + 1])
