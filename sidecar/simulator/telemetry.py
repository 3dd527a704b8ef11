"""What an engine and its front end counted, of no runtime in particular.

THE CONTRACT FOR PAGES. A page module (`vllm_page.py`, later Triton's, TensorRT-LLM's, NIM's) renders from a
`Replica`: one `Telemetry` for each rank, one `FrontEnd`, and the replica's facts (`config`, `started`,
`epoch`). It reads and never writes. What a runtime doesn't show, its page leaves out; the numbers stay here
as the truth.

A histogram counts into the union of all bounds of all pages, so the buckets of each page are exact sums
(`Histogram.cumulative`). A page with other bounds adds them to TIME_BOUNDS or TOKEN_BOUNDS below.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from sidecar.simulator.model import NS
from sidecar.simulator.request import Outcome, Request

TIME_BOUNDS: tuple[float, ...] = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.075, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3),
    *(0.4, 0.5, 0.6, 0.75, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.5, 8.0, 10.0, 12.0, 15.0),
    *(
        20.0,
        25.0,
        30.0,
        40.0,
        50.0,
        60.0,
        80.0,
        100.0,
        120.0,
        160.0,
        240.0,
        300.0,
        480.0,
        600.0,
        640.0,
        960.0,
    ),
    *(1920.0, 2560.0, 7680.0),
)
"""Upper bounds in seconds: every bound of vLLM, TensorRT-LLM, NIM and Triton (ms there), for all
durations."""

TOKEN_BOUNDS: tuple[float, ...] = tuple(
    sorted(
        {0.0, 3.0, 4.0, 24.0}
        | {float(m * 10**e) for e in range(7) for m in (1, 2, 5)}
        | {float(2**e) for e in range(18)}
    )
)
"""Upper bounds for counts of tokens and of preemptions: 1-2-5 series, powers of two, and a few of old
pages."""


class Histogram:
    """Observations counted into exact bins, re-bucketable to any subset of `bounds`."""

    __slots__ = ("_bins", "bounds", "count", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._bins = [0] * (len(bounds) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._bins[bisect_left(self.bounds, value)] += times
        self.count += times
        self.total += value * times

    def add(self, other: Histogram) -> None:
        """Take over all observations of a histogram with the same bounds."""
        self._bins = [mine + theirs for mine, theirs in zip(self._bins, other._bins, strict=True)]
        self.count += other.count
        self.total += other.total

    def cumulative(self, bounds: Iterable[float]) -> list[int]:
        """Observations at or below each of `bounds` (ascending, without +Inf). ValueError for a bound that
        isn't counted: add it to the table above."""
        out, at, running = [], 0, 0
        for bound in bounds:
            place = bisect_left(self.bounds, bound)
            if place == len(self.bounds) or self.bounds[place] != bound:
                raise ValueError(f"no exact bin ends at {bound}: add it to the bounds of the telemetry")
            running += sum(self._bins[at : place + 1])
            at = place + 1
            out.append(running)
        return out


def seconds_histogram() -> Histogram:
    return Histogram(TIME_BOUNDS)


def token_histogram() -> Histogram:
    return Histogram(TOKEN_BOUNDS)


@dataclass(slots=True)
class Telemetry:
    """One engine (one data-parallel rank) since its start.

    Gauges are what the engine last published: at the end of a step, so they freeze when it hangs. Counters
    only grow. Histograms of requests are observed when a request *finishes* (stop, length, error); a
    cancelled one leaves none but its time to first token and its gaps.
    """

    kv_total: int
    block_size: int

    running: int = 0
    waiting: int = 0
    kv_used: int = 0

    received: int = 0  # accepted into the queue
    prompt_tokens: int = 0  # of completed prefills, cached ones included; counted at the first token
    cached_tokens: int = 0  # of these, found in the prefix cache
    generation_tokens: int = 0  # counted at every step, cancelled requests included
    prefix_queried: int = 0  # tokens looked up at first admission, and found
    prefix_hit: int = 0
    prefix_requeried: int = 0  # the same when a preempted request comes back
    prefix_rehit: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0  # tokens prefilled again after a preemption
    stopped: int = 0
    length_reached: int = 0
    errors: int = 0
    cancelled_waiting: int = 0  # client left before its first token was scheduled, and after
    cancelled_running: int = 0
    steps: int = 0
    busy_seconds: float = 0.0  # time in steps

    time_to_first_token: Histogram = field(default_factory=seconds_histogram)
    inter_token: Histogram = field(default_factory=seconds_histogram)  # each gap of each sequence
    time_per_output_token: Histogram = field(
        default_factory=seconds_histogram
    )  # one mean per request, 0 for 1 token
    finished_first_token: Histogram = field(
        default_factory=seconds_histogram
    )  # to first token, at the finish
    end_to_end: Histogram = field(default_factory=seconds_histogram)
    queue: Histogram = field(default_factory=seconds_histogram)  # arrival to first scheduled
    inference: Histogram = field(default_factory=seconds_histogram)  # first scheduled to last token
    prefill: Histogram = field(default_factory=seconds_histogram)  # first scheduled to first token
    decode: Histogram = field(default_factory=seconds_histogram)  # first token to last token
    request_prompt_tokens: Histogram = field(default_factory=token_histogram)
    request_generation_tokens: Histogram = field(default_factory=token_histogram)
    request_computed_tokens: Histogram = field(
        default_factory=token_histogram
    )  # prompt without the cached part
    request_cached_tokens: Histogram = field(default_factory=token_histogram)
    request_max_tokens: Histogram = field(default_factory=token_histogram)  # the client's bound, where given
    request_choices: Histogram = field(default_factory=token_histogram)  # answers asked for: always one
    request_preemptions: Histogram = field(default_factory=token_histogram)
    prefill_step_tokens: Histogram = field(
        default_factory=token_histogram
    )  # prompt tokens of steps with some
    step_tokens: Histogram = field(default_factory=token_histogram)  # tokens of steps that put something out

    def finish(self, request: Request) -> None:
        """Count a request that ended in the engine, at the moment of its last token."""
        match request.outcome:
            case Outcome.STOP:
                self.stopped += 1
            case Outcome.LENGTH:
                self.length_reached += 1
            case _:
                self.errors += 1
        gaps = request.generated - 1
        self.end_to_end.observe(request.end_to_end_seconds)
        self.finished_first_token.observe(request.first_token_seconds)
        self.queue.observe(request.queue_seconds)
        self.prefill.observe(request.prefill_seconds)
        self.decode.observe(request.decode_seconds)
        self.inference.observe((request.last_token_ns - request.scheduled_ns) / NS)
        self.time_per_output_token.observe(request.decode_seconds / gaps if gaps else 0.0)
        self.request_prompt_tokens.observe(request.prompt_tokens)
        self.request_generation_tokens.observe(request.generated)
        self.request_cached_tokens.observe(request.cached_tokens)
        self.request_computed_tokens.observe(request.prompt_tokens - request.cached_tokens)
        if request.max_tokens is not None:
            self.request_max_tokens.observe(request.max_tokens)
        self.request_choices.observe(1)
        self.request_preemptions.observe(request.preemptions)

    @property
    def kv_usage(self) -> float:
        """Share of the KV blocks in use, 0 to 1."""
        return self.kv_used / self.kv_total

    @property
    def finished(self) -> int:
        """Requests that ended in the engine: stop, length and error."""
        return self.stopped + self.length_reached + self.errors


@dataclass(slots=True)
class Exchange:
    """HTTP exchanges of one (handler, method, status class)."""

    count: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: Histogram = field(default_factory=seconds_histogram)


@dataclass(slots=True)
class FrontEnd:
    """What the HTTP front end of a replica counted. It has no rank: refusals and HTTP belong to all ranks."""

    rejected_by_requests: int = 0  # the limit on queued requests
    rejected_by_tokens: int = 0  # the limit on queued tokens
    lost: int = 0  # in flight when the server died; no page shows it
    exchanges: dict[tuple[str, str, str], Exchange] = field(default_factory=dict)

    @property
    def rejected(self) -> int:
        return self.rejected_by_requests + self.rejected_by_tokens

    def record(
        self, handler: str, method: str, status: int, seconds: float, bytes_in: int = 0, bytes_out: int = 0
    ) -> None:
        exchange = self.exchanges.setdefault((handler, method, f"{status // 100}xx"), Exchange())
        exchange.count += 1
        exchange.bytes_in += bytes_in
        exchange.bytes_out += bytes_out
        exchange.seconds.observe(seconds)
