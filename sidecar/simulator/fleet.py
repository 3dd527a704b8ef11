"""Several replicas behind a router: cold starts, scaling, draining."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

from sidecar.simulator.model import NS, to_ns
from sidecar.simulator.replica import Replica, ReplicaConfig
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

    `advance` brings every replica to the same moment: only then look at them or change them by hand.
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
        self.wanted = size  # by the last `scale`
        self.held: deque[Request] = deque()
        self.replica_seconds = 0.0  # paid for: from the start of a process to its end
        self.lost = 0  # requests that a scale-in cut off
        self._router = router
        self._drain_seconds = drain_seconds
        self._now = start
        self._made = count()
        self._replica_of: dict[Request, Replica] = {}
        self._deadlines: dict[Replica, float] = {}  # of the draining ones
        self._quiet: dict[Replica, float] = {}  # nothing ends there before
        self._left: list[Request] = []  # clients that left the router
        self.replicas = [self._new() for _ in range(size)]
        for replica in self.replicas:
            replica.ready_at = start

    @property
    def now(self) -> float:
        return self._now

    @property
    def ready(self) -> list[Replica]:
        return [
            replica for replica in self.replicas if replica.ready_at <= self._now and not replica.draining
        ]

    @property
    def in_flight(self) -> int:
        """Requests in the replicas and held by the router."""
        return sum(replica.in_flight for replica in self.replicas) + len(self.held)

    def scale(self, size: int) -> None:
        """Ask for `size` replicas from now on: start new ones, or drain the newest (those still starting
        end at once)."""
        self.wanted = size
        serving = [replica for replica in self.replicas if not replica.draining]
        self.replicas += [self._new() for _ in range(size - len(serving))]
        for replica in serving[size:]:
            if replica.ready_at > self._now or not replica.in_flight:
                self._remove(replica)
            else:
                replica.draining = True
                self._deadlines[replica] = self._now + self._drain_seconds

    def submit(self, request: Request) -> bool:
        """Route a request now, or hold it while no replica is ready. False when its replica refused it."""
        request.asked_ns = to_ns(self._now)
        ready = self.ready
        if ready:
            return self._route(ready, request)
        self.held.append(request)
        return True

    def abort(self, request: Request) -> bool:
        replica = self._replica_of.get(request)
        if replica is not None:
            self._touch(replica)
            return replica.abort(request)
        if request not in self.held:
            return False
        self.held.remove(request)
        request.outcome, request.ended_ns = Outcome.CANCELLED, to_ns(self._now)
        self._left.append(request)
        return True

    def advance(self, to: float) -> list[Request]:
        """Let everything happen up to `to` seconds; returns the requests that ended."""
        ended = self.reach(to)
        self._quiet.clear()
        return ended + self._move(to)

    def reach(self, to: float) -> list[Request]:
        """As `advance`, but a replica in which nothing ends may stay behind."""
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
        ended, self._left = self._left, []
        self.replica_seconds += (to - self._now) * len(self.replicas)
        self._now = to
        for replica in self.replicas[:]:
            if self._quiet.get(replica, 0.0) > to:
                continue
            here = replica.advance(to)
            self._quiet[replica] = replica.quiet_until
            ended += here
            if replica.draining and not replica.in_flight:
                self.replica_seconds -= to - here[-1].ended_ns / NS  # it was over with its last request
                self._remove(replica)
        for replica in [one for one, deadline in self._deadlines.items() if deadline <= to]:
            self._touch(replica)
            ended += self._remove(replica)
        for request in ended:
            self._replica_of.pop(request, None)
        while self.held and (ready := self.ready):
            request = self.held.popleft()
            if not self._route(ready, request):
                ended.append(request)
        return ended

    def _route(self, ready: Sequence[Replica], request: Request) -> bool:
        replica = self._router(ready, request)
        self._touch(replica)
        if not replica.submit(request):
            return False
        self._replica_of[request] = replica
        return True

    def _touch(self, replica: Replica) -> None:
        """Bring a replica that stayed behind to now, before something is done to it."""
        replica.advance(self._now)
        self._quiet.pop(replica, None)

    def _new(self) -> Replica:
        config = replace(self.config, seed=self.config.seed + next(self._made))
        return Replica(config, start=self._now)

    def _remove(self, replica: Replica) -> list[Request]:
        self.replicas.remove(replica)
        self._deadlines.pop(replica, None)
        self._quiet.pop(replica, None)
        lost = replica.stop()
        self.lost += len(lost)
        return lost
