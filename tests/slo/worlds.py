"""Targets whose true events are known: they make snapshots, and keep the truth beside."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from math import inf

from sidecar.slo import Objective
from sidecar.slo.windows import DAY
from sidecar.snapshot import EMPTY_BLOCK, Block, Layout, LayoutBuilder, Provenance, Snapshot, block_of

#: vLLM's bounds of time to first token, up to 10 s.
BOUNDS = (0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, inf)
OUTCOMES = ("success", "error", "timeout", "rejected", "cancelled")


@dataclass
class Runtime:
    """A runtime that observes what it is told: latencies into buckets, outcomes into counters."""

    target: str = "local"
    model: str = "m"
    bounds: tuple[float, ...] = BOUNDS
    signals: tuple[str, ...] = ("time_to_first_token_seconds",)
    outcomes: tuple[str, ...] = OUTCOMES
    provenance: tuple[Provenance, ...] = ()
    started: float | None = None
    epoch: int = 0
    layout: Layout = field(init=False)

    def __post_init__(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        builder = LayoutBuilder()
        labels = {"target": self.target, "runtime": "vllm", "model_name": self.model}
        for signal in self.signals:
            builder.add(signal, labels, self.bounds)
        for outcome in self.outcomes:
            builder.add("requests_total", {**labels, "outcome": outcome})
        self.layout = builder.build()
        self.buckets = {signal: [0.0] * len(self.bounds) for signal in self.signals}
        self.sums = dict.fromkeys(self.signals, 0.0)
        self.counts = dict.fromkeys(self.outcomes, 0.0)

    def observe(self, latency: float, times: int = 1, signal: str = "time_to_first_token_seconds") -> None:
        place = next(at for at, bound in enumerate(self.bounds) if latency <= bound)
        self.buckets[signal][place] += times
        self.sums[signal] += latency * times

    def finish(self, outcome: str, times: int = 1) -> None:
        self.counts[outcome] += times

    def restart(self, bounds: tuple[float, ...] | None = None, started: float | None = None) -> None:
        """All counters from 0, a new life; perhaps with other buckets."""
        self.epoch += 1
        self.bounds = bounds or self.bounds
        self.started = started
        self._lay_out()

    def relayout(self, bounds: tuple[float, ...]) -> None:
        """Other buckets within the same life: what was counted stays, at the new bounds."""
        old = {
            signal: list(zip(self.bounds, buckets, strict=True)) for signal, buckets in self.buckets.items()
        }
        counts, sums = self.counts, self.sums
        self.bounds = bounds
        self._lay_out()
        self.counts, self.sums = counts, sums
        for signal, pairs in old.items():
            for bound, number in pairs:
                place = next(at for at, one in enumerate(bounds) if bound <= one)
                self.buckets[signal][place] += number

    def data(self) -> Block:
        values: list[float] = []
        for signal in self.signals:
            values += (*accumulate(self.buckets[signal]), self.sums[signal])
        values += self.counts.values()
        return Block(self.layout, tuple(values))

    def snapshot(self, time: float, *, data: Block | None = None, clock: float = 0.0) -> Snapshot:
        """At Unix time `time`; the monotonic clock is `clock` behind it."""
        return self._snapshot(time, time - clock, self.data() if data is None else data, True)

    def down(self, time: float) -> Snapshot:
        return self._snapshot(time, time, EMPTY_BLOCK, False)

    def _snapshot(self, time: float, mono: float, data: Block, up: bool) -> Snapshot:
        life = [("target_up", {"target": self.target}, float(up))]
        if self.started is not None:
            life.append(("target_start_timestamp_seconds", {"target": self.target}, self.started))
        return Snapshot(
            self.target, "vllm", time, mono, self.epoch, up, data, block_of(life), self.provenance
        )


TTFT = Objective("ttft", "time_to_first_token", 0.95, 7 * DAY, threshold=1.0)
AVAILABILITY = Objective("availability", "availability", 0.99, 30 * DAY)
GOODPUT = Objective(
    "goodput",
    "goodput",
    0.9,
    7 * DAY,
    limits=(("time_to_first_token", 1.0), ("e2e_request_latency", 5.0)),
)


def events(block: Block, slo: str = "ttft") -> float:
    return block.get("slo_events_total", slo=slo)


def bad(block: Block, slo: str = "ttft", bound: str = "lenient") -> float:
    return block.get("slo_bad_events_total", slo=slo, bound=bound)


def burn(block: Block, window: str, slo: str = "ttft") -> float:
    return block.get("slo_burn_rate", slo=slo, window=window)


def status(block: Block, slo: str) -> str:
    (series,) = block.layout.find("slo_info", slo=slo)
    return series.label("status")
