"""Sidecars of a fleet: pages as a real line renders them, chosen or simulated, and servers for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from sidecar.outputs.prometheus.page import render_blocks
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import Listener, listen
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.signals import Signals
from sidecar.simulator import Replica, ReplicaConfig, Simulation
from sidecar.simulator.traffic import Steady, Traffic
from sidecar.simulator.vllm_page import VllmPage
from sidecar.snapshot import block_of

MODEL = "m"
TAIL = SelfMetrics().render()


def page(
    numbers: Mapping[str, float], *, up: bool = True, model: str = MODEL, target: str = "local", **more: float
) -> bytes:
    """A sidecar's page: `numbers` are gauges and counters by name; `name__label__value` sets one label."""
    base = {"target": target, "runtime": "vllm"}
    rows: list[tuple[str, dict[str, str], float]] = [("target_up", base, float(up))]
    for name, value in {**numbers, **more}.items():
        signal, *labels = name.split("__")
        pairs = dict(zip(labels[::2], labels[1::2], strict=True))
        rows.append((signal, {**base, "model_name": model, **pairs}, value))
    return render_blocks([block_of(rows)]) + TAIL


def busy(demand: float = 1.5, **more: float) -> bytes:
    """The page of a replica at work."""
    numbers = {
        "requests_running": 12.0,
        "requests_waiting": 2.0,
        "offered_load_requests": 14.0,
        "replica_demand": demand,
        "queued_gpu_seconds": 0.5,
        "service_time_seconds": 6.0,
        "idle_inter_token_latency_seconds": 0.01,
        "capacity_requests__limit__slots": 64.0,
        "capacity_requests__limit__kv_cache": 40.0,
        "kv_cache_usage_ratio": 0.3,
        "kv_cache_capacity_tokens": 1000.0,
        "queue_seconds_total": 100.0,
        "compute_seconds_total": 1000.0,
        "requests_total__outcome__success": 50.0,
    }
    return page({**numbers, **more})


def several(
    *,
    up: Mapping[str, bool],
    model: str = MODEL,
    conflicts: tuple[str, ...] = (),
    **signals: Mapping[str, float],
) -> bytes:
    """The page of a sidecar with several targets: `signals` by name, then by target. Those with `conflicts` say
    of each signal that it is withheld."""
    rows: list[tuple[str, dict[str, str], float]] = [
        ("target_up", {"target": target, "runtime": "vllm"}, float(is_up)) for target, is_up in up.items()
    ]
    for target in conflicts:
        for signal in ("requests_running", "requests_waiting"):
            said = {"signal": signal, "status": "conflict"}
            rows.append(("signal_info", {"target": target, "runtime": "vllm", **said}, 1.0))
    for signal, values in signals.items():
        for target, value in values.items():
            rows.append((signal, {"target": target, "runtime": "vllm", "model_name": model}, value))
    return render_blocks([block_of(rows)]) + TAIL


def down() -> bytes:
    return page({}, up=False)


def simulated_page(rate: float = 4.0, seconds: float = 120.0, seed: int = 0) -> bytes:
    """What a real sidecar shows of a simulated vLLM after some time."""
    replica = Replica(ReplicaConfig(seed=seed))
    simulation = Simulation(replica, Traffic(Steady(rate), seed=seed))
    renderer = VllmPage()
    pipeline = TargetPipeline(Settings(name="local", runtime="vllm"), Registry(), [Signals()])
    for place in range(1, int(seconds / 2) + 1):
        simulation.advance(2.0 * place)
        answer = Answer(200, renderer.render(replica))
        snapshot = pipeline.feed({"metrics": answer}, time=1e9 + 2.0 * place, mono=2.0 * place)
    return render_blocks(snapshot.blocks) + TAIL


@dataclass
class Sidecar:
    """One that answers on a real socket; `body` None is a 503."""

    body: bytes | None
    asked: int = 0
    listener: Listener | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        assert self.listener is not None
        return self.listener.url

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.body is None:
            return web.Response(status=503)
        return web.Response(body=self.body, content_type="text/plain")

    async def stop(self) -> None:
        """The process is gone: connections are refused."""
        if self.listener is not None:
            await self.listener.close()


@asynccontextmanager
async def sidecars(*bodies: bytes | None) -> AsyncIterator[list[Sidecar]]:
    running = [Sidecar(body) for body in bodies]
    try:
        for one in running:
            app = web.Application()
            app.router.add_get("/metrics", one.answer)
            one.listener = await listen(app, "127.0.0.1:0")
        yield running
    finally:
        for one in running:
            await one.stop()
