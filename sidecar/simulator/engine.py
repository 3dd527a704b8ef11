"""One engine: a queue, a running batch, chunked prefill, KV blocks, preemption by recompute.

Discrete-event and lazy. Time advances only when somebody looks (`advance`), by whole steps. A step decodes
one token for each decoding sequence and computes prompt tokens for the others; what arrives during a step
waits for the next. While nothing but decoding happens, all steps up to the next event (a sequence ends, a
KV block is needed, the moment of the look) are taken at once: an idle hour or a long decode costs
microseconds. How often the engine is looked at changes nothing in what it does: time is counted in whole
nanoseconds.

What is counted when, as vLLM does: time to first token, prompt tokens at the end of the prefill; gaps and
generated tokens at each step; everything else of a request when it finishes; gauges at the end of a step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

from sidecar.simulator.kv import BlockPool
from sidecar.simulator.model import NS, EngineConfig, to_ns
from sidecar.simulator.request import Outcome, Request
from sidecar.simulator.telemetry import Telemetry


@dataclass(slots=True)
class _Step:
    """A step that is under way."""

    start: int
    end: int
    chunks: list[tuple[Request, int]]  # prompt tokens computed in it
    blocked: Request | None  # head of the queue that found no room: it won't before something ends
    stretched: bool = False  # by a hang: the next step won't be as long


@dataclass(frozen=True, slots=True)
class Iteration:
    """What `Engine.on_iteration` is told after `repeated` equal steps of `seconds` each, the last of which
    ended at
    `ended` (engine seconds): the counts as the scheduler saw them while the step ran, for runtimes that
    report every iteration."""

    ended: float
    seconds: float
    repeated: int
    prefilling: int
    prompt_tokens: int
    decoding: int
    waiting: int
    kv_used: int
    finished: int


class Engine:
    """An engine that starts idle at `start` seconds.

    Call `advance(t)` before `submit` and `abort` at time t; times never go back. Ended requests are handed
    out once by `take_ended`.
    """

    def __init__(self, config: EngineConfig, start: float = 0.0) -> None:
        self.config = config
        self.telemetry = Telemetry(config.kv_blocks, config.block_size)
        self.slowdown = 1.0  # multiplies the length of the steps planned from now on
        self.on_iteration: Callable[[Iteration], None] | None = None
        self._clock = to_ns(start)
        self._step: _Step | None = None
        self._hung_since: int | None = None
        self._ticks = 0  # finished steps; every decoding sequence puts out one token a tick
        self._pool = BlockPool(config.kv_blocks)
        self._waiting: deque[Request] = deque()
        self._running: dict[Request, None] = {}  # in order of admission: the last is preempted first
        self._prefilling: dict[Request, None] = {}
        self._ends: list[tuple[int, int, int, Request]] = []  # (tick, order, stay, request)
        self._growths: list[
            tuple[int, int, int, Request]
        ] = []  # its next token needs a block before that tick
        self._order = 0
        self._ended: list[Request] = []

    # What anybody may ask -------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self._clock / NS

    @property
    def hung(self) -> bool:
        return self._hung_since is not None

    @property
    def in_flight(self) -> int:
        """Requests waiting or running now; the telemetry's gauges tell the same as of the last step."""
        return len(self._waiting) + len(self._running)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def kv_used(self) -> int:
        return self._pool.used

    def generated(self, request: Request) -> int:
        """Tokens put out so far for a request of this engine."""
        return request.generated + (self._ticks - request.joined if request.joined >= 0 else 0)

    def next_event(self) -> float | None:
        """Seconds at which the step under way ends, after planning one if there is work (a request
        submitted at the same instant but later then waits for the next); None when nothing will happen by
        itself."""
        step = None if self.hung else self._step or self._plan()
        return None if step is None else step.end / NS

    def take_ended(self) -> list[Request]:
        """Requests that ended in the engine since the last call, in order."""
        ended, self._ended = self._ended, []
        return ended

    # What anybody may do --------------------------------------------------------------------------

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
        if limit is not None and len(self._waiting) >= limit:
            request.outcome, request.ended_ns = Outcome.REJECTED, self._clock
            return False
        self._waiting.append(request)
        self.telemetry.received += 1
        return True

    def abort(self, request: Request, outcome: Outcome = Outcome.CANCELLED) -> bool:
        """The client went away. False if the request had ended already."""
        if request.outcome is not None:
            return False
        if request in self._running:
            self.telemetry.cancelled_running += 1
            self._leave(request)
            if self._step is not None:
                self._step.blocked = None
        else:
            self._waiting.remove(request)
            self.telemetry.cancelled_waiting += 1
        request.outcome, request.ended_ns = outcome, self._clock
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
                self._step.stretched = True
            self._hung_since = None

    def stop(self) -> list[Request]:
        """Die: every request in flight is lost. Returns them; the engine is of no more use."""
        lost = [*self._running, *self._waiting]
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
            self._complete(step, self._repeats(step, limit))
        self._clock = limit

    # One step -------------------------------------------------------------------------------------

    def _plan(self) -> _Step | None:
        """Schedule the next step from now on. None when there is nothing to do."""
        if not self._running and not self._waiting:
            return None
        preempted = self._grow(self._ticks)
        budget = self.config.max_batched_tokens - (len(self._running) - len(self._prefilling))
        chunks: list[tuple[Request, int]] = []
        for request in list(self._prefilling):
            chunk = min(request.goal - request.computed, budget)
            if chunk and request in self._running:
                chunk, took_others = self._room(request, chunk)
                preempted |= took_others
                if chunk:
                    chunks.append((request, chunk))
                    budget -= chunk
        blocked = None
        while not preempted and budget and self._waiting and len(self._running) < self.config.max_num_seqs:
            chunk = self._admit(self._waiting[0], budget)
            if not chunk:
                blocked = self._waiting[0]
                break
            chunks.append((self._waiting.popleft(), chunk))
            budget -= chunk
        chunks = [pair for pair in chunks if pair[0] in self._running]
        length = self.config.timing.step_ns(
            len(self._running) - len(self._prefilling), sum(chunk for _, chunk in chunks), self.slowdown
        )
        self._step = _Step(self._clock, self._clock + length, chunks, blocked)
        return self._step

    def _repeats(self, step: _Step, limit: int) -> int:
        """How many steps equal to this one end by `limit` before anything but decoding happens."""
        full = len(self._running) >= self.config.max_num_seqs
        if (
            step.chunks
            or self._prefilling
            or (self._waiting and not full and self._waiting[0] is not step.blocked)
        ):
            return 1
        repeats = (limit - step.start) // (step.end - step.start)
        if repeats == 1 or step.stretched:
            return 1
        for notes in (self._ends, self._growths):
            while notes and notes[0][2] != notes[0][3].stay:
                heappop(notes)
        if self._ends:
            repeats = min(repeats, self._ends[0][0] - self._ticks)
        most = len(self._running) * (repeats // self.config.block_size + 1)
        if self._growths and most > self._pool.free:
            repeats = min(repeats, self._growths[0][0] - self._ticks)
        return max(1, repeats)

    def _complete(self, step: _Step, repeats: int) -> None:
        """Put out the tokens of a step, or of `repeats` equal ones."""
        seen = self.telemetry
        length = step.end - step.start
        decoding = len(self._running) - len(self._prefilling)
        self._clock = step.start + length * repeats
        self._ticks += repeats
        self._step = None
        seen.steps += repeats
        seen.busy_seconds += length * repeats / NS
        if decoding:
            seen.inter_token.observe(length / NS, decoding * repeats)
        self._grow(self._ticks - 1)  # what the steps but the first took on their way
        put_out = decoding
        prompt = 0
        ended_before = seen.finished
        prefilling = len(step.chunks)
        for request, chunk in step.chunks:
            if request not in self._running:  # aborted during the step
                continue
            request.computed += chunk
            if request.computed == request.goal:
                prompt += self._first_token(request)
                put_out += 1
        seen.generation_tokens += decoding * repeats + put_out - decoding
        if put_out:
            seen.step_tokens.observe(prompt + put_out, repeats)
        while self._ends and self._ends[0][0] <= self._ticks:
            _, _, stay, request = heappop(self._ends)
            if stay == request.stay:
                self._finish(request)
        self._publish_gauges()
        if self.on_iteration is not None:
            self.on_iteration(
                Iteration(
                    ended=self.now,
                    seconds=length / NS,
                    repeated=repeats,
                    prefilling=prefilling,
                    prompt_tokens=sum(chunk for _, chunk in step.chunks),
                    decoding=decoding,
                    waiting=len(self._waiting),
                    kv_used=self._pool.used,
                    finished=seen.finished - ended_before,
                )
            )

    def _publish_gauges(self) -> None:
        self.telemetry.running = len(self._running)
        self.telemetry.waiting = len(self._waiting)
        self.telemetry.kv_used = self._pool.used

    # A request's way through the batch ------------------------------------------------------------

    def _admit(self, request: Request, budget: int) -> int:
        """Take a waiting request into the batch with a first chunk of its prompt; returns the chunk, 0 if
        the KV cache has no room."""
        goal = request.prompt_tokens + request.generated  # recomputes its own answer after a preemption
        size, pool, seen = self.config.block_size, self._pool, self.telemetry
        prefix, shared = None, 0
        if self.config.prefix_caching and request.prefix_key is not None:
            prefix = pool.look_up(request.prefix_key)
            if prefix is not None:
                shared = min(prefix.blocks, min(request.prefix_tokens, goal - 1) // size)
            # A preempted request doesn't hold more than it uses: alone in the engine it must fit.
            if prefix is None or not shared or (request.preemptions and shared < prefix.blocks):
                prefix, shared = None, 0
            else:
                pool.hold(prefix)
        chunk = min(goal - shared * size, budget)
        blocks = -(-(shared * size + chunk) // size) - shared
        if not pool.take(blocks):
            if prefix is not None:
                pool.release(prefix)
            return 0
        request.goal, request.computed = goal, shared * size
        request.blocks, request.prefix, request.shared = blocks, prefix, shared
        if request.scheduled_ns < 0:
            request.scheduled_ns = self._clock
            request.cached_tokens = shared * size
            if self.config.prefix_caching:
                seen.prefix_queried += goal
                seen.prefix_hit += shared * size
        elif self.config.prefix_caching:
            seen.prefix_requeried += goal
            seen.prefix_rehit += shared * size
        self._running[request] = None
        self._prefilling[request] = None
        return chunk

    def _room(self, request: Request, chunk: int) -> tuple[int, bool]:
        """Blocks for a further chunk of a prompt, preempting the newest sequences if needed; returns the
        chunk (0 if the request itself was preempted) and whether anybody was."""
        wanted = -(-(request.computed + chunk) // self.config.block_size) - request.shared - request.blocks
        preempted = False
        while not self._pool.take(wanted):
            preempted = True
            if self._preempt_newest() is request:
                return 0, True
        request.blocks += wanted
        return chunk, preempted

    def _grow(self, until: int) -> bool:
        """A block for each decoding sequence that needs one for its token of tick `until` or before; True if
        anybody was preempted for it."""
        preempted = False
        while self._growths and self._growths[0][0] <= until:
            tick, _, stay, request = heappop(self._growths)
            while stay == request.stay and not self._pool.take(1):
                self._preempt_newest()
                preempted = True
            if stay == request.stay:
                request.blocks += 1
                self._note(self._growths, tick + self.config.block_size, request)
        return preempted

    def _first_token(self, request: Request) -> int:
        """The prefill is done: its token is out, it decodes from now on. Returns the prompt tokens counted
        for it."""
        seen = self.telemetry
        del self._prefilling[request]
        counted = 0
        if request.first_token_ns < 0:
            request.first_token_ns = self._clock
            counted = request.prompt_tokens - request.cached_tokens
            seen.prompt_tokens += request.prompt_tokens
            seen.cached_tokens += request.cached_tokens
            seen.time_to_first_token.observe((self._clock - request.arrived_ns) / NS)
            self._share_prefix(request)
        else:
            seen.recomputed_tokens += request.goal - request.shared * self.config.block_size
            seen.inter_token.observe((self._clock - request.last_token_ns) / NS)
        request.generated += 1
        request.last_token_ns = self._clock
        request.joined = self._ticks
        room = (request.blocks + request.shared) * self.config.block_size
        self._note(self._ends, self._ticks + request.target - request.generated, request)
        self._note(self._growths, self._ticks + room - request.goal, request)
        return counted

    def _share_prefix(self, request: Request) -> None:
        blocks = min(request.prefix_tokens, request.prompt_tokens) // self.config.block_size
        if not blocks or request.prefix_key is None or not self.config.prefix_caching:
            return
        if request.prefix is not None:
            taken = self._pool.grow(request.prefix, blocks)
        else:
            request.prefix = self._pool.publish(request.prefix_key, blocks)
            taken = blocks if request.prefix is not None else 0
        request.blocks -= taken
        request.shared += taken

    def _note(self, notes: list[tuple[int, int, int, Request]], tick: int, request: Request) -> None:
        self._order += 1
        heappush(notes, (tick, self._order, request.stay, request))

    def _leave(self, request: Request) -> None:
        """Out of the batch: its blocks are free, older notes about it void."""
        if request.joined >= 0:
            request.generated = self.generated(request)
            request.last_token_ns = self._clock if self._step is None else self._step.start
            request.joined = -1
        self._pool.give(request.blocks)
        if request.prefix is not None:
            self._pool.release(request.prefix)
        request.blocks, request.shared, request.prefix = 0, 0, None
        request.stay += 1
        del self._running[request]
        self._prefilling.pop(request, None)

    def _preempt_newest(self) -> Request:
        victim = next(reversed(self._running))
        self._leave(victim)
        victim.preemptions += 1
        victim.computed = 0
        self._waiting.appendleft(victim)
        self.telemetry.preemptions += 1
        return victim

    def _finish(self, request: Request) -> None:
        self._leave(request)
        request.ended_ns = self._clock
        request.outcome = request.natural_end
        seen = self.telemetry
        match request.outcome:
            case Outcome.STOP:
                seen.stopped += 1
            case Outcome.LENGTH:
                seen.length_reached += 1
            case _:
                seen.errors += 1
        gaps = request.generated - 1
        seen.end_to_end.observe(request.end_to_end_seconds)
        seen.queue.observe(request.queue_seconds)
        seen.prefill.observe(request.prefill_seconds)
        seen.decode.observe(request.decode_seconds)
        seen.inference.observe((request.last_token_ns - request.scheduled_ns) / NS)
        seen.time_per_output_token.observe(request.decode_seconds / gaps if gaps else 0.0)
        seen.request_prompt_tokens.observe(request.prompt_tokens)
        seen.request_generation_tokens.observe(request.generated)
        seen.request_cached_tokens.observe(request.cached_tokens)
        seen.request_computed_tokens.observe(request.prompt_tokens - request.cached_tokens)
        if request.max_tokens is not None:
            seen.request_max_tokens.observe(request.max_tokens)
        seen.request_choices.observe(1)
        seen.request_preemptions.observe(request.preemptions)
        self._ended.append(request)
