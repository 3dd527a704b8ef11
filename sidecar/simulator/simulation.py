"""Traffic through a replica, in simulated time or in whatever time its caller keeps."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from sidecar.simulator.replica import Replica
from sidecar.simulator.request import Request
from sidecar.simulator.traffic import Arrival, Traffic


class Simulation:
    """A replica and the clients before it. `advance(t)` lets arrivals, impatient clients and the engine act
    in order.

    `ended` collects what ended since it was last cleared, if `keep` is set: the truth for checks. Refused
    and lost requests are in it too.
    """

    def __init__(self, replica: Replica, traffic: Traffic | None = None, *, keep: bool = False) -> None:
        self.replica = replica
        self.ended: list[Request] = []
        self._keep = keep
        self._arrivals: Iterator[Arrival] = iter(()) if traffic is None else traffic.arrivals()
        self._offset = replica.now
        self._next: Arrival | None = next(self._arrivals, None)
        self._leaves: list[tuple[float, int, Request]] = []
        self._order = 0

    @property
    def now(self) -> float:
        return self.replica.now

    def play(self, traffic: Traffic | None) -> None:
        """Replace the traffic from now on; its second 0 is now."""
        self._arrivals = iter(()) if traffic is None else traffic.arrivals()
        self._offset = self.now
        self._next = next(self._arrivals, None)

    def next_client(self) -> float | None:
        """Second of the next arrival or departure of a client."""
        times = [] if self._next is None else [self._next.seconds + self._offset]
        return min(times + [leave[0] for leave in self._leaves[:1]], default=None)

    def advance(self, to: float) -> None:
        """Let everything happen up to `to` seconds."""
        while (at := self.next_client()) is not None and at <= to:
            self._collect(self.replica.advance(at))
            if self._leaves and self._leaves[0][0] == at:
                self.replica.abort(heappop(self._leaves)[2])
            else:
                self._arrive(at)
        self._collect(self.replica.advance(to))

    def restart(self, startup: float | None = None) -> list[Request]:
        """Restart the replica now; its clients lose their requests."""
        lost = self.replica.restart(startup)
        self._collect(lost)
        return lost

    def _arrive(self, at: float) -> None:
        arrival = self._next
        assert arrival is not None
        self._next = next(self._arrivals, None)
        if not self.replica.submit(arrival.request):
            self._collect([arrival.request])
        elif arrival.patience is not None:
            self._order += 1
            heappush(self._leaves, (at + arrival.patience, self._order, arrival.request))

    def _collect(self, ended: list[Request]) -> None:
        if self._keep:
            self.ended += ended
