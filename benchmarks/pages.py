"""Pages to measure with: vLLM's own, of a simulated run, one a second, so that values move as they do."""

from __future__ import annotations

from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.traffic import Shape, Steady, Traffic
from sidecar.simulator.vllm_page import VllmPage

#: Data-parallel ranks that make a page of about so many lines.
RANKS = {500: 1, 1500: 4, 20_000: 60}


def series(ranks: int, count: int = 20, *, rate_per_rank: float = 6.0, warm_up: float = 30.0) -> list[bytes]:
    """`count` pages one second apart, after a warm-up under steady load."""
    replica = Replica(ReplicaConfig(model_name="bench/llama-8b", ranks=ranks), epoch=1.7e9)
    simulation = Simulation(replica, Traffic(Steady(rate_per_rank * min(ranks, 8)), Shape(), seed=3))
    page = VllmPage("0.32.0")
    pages = []
    for second in range(count):
        simulation.advance(warm_up + second)
        pages.append(page.render(replica))
    return pages


def lines_of(page: bytes) -> int:
    return page.count(b"\n")
