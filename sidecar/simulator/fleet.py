"""Several replicas behind a router: cold starts, scaling, draining."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from sidecar.simulator.model import to_ns
from sidecar.simulator.replica import Replica, ReplicaConfig, State
from sidecar.simulator.request import Outcome, Request

Router = Callable[[Sequence[Replica], Request], Replica]
"""Chooses among the ready replicas, of which there is at least one."""


def least_in_flight(ready: Sequence[Replica], request: Request) -> Replica:
    """The replica with the fewest requests in flight, the oldest among equals."""
    return min(ready, key=lambda replica: replica.in_flight)


def round_robin() -> Router:
    """A router that takes the ready replicas in turn."""
    turns = count()
    return lambda ready, request: ready[next(turns) % len(ready)]


class Fleet:
    """Replicas of one configuration, `size` of them ready from the start.

    Later ones take the configuration's cold start. A request that finds none ready is held by the router
    until one is. Scaling in drains the newest: they take no more requests and end when they are idle, or
    after `drain_seconds` with their last requests lost. It is a `Service`, so `Simulation(fleet, traffic)`
    runs it.
    """

    def __init__(
        self,
        config: ReplicaConfig,
        size: int,
        *,
        router: Router = least_in_flight,
        drain_seconds: float = 600.0,
        start: float = 0.0,
    ) -> None:
        self.config = config
        self.held: deque[Request] = deque()
        self.replica_seconds = 0.0  # paid for: from the start of a process to its end
        self.lost = 0  # requests that a scale-in cut off
        self._router = router
        self._drain_seconds = drain_seconds
        self._now = start
        self._replica_of: dict[Request, Replica] = {}
        self._deadlines: dict[Replica, float] = {}
        self._wanted = size
        self._made = count()
        self.replicas = [self._new() for _ in range(size)]
        for replica in self.replicas:
            replica.ready_at = start

    @property
    def now(self) -> float:
        return self._now

    @property
    def wanted(self) -> int:
        """Replicas asked for by the last `scale`."""
        return self._wanted

    @property
    def ready(self) -> list[Replica]:
        return [replica for replica in self.replicas if replica.state is State.READY]

    @property
    def in_flight(self) -> int:
        """Requests in the replicas and held by the router."""
        return sum(replica.in_flight for replica in self.replicas) + len(self.held)

    def scale(self, size: int) -> None:
        """Ask for `size` replicas from now on: start new ones, or drain the newest (those still starting
        end at once)."""
        self._wanted = size
        serving = [replica for replica in self.replicas if not replica.draining]
        for _ in range(size - len(serving)):
            self.replicas.append(self._new())
        for replica in serving[size:]:
            if replica.state is State.STARTING:
                self._remove(replica)
            else:
                replica.draining = True
                self._deadlines[replica] = self._now + self._drain_seconds

    def submit(self, request: Request) -> bool:
        """Route a request now, or hold it while no replica is ready. False when its replica refused it."""
        ready = self.ready
        if not ready:
            request.arrived_ns = to_ns(self._now)
            self.held.append(request)
            return True
        return self._route(ready, request)

    def abort(self, request: Request) -> bool:
        replica = self._replica_of.get(request)
        if replica is not None:
            return replica.abort(request)
        if request not in self.held:
            return False
        self.held.remove(request)
        request.outcome, request.ended_ns = Outcome.CANCELLED, to_ns(self._now)
        return True

    def advance(self, to: float) -> list[Request]:
        """Let everything happen up to `to` seconds; returns the requests that ended."""
        ended: list[Request] = []
        while (moment := self._next_change(to)) is not None:
            ended += self._move(moment)
        return ended + self._move(to)

    def _next_change(self, to: float) -> float | None:
        """The next moment up to `to` at which a held request can go on or a drain is over."""
        moments = [deadline for deadline in self._deadlines.values() if deadline <= to]
        if self.held:
            moments += [replica.ready_at for replica in self.replicas if self._now < replica.ready_at <= to]
        return min(moments, default=None)

    def _move(self, to: float) -> list[Request]:
        ended: list[Request] = []
        for replica in self.replicas:
            ended += replica.advance(to)
        self.replica_seconds += (to - self._now) * len(self.replicas)
        self._now = to
        for replica, deadline in list(self._deadlines.items()):
            if not replica.in_flight or deadline <= to:
                ended += self._remove(replica)
        for request in ended:
            self._replica_of.pop(request, None)
        while self.held and (ready := self.ready):
            request = self.held.popleft()
            arrived = request.arrived_ns
            if not self._route(ready, request):
                ended.append(request)
            request.arrived_ns = arrived  # its client has waited since then
        return ended

    def _route(self, ready: Sequence[Replica], request: Request) -> bool:
        replica = self._router(ready, request)
        if not replica.submit(request):
            return False
        self._replica_of[request] = replica
        return True

    def _new(self) -> Replica:
        config = replace(self.config, seed=self.config.seed + next(self._made))
        return Replica(config, start=self._now)

    def _remove(self, replica: Replica) -> list[Request]:
        self.replicas.remove(replica)
        self._deadlines.pop(replica, None)
        lost = replica.stop()
        self.lost += len(lost)
        return lost
