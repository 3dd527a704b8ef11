"""One request and its truth, against which every page can be checked."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import StrEnum

from sidecar.simulator.kv import Prefix
from sidecar.simulator.model import NS


class Outcome(StrEnum):
    """How a request ended. The first three finish in the engine; the others leave it."""

    STOP = "stop"  # the model ended its answer
    LENGTH = "length"  # max_tokens or the model's length was reached
    ERROR = "error"  # failed in the engine
    CANCELLED = "cancelled"  # the client went away
    REJECTED = "rejected"  # refused at the door by a queue limit
    INVALID = "invalid"  # longer than the model can take: a 400
    LOST = "lost"  # in flight when the server died


FINISHED = frozenset({Outcome.STOP, Outcome.LENGTH, Outcome.ERROR})


@dataclass(slots=True, eq=False)
class Request:
    """What a client asks, then what became of it.

    `output_tokens` is what the model would say, `max_tokens` the client's bound on it. Requests with the same
    `prefix_key` share their first `prefix_tokens`. `fails_after` ends it with an error once that many
    tokens are out. Times are nanoseconds of the engine's clock, -1 while they haven't come.
    """

    prompt_tokens: int
    output_tokens: int
    max_tokens: int | None = None
    prefix_key: Hashable = None
    prefix_tokens: int = 0
    fails_after: int | None = None
    endpoint: str = "/v1/completions"
    streaming: bool = True

    outcome: Outcome | None = None
    asked_ns: int = -1  # at the router, or at the server if there is none
    arrived_ns: int = -1  # at the engine: what its page counts from
    scheduled_ns: int = -1  # first time in a batch; a preemption doesn't move it
    first_token_ns: int = -1
    last_token_ns: int = -1
    ended_ns: int = -1
    preemptions: int = 0
    cached_tokens: int = 0  # found in the prefix cache at first admission
    generated: int = 0  # exact once ended; while running ask the engine
    slow_gaps: int = 0  # of the generated - 1 gaps, those longer than the engine's `slow_gap`

    # The scheduler's own notes; nobody else's.
    computed: int = field(default=0, repr=False)
    goal: int = field(default=0, repr=False)
    blocks: int = field(default=0, repr=False)  # private ones
    shared: int = field(default=0, repr=False)  # blocks of its prefix that it uses
    prefix: Prefix | None = field(default=None, repr=False)
    joined: int = field(default=-1, repr=False)  # tick at which it began to decode, -1 while it doesn't
    slow_joined: int = field(default=0, repr=False)  # slow ticks until then
    stay: int = field(default=0, repr=False)  # grows when it leaves the batch: older notes about it are void

    @property
    def target(self) -> int:
        """Tokens after which it ends: its answer, the client's bound, or its failure, whichever comes
        first."""
        target = self.output_tokens if self.max_tokens is None else min(self.output_tokens, self.max_tokens)
        return target if self.fails_after is None else min(target, max(1, self.fails_after))

    @property
    def natural_end(self) -> Outcome:
        if self.fails_after is not None and self.target == max(1, self.fails_after):
            return Outcome.ERROR
        return (
            Outcome.LENGTH if self.max_tokens is not None and self.target == self.max_tokens else Outcome.STOP
        )

    @property
    def queue_seconds(self) -> float:
        return (self.scheduled_ns - self.arrived_ns) / NS

    @property
    def prefill_seconds(self) -> float:
        return (self.first_token_ns - self.scheduled_ns) / NS

    @property
    def first_token_seconds(self) -> float:
        return (self.first_token_ns - self.arrived_ns) / NS

    @property
    def client_first_token_seconds(self) -> float:
        """As the client sees it: with the time that a router held the request."""
        return (self.first_token_ns - self.asked_ns) / NS

    @property
    def decode_seconds(self) -> float:
        return (self.last_token_ns - self.first_token_ns) / NS

    @property
    def end_to_end_seconds(self) -> float:
        return (self.ended_ns - self.arrived_ns) / NS
