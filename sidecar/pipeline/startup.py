"""The cold start in consecutive phases that sum to it, seen from outside."""

from __future__ import annotations

from sidecar.schema import STARTUP_PHASES


class Startup:
    """Marks when a runtime that was down first answered, was live, was ready, and gave its first token.

    Nothing is stated of a runtime that was up before the sidecar looked: its past can't be seen. The start is
    the runtime's own process start where it tells it, else the first refused connection.
    """

    def __init__(self) -> None:
        self._down_since: float | None = None
        self._started: float | None = None
        self._marks: list[float] = []

    def down(self, time: float) -> None:
        """The target refuses connections."""
        if self._down_since is None or self._marks:
            self._down_since, self._started, self._marks = time, None, []

    def up(
        self,
        time: float,
        *,
        live: bool | None,
        ready: bool | None,
        first_token: bool,
        start_time: float | None,
    ) -> None:
        """The target answers. None means that the runtime has no such endpoint: the phase takes no time."""
        if self._down_since is None:
            return
        if start_time is not None and self._down_since - 600 < start_time <= time:
            self._started = start_time
        reached = [True, live is not False, ready is not False, first_token]
        for place, here in enumerate(reached):
            if not here:
                break
            if place == len(self._marks):
                self._marks.append(time)

    def restarted(self) -> None:
        """The runtime has restarted between two scrapes: nothing of its start was seen."""
        if self._down_since is not None and self._marks:
            self._down_since, self._started, self._marks = None, None, []

    def phases(self) -> dict[str, float]:
        """Seconds of the phases that are over."""
        if self._down_since is None:
            return {}
        edges = [self._started if self._started is not None else self._down_since, *self._marks]
        return {
            phase: max(after - before, 0.0)
            for phase, before, after in zip(STARTUP_PHASES, edges, edges[1:], strict=False)
        }
