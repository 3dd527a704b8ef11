"""Gauges of the TensorRT-LLM backend move only with an iteration: when it idles they keep its last state."""

from __future__ import annotations

from math import nan

#: Seconds without an iteration after which the gauges are taken for frozen. An iteration takes milliseconds,
#: with a very long prefill a few seconds.
FROZEN_AFTER = 5.0

#: The backend parses a local time as if it were UTC: ages are told up to whole hours of any time zone.
_HOUR = 3600.0
_FARTHEST_ZONE = 14.5 * _HOUR

#: Seconds since 1970 stay below this until the year 5138; microseconds are above it since 1970-01-02.
_SECONDS_BELOW = 1e11


class LastIteration:
    """Watches one timestamp. What it says is trusted at first sight only; then whether it moves."""

    __slots__ = ("_born_stale", "_moved_at", "_stamp")

    def __init__(self) -> None:
        self._stamp = nan
        self._moved_at = nan
        self._born_stale = False

    def is_fresh(self, stamp: float, now: float) -> bool:
        """Whether an iteration happened lately. `stamp` in seconds or microseconds, `now` in seconds."""
        if now != now:
            return True
        if stamp != self._stamp:
            first = self._stamp != self._stamp
            self._stamp, self._moved_at = stamp, now
            self._born_stale = first and age(stamp, now) > FROZEN_AFTER
        return not self._born_stale and now - self._moved_at <= FROZEN_AFTER


def age(stamp: float, now: float) -> float:
    """Seconds since a timestamp, whole hours of a wrong time zone taken off; 0 when it is from another day.

    Another day means that one of the clocks is wrong or the page is an old capture: nothing can be said.
    """
    seconds = now - (stamp if stamp < _SECONDS_BELOW else stamp / 1e6)
    if not -_FARTHEST_ZONE <= seconds <= _FARTHEST_ZONE:
        return 0.0
    return seconds % _HOUR if seconds % _HOUR < _HOUR - FROZEN_AFTER else 0.0
