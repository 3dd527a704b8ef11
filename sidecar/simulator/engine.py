"""One engine in time: steps that take as long as their batch asks for, looked at whenever somebody likes.

Discrete-event and lazy. Time advances only when somebody looks (`advance`), by whole steps. A step decodes
one token for each decoding sequence and computes prompt tokens for the others; what arrives during a step
waits for the next. While nothing but decoding happens, all steps up to the next event (a sequence ends, the
KV cache runs short, the moment of the look) are taken at once: an idle hour or a long decode costs
microseconds. How often the engine is looked at changes nothing in what it does: time is counted in whole
nanoseconds.

What is counted when, as vLLM does: time to first token and prompt tokens at the end of the prefill; gaps
and generated tokens at each step; everything else of a request when it finishes; gauges at the end of a
step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from sidecar.simulator.model import NS, EngineConfig, to_ns
from sidecar.simulator.request import Outcome, Request
from sidecar.simulator.scheduler import Schedule, Scheduler
from sidecar.simulator.telemetry import Telemetry

_FOR_EVER = 1 << 60  # steps


@dataclass(slots=True)
class _Step:
    """A step that is under way."""

    start: int
    end: int
    schedule: Schedule
    unlike: bool = False  # the next won't be as long: it hung, or its batch changed


@dataclass(frozen=True, slots=True)
class Iteration:
    """What `Engine.on_iteration` is told after `repeated` equal steps of `seconds` each, the last of which
    ended at `ended` (engine seconds), for runtimes that report every iteration.

    `prefilling` requests computed `prompt_tokens`, `decoding` ones put out a token each; `running`,
    `waiting` and `kv_used` are what is left after the last step, `finished` the requests that ended with it.
    """

    ended: float
    seconds: float
    repeated: int
    prefilling: int
    prompt_tokens: int
    decoding: int
    running: int
    waiting: int
    kv_used: int
    finished: int


class Engine:
    """An engine that starts idle at `start` seconds.

    Call `advance(t)` before `submit`, `abort` and the faults at time t; times never go back. Ended requests
    are handed out once by `take_ended`.
    """

    def __init__(self, config: EngineConfig, start: float = 0.0) -> None:
        self.config = config
        self.telemetry = Telemetry(config.kv_blocks, config.block_size)
        self.on_iteration: Callable[[Iteration], None] | None = None
        self._batch = Scheduler(config, self.telemetry)
        self._clock = to_ns(start)
        self._step: _Step | None = None
        self._hung_since: int | None = None
        self._slowdown = 1.0
        self._slow_ns = to_ns(config.slow_gap)
        self._ended: list[Request] = []

    @property
    def now(self) -> float:
        return self._clock / NS

    @property
    def hung(self) -> bool:
        return self._hung_since is not None

    @property
    def in_flight(self) -> int:
        """Requests waiting or running now; the telemetry's gauges tell the same as of the last step."""
        return len(self._batch.waiting) + len(self._batch.running)

    @property
    def running(self) -> int:
        return len(self._batch.running)

    @property
    def waiting(self) -> int:
        return len(self._batch.waiting)

    @property
    def kv_used(self) -> int:
        return self._batch.pool.used

    def generated(self, request: Request) -> int:
        """Tokens put out so far for a request of this engine."""
        return self._batch.generated(request)

    def next_event(self) -> float | None:
        """Seconds at which the step under way ends, after planning one if there is work (a request
        submitted at the same instant but later then waits for the next); None when nothing will happen by
        itself."""
        step = None if self.hung else self._step or self._plan()
        return None if step is None else step.end / NS

    @property
    def quiet_until(self) -> float:
        """No request ends before that moment (seconds) unless something is done to the engine."""
        if self.hung or not self.in_flight:
            return inf
        step = self._step
        if step is None:
            return self.now
        alike = 1 if step.unlike else self._batch.alike(step.schedule, _FOR_EVER)
        return (step.start + (step.end - step.start) * alike) / NS

    def take_ended(self) -> list[Request]:
        """Requests that ended in the engine since the last call, in order."""
        ended, self._ended = self._ended, []
        return ended

    def submit(self, request: Request) -> bool:
        """Queue a request now. False when the queue limit refuses it. ValueError when it is longer than the
        model can take."""
        if request.prompt_tokens < 1 or request.output_tokens < 1:
            raise ValueError("a request has at least one prompt token and one output token")
        if request.prompt_tokens + request.target > self.config.max_model_len:
            raise ValueError(
                f"{request.prompt_tokens} prompt tokens and {request.target} output tokens exceed "
                f"the model's length of {self.config.max_model_len}"
            )
        limit = self.config.max_queued_requests
        request.arrived_ns = self._clock
        if limit is not None and len(self._batch.waiting) >= limit:
            request.outcome, request.ended_ns = Outcome.REJECTED, self._clock
            return False
        self._batch.waiting.append(request)
        self.telemetry.received += 1
        return True

    def abort(self, request: Request) -> bool:
        """The client went away. False if the request had ended already."""
        if request.outcome is not None:
            return False
        if request in self._batch.running:
            self.telemetry.cancelled_running += 1
            self._batch.leave(request, self._clock if self._step is None else self._step.start)
            if self._step is not None:
                self._step.unlike = True
        else:
            self._batch.waiting.remove(request)
            self.telemetry.cancelled_waiting += 1
        request.outcome, request.ended_ns = Outcome.CANCELLED, self._clock
        self._ended.append(request)
        if not self.in_flight and not self.hung:
            self._publish_gauges()  # no step will follow to do it
        return True

    def hang(self) -> None:
        """Stop in mid-step: nothing moves any more, gauges freeze, requests still queue."""
        if self._hung_since is None:
            if self._step is None:
                self._plan()  # so that the gap before the next token spans the hang
            self._hung_since = self._clock

    def resume(self) -> None:
        """Go on where it hung; the step under way took that much longer."""
        if self._hung_since is not None:
            if self._step is not None:
                self._step.end += self._clock - self._hung_since
                self._step.unlike = True
            self._hung_since = None

    def slow_down(self, factor: float) -> None:
        """The steps after this one take `factor` times their time."""
        self._slowdown = factor
        if self._step is not None:
            self._step.unlike = True

    def stop(self) -> list[Request]:
        """Die: every request in flight is lost. Returns them; the engine is of no more use."""
        lost = [*self._batch.running, *self._batch.waiting]
        for request in lost:
            request.generated, request.joined = self.generated(request), -1
            request.outcome, request.ended_ns = Outcome.LOST, self._clock
        return lost

    def advance(self, to: float) -> None:
        """Let everything happen up to `to` seconds, that moment included."""
        limit = max(to_ns(to), self._clock)
        while self._hung_since is None:
            step = self._step
            if step is None:
                step = self._plan() if self._clock < limit else None
            if step is None or step.end > limit:
                break
            most = 1 if step.unlike else (limit - step.start) // (step.end - step.start)
            self._complete(step, self._batch.alike(step.schedule, most))
        self._clock = limit

    def _plan(self) -> _Step | None:
        """Begin the next step now. None when there is nothing to do."""
        if not self._batch.running and not self._batch.waiting:
            return None
        schedule = self._batch.schedule(self._clock)
        prompt = sum(chunk for _, chunk in schedule.chunks)
        length = self.config.timing.step_ns(self._batch.decoding, prompt, self._slowdown)
        self._step = _Step(self._clock, self._clock + length, schedule)
        return self._step

    def _complete(self, step: _Step, repeats: int) -> None:
        """Put out the tokens of a step, or of `repeats` equal ones."""
        seen, batch = self.telemetry, self._batch
        length = step.end - step.start
        decoding = batch.decoding
        self._clock = step.start + length * repeats
        self._step = None
        batch.ticks += repeats
        batch.slow_ticks += repeats if length > self._slow_ns else 0
        batch.grow(batch.ticks - 1, self._clock)  # what the steps but the first took on their way
        seen.steps += repeats
        seen.busy_seconds += length * repeats / NS
        if decoding:
            seen.inter_token.observe(length / NS, decoding * repeats)
        prompt = began = scheduled = 0
        for request, chunk in step.schedule.chunks:
            scheduled += chunk
            if request in batch.running:  # not aborted during the step
                request.computed += chunk
                if request.computed == request.goal:
                    began += 1
                    prompt += self._prefilled(request)
        seen.generation_tokens += decoding * repeats + began
        if decoding or began:
            seen.step_tokens.observe(prompt + decoding + began, repeats)
        if scheduled:
            seen.prefill_step_tokens.observe(scheduled)
        ending = batch.take_ending(self._clock)
        for request in ending:
            request.outcome, request.ended_ns = request.natural_end, self._clock
            seen.finish(request)
        self._ended += ending
        self._publish_gauges()
        if self.on_iteration is not None:
            self.on_iteration(
                Iteration(
                    ended=self.now,
                    seconds=length / NS,
                    repeated=repeats,
                    prefilling=len(step.schedule.chunks),
                    prompt_tokens=scheduled,
                    decoding=decoding,
                    running=seen.running,
                    waiting=seen.waiting,
                    kv_used=seen.kv_used,
                    finished=len(ending),
                )
            )

    def _prefilled(self, request: Request) -> int:
        """A prefill ends with a token. Returns the prompt tokens counted for it, none when it was a
        recompute."""
        seen = self.telemetry
        again = request.first_token_ns >= 0
        if again:
            seen.recomputed_tokens += request.goal - request.shared * self.config.block_size
            gap = self._clock - request.last_token_ns
            request.slow_gaps += gap > self._slow_ns
            seen.inter_token.observe(gap / NS)
        self._batch.decode(request, self._clock)
        if again:
            return 0
        seen.prompt_tokens += request.prompt_tokens
        seen.cached_tokens += request.cached_tokens
        seen.time_to_first_token.observe(request.first_token_seconds)
        return request.prompt_tokens - request.cached_tokens

    def _publish_gauges(self) -> None:
        self.telemetry.running = len(self._batch.running)
        self.telemetry.waiting = len(self._batch.waiting)
        self.telemetry.kv_used = self._batch.pool.used
