"""One server: one front end before one or more engines (data-parallel ranks), with its life and its
faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from sidecar.simulator.engine import Engine
from sidecar.simulator.model import EngineConfig, to_ns
from sidecar.simulator.request import Outcome, Request
from sidecar.simulator.telemetry import FrontEnd, Telemetry


class State(StrEnum):
    STARTING = "starting"  # nothing listens yet
    READY = "ready"
    DRAINING = "draining"  # ready, but takes no new request
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """A server of one model. `startup_seconds` is the cold start: from the process's start to its first
    answer."""

    model_name: str = "sim/llama-8b"
    engine: EngineConfig = field(default_factory=EngineConfig)
    ranks: int = 1
    startup_seconds: float = 0.0
    seed: int = 0


class Replica:
    """A server whose process starts at `start` seconds; `epoch` is the Unix time of second 0.

    As with an engine: `advance(t)` before `submit`, `abort` and the faults at time t. A page reads `ranks`,
    `front`, `config`, `started`, `ready_at` and `epoch`.
    """

    def __init__(self, config: ReplicaConfig, *, start: float = 0.0, epoch: float = 0.0) -> None:
        self.config = config
        self.epoch = epoch
        self.error_rate = 0.0  # share of the requests submitted from now on that fail in mid-answer
        self.draining = False
        self._random = Random(config.seed)
        self._rank_of: dict[Request, Engine] = {}
        self._stopped = False
        self._start(start)

    def _start(self, at: float, startup: float | None = None) -> None:
        self.started = at
        self.ready_at = at + (self.config.startup_seconds if startup is None else startup)
        self.engines = [Engine(self.config.engine, at) for _ in range(self.config.ranks)]
        self.front = FrontEnd()

    @property
    def ranks(self) -> list[Telemetry]:
        return [engine.telemetry for engine in self.engines]

    @property
    def now(self) -> float:
        return self.engines[0].now

    @property
    def state(self) -> State:
        if self._stopped:
            return State.STOPPED
        if self.now < self.ready_at:
            return State.STARTING
        return State.DRAINING if self.draining else State.READY

    @property
    def in_flight(self) -> int:
        return sum(engine.in_flight for engine in self.engines)

    @property
    def requests(self) -> list[Request]:
        """Those in flight, in order of arrival."""
        return list(self._rank_of)

    def next_event(self) -> float | None:
        """The next moment at which a token may come out, None when nothing will happen by itself."""
        return min((at for engine in self.engines if (at := engine.next_event()) is not None), default=None)

    @property
    def quiet_until(self) -> float:
        """No request ends before that moment unless something is done to the replica."""
        return min(engine.quiet_until for engine in self.engines)

    def reach(self, to: float) -> list[Request]:
        """A replica never stays behind: the same as `advance`."""
        return self.advance(to)

    def advance(self, to: float) -> list[Request]:
        """Let everything happen up to `to` seconds; returns the requests that ended, in order of their
        end."""
        ended: list[Request] = []
        for engine in self.engines:
            engine.advance(to)
            ended += engine.take_ended()
        if len(self.engines) > 1:
            ended.sort(key=lambda request: request.ended_ns)
        for request in ended:
            self._record(request)
        return ended

    def submit(self, request: Request) -> bool:
        """Hand a request to the rank with the fewest in flight. False when it was refused, and its outcome
        says why: REJECTED (not ready, or a queue limit) or INVALID (longer than the model can take)."""
        request.arrived_ns = request.ended_ns = to_ns(self.now)
        if request.asked_ns < 0:
            request.asked_ns = request.arrived_ns
        if self.state is not State.READY:
            request.outcome = Outcome.REJECTED
            return False
        if self.error_rate and self._random.random() < self.error_rate:
            request.fails_after = 1 + self._random.randrange(request.target)
        engine = min(self.engines, key=lambda one: one.in_flight)
        try:
            accepted = engine.submit(request)
        except ValueError:
            request.outcome = Outcome.INVALID
            accepted = False
        if accepted:
            request.ended_ns = -1
            self._rank_of[request] = engine
        else:
            self.front.rejected_by_requests += request.outcome is Outcome.REJECTED
            self._record(request)
        return accepted

    def generated(self, request: Request) -> int:
        """Tokens that have come out for a request so far."""
        engine = self._rank_of.get(request)
        return request.generated if engine is None else engine.generated(request)

    def abort(self, request: Request) -> bool:
        """The client went away. False if the request had ended already."""
        engine = self._rank_of.get(request)
        return engine is not None and engine.abort(request)

    def _record(self, request: Request) -> None:
        """The front end's own account of an exchange. As measured on vLLM: whatever happens to an answer that
        streams, its status was 200; a client that leaves is a 200 too."""
        self._rank_of.pop(request, None)
        status = 400 if request.outcome is Outcome.INVALID else 200
        if not request.streaming and request.outcome is Outcome.REJECTED:
            status = 503
        elif not request.streaming and request.outcome is Outcome.ERROR:
            status = 500
        self.front.record(
            request.endpoint,
            "POST",
            status,
            request.end_to_end_seconds,
            bytes_in=120 + 4 * request.prompt_tokens,
            bytes_out=240 * request.generated,
        )

    # Faults ---------------------------------------------------------------------------------------

    def hang(self, rank: int | None = None) -> None:
        """Engines stop in mid-step; the front end still answers, with frozen gauges."""
        for engine in self.engines if rank is None else [self.engines[rank]]:
            engine.hang()

    def resume(self) -> None:
        for engine in self.engines:
            engine.resume()

    def slow_down(self, factor: float) -> None:
        """Steps take `factor` times as long from now on (a throttled GPU)."""
        for engine in self.engines:
            engine.slow_down(factor)

    def restart(self, startup: float | None = None) -> list[Request]:
        """The process dies and comes back `startup` seconds later (default: the cold start) with all
        counters at 0. Returns the requests that were lost."""
        lost = self.stop()
        self._stopped = False
        self.draining = False
        self._start(self.now, startup)
        return lost

    def stop(self) -> list[Request]:
        """The process ends. Returns the requests that were lost."""
        lost = [request for engine in self.engines for request in engine.stop()]
        self._rank_of.clear()
        self._stopped = True
        return lost
