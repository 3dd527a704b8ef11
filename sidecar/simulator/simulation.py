"""Traffic through a replica or a fleet, in simulated time or in whatever time its caller keeps."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from sidecar.simulator.request import Request
from sidecar.simulator.traffic import Arrival, Traffic


class Service(Protocol):
    """What clients talk to: a `Replica` or a `Fleet`."""

    @property
    def now(self) -> float: ...

    def advance(self, to: float) -> list[Request]: ...

    def reach(self, to: float) -> list[Request]:
        """As `advance`, but parts in which no request ends may stay behind."""
        ...

    def submit(self, request: Request) -> bool: ...

    def abort(self, request: Request) -> bool: ...


S = TypeVar("S", bound=Service)


class Simulation(Generic[S]):
    """A service and the clients before it. `advance(t)` lets arrivals, impatient clients and the service act
    in order.

    `ended` collects what ended since it was last cleared, if `keep` is set: the truth for checks. Refused and
    lost requests are in it too.
    """

    def __init__(self, service: S, traffic: Traffic | None = None, *, keep: bool = False) -> None:
        self.service = service
        self.ended: list[Request] = []
        self._keep = keep
        self._leaves: list[tuple[float, int, Request]] = []
        self._order = 0
        self._arrivals: Iterator[Arrival]
        self._next: Arrival | None
        self.play(traffic)

    @property
    def now(self) -> float:
        return self.service.now

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
            self.collect(self.service.reach(at))
            if self._leaves and self._leaves[0][0] == at:
                self.service.abort(heappop(self._leaves)[2])
            else:
                self._arrive(at)
        self.collect(self.service.advance(to))

    def collect(self, ended: list[Request]) -> None:
        """Note requests that ended, or that a fault has lost."""
        if self._keep:
            self.ended += ended

    def _arrive(self, at: float) -> None:
        arrival = self._next
        assert arrival is not None
        self._next = next(self._arrivals, None)
        if not self.service.submit(arrival.request):
            self.collect([arrival.request])
        elif arrival.patience is not None:
            self._order += 1
            heappush(self._leaves, (at + arrival.patience, self._order, arrival.request))
