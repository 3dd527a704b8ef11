"""What the pages of Triton, TensorRT-LLM and NIM share: one rank, and the last iteration that they freeze on."""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.simulator.page import Lines, buckets
from sidecar.simulator.replica import Replica
from sidecar.simulator.telemetry import Histogram, Telemetry

#: Bounds that TensorRT-LLM and NIM took over from vLLM.
TIME_TO_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
BETWEEN_TOKENS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)


def the_rank(replica: Replica, page: str) -> Telemetry:
    """The only rank. ValueError when there are several: these pages have no label for them."""
    if len(replica.ranks) != 1:
        raise ValueError(f"{page}'s page can't tell ranks apart: give the replica one")
    return replica.ranks[0]


@dataclass(frozen=True, slots=True)
class Iteration:
    """What an engine published with its last iteration, at `time` (Unix)."""

    number: int = 0
    time: float = 0.0
    scheduled: int = 0
    waiting: int = 0
    kv_used: int = 0


class LastIteration:
    """The newest iteration with work in it. A replica that idles makes none, so the numbers stay as they were."""

    def __init__(self) -> None:
        self._last = Iteration()

    def of(self, replica: Replica, rank: Telemetry) -> Iteration:
        if rank.steps < self._last.number:
            self._last = Iteration()
        if rank.steps > self._last.number and rank.running:
            now = replica.epoch + replica.now
            self._last = Iteration(rank.steps, now, rank.running, rank.waiting, rank.kv_used)
        return self._last


def histogram(
    lines: Lines,
    name: str,
    text: str,
    read: Histogram,
    bounds: tuple[float, ...],
    labels: dict[str, str],
) -> None:
    """A family of one series, as prometheus_client writes it: floats, buckets first."""
    lines.family(name, "histogram", text)
    for edge, count in buckets(read, bounds):
        lines.sample(f"{name}_bucket", dict(sorted({**labels, "le": edge}.items())), f"{float(count)}")
    lines.sample(f"{name}_count", labels, f"{float(read.count)}")
    lines.sample(f"{name}_sum", labels, repr(read.total))
