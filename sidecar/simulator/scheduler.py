"""Who is in the batch: a queue in order of arrival, admission with chunked prefill, KV blocks, preemption.

The scheduler counts steps in ticks, not in time. Every sequence that decodes puts out one token a tick, so
the tick of its end and the ticks at which it needs a block are known when it begins to decode and are noted
in two heaps: a step costs what changes in it, not what is in it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush

from sidecar.simulator.kv import BlockPool
from sidecar.simulator.model import EngineConfig
from sidecar.simulator.request import Request
from sidecar.simulator.telemetry import Telemetry

_Notes = list[tuple[int, int, int, Request]]
"""(tick, order of writing, stay of the request then, request); void once the request's stay has grown."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the next step computes besides one token for each decoding sequence."""

    chunks: list[tuple[Request, int]]  # prompt tokens
    blocked: Request | None  # head of the queue that found no room: it won't before something ends


class Scheduler:
    """The batch of one engine. `now` in its methods is the engine's clock in nanoseconds."""

    def __init__(self, config: EngineConfig, telemetry: Telemetry) -> None:
        self.config = config
        self.pool = BlockPool(config.kv_blocks)
        self.waiting: deque[Request] = deque()
        self.running: dict[Request, None] = {}  # in order of admission: the last is preempted first
        self.prefilling: dict[Request, None] = {}
        self.ticks = 0
        self.slow_ticks = 0  # of these, those that took longer than `slow_gap`
        self._seen = telemetry
        self._ends: _Notes = []
        self._growths: _Notes = []  # before the step of that tick the sequence needs another block
        self._order = 0

    @property
    def decoding(self) -> int:
        return len(self.running) - len(self.prefilling)

    def generated(self, request: Request) -> int:
        """Tokens put out so far."""
        return request.generated + (self.ticks - request.joined if request.joined >= 0 else 0)

    def schedule(self, now: int) -> Schedule:
        """The next step: decoding sequences first, then prefills under way, then the queue while there is
        room. Nobody is admitted in a step that preempted somebody."""
        preempted = self.grow(self.ticks, now)
        budget = self.config.max_batched_tokens - self.decoding
        chunks: list[tuple[Request, int]] = []
        for request in list(self.prefilling):
            chunk = min(request.goal - request.computed, budget)
            if chunk and request in self.running:
                stays, took = self._room(request, chunk, now)
                preempted |= took
                if stays:
                    chunks.append((request, chunk))
                    budget -= chunk
        blocked = None
        while not preempted and budget and self.waiting and len(self.running) < self.config.max_num_seqs:
            chunk = self._admit(self.waiting[0], budget, now)
            if not chunk:
                blocked = self.waiting[0]
                break
            chunks.append((self.waiting.popleft(), chunk))
            budget -= chunk
        return Schedule([pair for pair in chunks if pair[0] in self.running], blocked)

    def alike(self, schedule: Schedule, most: int) -> int:
        """How many steps in a row, `most` at most, will be like the one scheduled: nobody ends, nobody
        comes in, nobody needs a block that isn't there."""
        full = len(self.running) >= self.config.max_num_seqs
        might_admit = self.waiting and not full and self.waiting[0] is not schedule.blocked
        if most <= 1 or not self.running or schedule.chunks or self.prefilling or might_admit:
            return 1
        for notes in (self._ends, self._growths):
            while notes and notes[0][2] != notes[0][3].stay:
                heappop(notes)
        most = min(most, self._ends[0][0] - self.ticks)
        if len(self.running) * (most // self.config.block_size + 1) > self.pool.free:
            most = min(most, self._growths[0][0] - self.ticks)
        return max(1, most)

    def grow(self, until: int, now: int) -> bool:
        """A block for each decoding sequence that needs one for its token of tick `until` or before; True if
        anybody was preempted for it."""
        preempted = False
        while self._growths and self._growths[0][0] <= until:
            tick, _, stay, request = heappop(self._growths)
            while stay == request.stay and not self.pool.take(1):
                self._preempt_newest(now)
                preempted = True
            if stay == request.stay:
                request.blocks += 1
                self._note(self._growths, tick + self.config.block_size, request)
        return preempted

    def decode(self, request: Request, now: int) -> None:
        """Its prefill is done and its next token out: from now on it decodes."""
        del self.prefilling[request]
        if request.first_token_ns < 0:
            request.first_token_ns = now
            self._share_prefix(request)
        request.generated += 1
        request.last_token_ns = now
        request.joined, request.slow_joined = self.ticks, self.slow_ticks
        room = (request.blocks + request.shared) * self.config.block_size
        self._note(self._ends, self.ticks + request.target - request.generated, request)
        self._note(self._growths, self.ticks + room - request.goal, request)

    def take_ending(self, now: int) -> list[Request]:
        """Sequences whose last token is out, no longer in the batch."""
        ending = []
        while self._ends and self._ends[0][0] <= self.ticks:
            _, _, stay, request = heappop(self._ends)
            if stay == request.stay:
                self.leave(request, now)
                ending.append(request)
        return ending

    def leave(self, request: Request, last_token: int) -> None:
        """Out of the batch: its blocks are free, older notes about it void. `last_token` is the end of the
        last step that it decoded in, if it did."""
        if request.joined >= 0:
            request.generated = self.generated(request)
            request.slow_gaps += self.slow_ticks - request.slow_joined
            request.last_token_ns = last_token
            request.joined = -1
        self.pool.give(request.blocks)
        if request.prefix is not None:
            self.pool.release(request.prefix)
        request.blocks, request.shared, request.prefix = 0, 0, None
        request.stay += 1
        del self.running[request]
        self.prefilling.pop(request, None)

    def _admit(self, request: Request, budget: int, now: int) -> int:
        """Take a waiting request into the batch with a first chunk of its prompt; returns the chunk, 0 if the
        KV cache has no room."""
        goal = request.prompt_tokens + request.generated  # recomputes its own answer after a preemption
        size, pool, seen = self.config.block_size, self.pool, self._seen
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
        first = request.scheduled_ns < 0
        if first:
            request.scheduled_ns = now
            request.cached_tokens = shared * size
        if self.config.prefix_caching:
            if first:
                seen.prefix_queried += goal
                seen.prefix_hit += shared * size
            else:
                seen.prefix_requeried += goal
                seen.prefix_rehit += shared * size
        self.running[request] = None
        self.prefilling[request] = None
        return chunk

    def _room(self, request: Request, chunk: int, now: int) -> tuple[bool, bool]:
        """Blocks for a further chunk of a prompt, preempting the newest sequences if needed; whether the
        request is still there, and whether anybody was preempted."""
        wanted = -(-(request.computed + chunk) // self.config.block_size) - request.shared - request.blocks
        preempted = False
        while not self.pool.take(wanted):
            preempted = True
            if self._preempt_newest(now) is request:
                return False, True
        request.blocks += wanted
        return True, preempted

    def _share_prefix(self, request: Request) -> None:
        """What it computed of its prefix is there for others."""
        blocks = min(request.prefix_tokens, request.prompt_tokens) // self.config.block_size
        if not blocks or request.prefix_key is None or not self.config.prefix_caching:
            return
        if request.prefix is not None:
            taken = self.pool.grow(request.prefix, blocks)
        else:
            request.prefix = self.pool.publish(request.prefix_key, blocks)
            taken = blocks if request.prefix is not None else 0
        request.blocks -= taken
        request.shared += taken

    def _preempt_newest(self, now: int) -> Request:
        victim = next(reversed(self.running))
        self.leave(victim, now)
        victim.preemptions += 1
        self.waiting.appendleft(victim)
        self._seen.preemptions += 1
        return victim

    def _note(self, notes: _Notes, tick: int, request: Request) -> None:
        self._order += 1
        heappush(notes, (tick, self._order, request.stay, request))
