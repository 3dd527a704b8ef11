"""The gap line: a batch makes every token slower, inter-token gap ≈ a + b · (requests running)."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from sidecar.schema import Method
from sidecar.signals.formula import Formula, Way

FROM_GAPS, FROM_TOKENS = IDLE_GAP_WAYS = (
    Way(
        ("inter_token_latency_seconds", "compute_seconds_total"),
        "intercept of inter_token_latency_seconds over the level of running requests",
    ),
    Way(
        ("requests_running", "compute_seconds_total", "generation_tokens_total"),
        "intercept of compute_seconds_total over generation_tokens_total over the level of running requests",
        Method.ESTIMATED,
    ),
)
IDLE_GAP = Formula("idle_inter_token_latency_seconds", IDLE_GAP_WAYS)

#: Tokens a request below which an estimated gap is mostly prefill.
DECODES = 4.0

_BIN = 1.25  # width of a level's bin, as a factor
_HALF_LIFE = 600.0
_FEW, _ENOUGH = 10, 100  # gaps of a poll, and of a bin, below which they say nothing
_LIGHT_SHARE, _LIGHT_LEVEL = 0.12, 2.0  # levels that show what an idle engine does
_APART, _FAR_APART = (
    1.5,
    2.0,
)  # heaviest level over lightest, from which a line is drawn; from heavy ones alone
_STEEPEST = 0.02  # the slope is at least this share of the gap


def median(ordered: Sequence[float]) -> float:
    """Of numbers in ascending order, at least one."""
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


class IdleGap:
    """a: the gap of a lone request, by Theil and Sen's line through the gaps at the levels seen.

    Gaps are pooled by level in bins of ×1.25 with a half-life of 10 minutes. `seed` is what a config, a state
    file or the fleet says of it.
    """

    __slots__ = ("_points", "_slopes", "bins", "seed")

    def __init__(self, seed: float | None = None) -> None:
        self.seed = seed
        #: bin → [sum of level × gaps, seconds, gaps, time of the last ones]
        self.bins: dict[int, list[float]] = {}
        self._points: dict[int, tuple[float, float]] = {}
        self._slopes: dict[tuple[int, int], float] = {}

    def observe(self, mono: float, level: float, gaps: float, seconds: float) -> None:
        """Gaps between two polls at a mean level of running requests, and the sum of their lengths."""
        if level <= 0 or gaps < _FEW:
            return
        place = round(log(max(level, 0.5), _BIN))
        pool = self.bins.setdefault(place, [0.0, 0.0, 0.0, mono])
        left = 0.5 ** ((mono - pool[3]) / _HALF_LIFE)
        pool[:] = [pool[0] * left + level * gaps, pool[1] * left + seconds, pool[2] * left + gaps, mono]
        self._refresh(place, pool)

    def restore(self, bins: dict[int, list[float]]) -> None:
        self.bins = bins
        for place, pool in bins.items():
            self._refresh(place, pool)

    def _refresh(self, place: int, pool: Sequence[float]) -> None:
        """The bin's point has moved: so have the slopes to all others."""
        if pool[2] < _ENOUGH:
            if self._points.pop(place, None) is not None:
                self._slopes = {pair: slope for pair, slope in self._slopes.items() if place not in pair}
            return
        x, y = pool[0] / pool[2], pool[1] / pool[2]
        self._points[place] = (x, y)
        slopes = self._slopes
        for other, (x2, y2) in self._points.items():
            pair = (other, place) if other < place else (place, other)
            if abs(x2 - x) > 0.2 * max(x, x2):
                slopes[pair] = (y2 - y) / (x2 - x)
            elif other != place:
                slopes.pop(pair, None)

    def value(self, most: float) -> float | None:
        """a, where a replica can run `most` requests at once; None when nothing is known.

        A line through levels that are all heavy is believed where they lie far enough apart; else a is the seed,
        or half of the smallest mean gap.
        """
        points = self._points.values()
        if not points:
            return self.seed
        lowest = min([y for _, y in points])
        levels = [x for x, _ in points]
        lightest = min(levels)
        span = max(levels) / lightest if self._slopes else 1.0
        if lightest > max(_LIGHT_SHARE * most, _LIGHT_LEVEL) and (self.seed or span < _FAR_APART):
            return min(self.seed, lowest) if self.seed else 0.5 * lowest
        if span >= _APART:
            slope = max(median(sorted(self._slopes.values())), 0.0)
            intercept = median(sorted([y - slope * x for x, y in points]))
            idle = min(max(intercept, 0.5 * lowest), lowest)
        else:
            idle = 0.9 * lowest
        return min(idle, 1.05 * self.seed) if self.seed else idle


def slope(gap: float, idle: float, level: float) -> float:
    """b = (gap − a) ÷ level, in the present mix."""
    return max(gap - idle, _STEEPEST * gap) / max(level, 1.0)
