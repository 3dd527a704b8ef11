"""When a target is read: a fixed grid of moments, thinned out while the target fails.

`Schedule` is the arithmetic, on numbers alone; `Poller` is the loop that keeps it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import floor

log = logging.getLogger(__name__)

#: Longest pause between two attempts, in seconds: short enough to see a cold start when it happens.
BACK_OFF = 4.0
#: The first reads of all targets begin within this, in seconds.
FIRST_WITHIN = 0.2
#: A moment that passed less than this share of an interval ago is late; an older one was missed.
_LATE = 0.1
#: By how much a tick may overrun its deadline before it is cut, in seconds: its own timeout goes first.
_OVERRUN = 0.25

Tick = Callable[[float], Awaitable[bool]]


def phase_of(name: str) -> float:
    """A target's place within the interval, 0 ≤ phase < 1: the same on every start, spread over the names."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big") / 2**48


@dataclass(frozen=True, slots=True)
class Schedule:
    """The moments `origin + k · interval` of a monotonic clock, in seconds.

    Moments that were missed (a slow tick, a suspended machine, a clock that jumped) are skipped, never made
    up for. After n consecutive failures the pause is `interval · 2^(n-1)`, at most `back_off` but never less
    than an interval: one failure alone slows nothing down.
    """

    origin: float
    interval: float
    back_off: float = BACK_OFF

    def _index(self, moment: float) -> int:
        # A moment of the grid, computed in floating point, must not fall below itself.
        return floor((moment - self.origin) / self.interval + 1e-6)

    def missed(self, due: float, now: float) -> int:
        """How many moments after `due` are gone for good at `now`."""
        return max(0, self._index(now - _LATE * self.interval) - self._index(due))

    def after(self, due: float, now: float, failures: int = 0) -> float:
        """The moment that follows the tick that was due at `due` and ended at `now`."""
        most = max(1, floor(self.back_off / self.interval))
        steps = min(2 ** min(failures - 1, 30), most) if failures > 1 else 1
        return self.origin + (self._index(due) + self.missed(due, now) + steps) * self.interval


class Poller:
    """Reads one target on its schedule until it is stopped.

    `tick(deadline)` gets a moment of the event loop's clock and says whether the target answered well. Ticks
    never overlap. What a tick raises is logged, counted in `crashes`, and is a failure like any other.
    """

    def __init__(
        self,
        name: str,
        tick: Tick,
        *,
        interval: float,
        timeout: float | None = None,
        back_off: float = BACK_OFF,
        first_within: float = FIRST_WITHIN,
        spread: float | None = None,
    ) -> None:
        """`spread` is the part of the interval, in seconds, over which targets are spread by their names: all of
        it unless told otherwise. Few targets do better close together, since code that just ran is cheap to
        run again.
        """
        if interval <= 0 or (timeout is not None and timeout <= 0):
            raise ValueError("interval and timeout must be above 0 seconds")
        self.name = name
        self.interval = interval
        self.timeout = min(timeout or interval, interval)
        self.ticks = 0
        self.failures = 0  #: consecutive ones, up to now
        self.crashes = 0
        self.missed = 0
        self._tick = tick
        self._back_off = back_off
        self._first_within = min(first_within, interval)
        self._spread = interval if spread is None else min(spread, interval)
        self._stopping = asyncio.Event()
        self._last_within: float | None = None
        self._guard: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Poll until `stop` is called or the task is cancelled."""
        clock = asyncio.get_running_loop().time
        started = clock()
        phase = phase_of(self.name)
        schedule = Schedule(started + phase * self._spread, self.interval, self._back_off)
        due = started + phase * self._first_within
        while not await self._stopped_before(due):
            await self._run_tick(clock() + self.timeout)
            now = clock()
            self.missed += schedule.missed(due, now)
            due = schedule.after(due, now, self.failures)
        if self._last_within:
            await self._run_tick(clock() + self._last_within)

    def stop(self, last_within: float | None = None) -> None:
        """Let `run` return: at once, or after one last tick that has `last_within` seconds.

        A tick under way is cut short: the last one reads the target anew. Called again, it cuts the last one.
        """
        self._last_within = None if self._stopping.is_set() else last_within
        self._stopping.set()
        if self._guard is not None and not self._guard.expired():
            self._guard.reschedule(asyncio.get_running_loop().time())

    async def _stopped_before(self, due: float) -> bool:
        try:
            async with asyncio.timeout_at(due):
                return await self._stopping.wait()
        except TimeoutError:
            return False

    async def _run_tick(self, deadline: float) -> None:
        self.ticks += 1
        well = False
        guard = asyncio.timeout_at(deadline + _OVERRUN)
        try:
            async with guard:
                self._guard = guard
                well = await self._tick(deadline)
        except asyncio.CancelledError as exc:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._crashed("was cancelled from within", exc)
        except Exception as exc:
            if not guard.expired():
                self._crashed("failed", exc)
            elif not self._stopping.is_set():
                self._crashed("did not keep its deadline and was cut", None)
        finally:
            self._guard = None
        self.failures = 0 if well else self.failures + 1

    def _crashed(self, what: str, exc: BaseException | None) -> None:
        self.crashes += 1
        # A trace for the first of a row; the same one every two seconds helps nobody.
        trace = exc if self.failures == 0 else None
        log.error(
            "poll of %r %s (%s)", self.name, what, type(exc).__name__ if exc else "timeout", exc_info=trace
        )
