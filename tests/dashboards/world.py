"""A world that Prometheus can scrape: a vLLM replica that goes from calm to overload and is restarted, a
Triton server (captured pages), a target that is down, two GPUs of which one is lost, a cluster's own metrics.

Simulated time runs faster than the clock; all stamps on the page are the clock's.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

from aiohttp import web

from sidecar.app.parts import engine_of, registry_of, settings_of, signals_of
from sidecar.config import load_bytes
from sidecar.outputs.http import http_app
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.pipeline import TargetPipeline
from sidecar.probe import Figures, Outcome
from sidecar.runtimes.adapter import Answer
from sidecar.schema import SIGNALS, Kind
from sidecar.simulator.demo import DEMO_REPLICA, demo_traffic
from sidecar.simulator.replica import Replica, State
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.vllm_page import VllmPage
from sidecar.snapshot import Block, Provenance, Publication, Snapshot, block_of
from tests.dashboards.fleet import fleet_roles

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests/runtimes/triton/pages/captures"
TRITON = sorted(CAPTURES.glob("load_*.prom"))
TRITON_26 = CAPTURES / "r26_two_gpus.prom"
TARGETS = b"""
targets:
  - {name: chat, url: "http://127.0.0.1:8000", runtime: vllm, capacity: {slots: 48, gpus: 2}}
  - {name: triton, url: "http://127.0.0.1:8002", runtime: triton}
  - {name: triton-26, url: "http://127.0.0.1:8003", runtime: triton}
  - {name: gone, url: "http://127.0.0.1:9", runtime: vllm}
"""
REFUSED = Answer(error="refused", detail="127.0.0.1:9: connection refused")

#: Every label of a GPU signal that isn't the GPU's own, and two values of it.
LABELS = {
    "gpu_instance": ("",),
    "sensor": ("gpu", "memory"),
    "clock": ("sm", "mem"),
    "reason": ("power_cap", "sw_thermal"),
    "source": ("nvml",),
    "severity": ("corrected",),
    "xid": ("79",),
    "cause": ("correctable",),
    "error": ("replay",),
    "state": ("active",),
}

#: A busy H100, by unit; what is no measurement is 0, but for those named here.
UNITS = {"ratio": 0.62, "celsius": 61.0, "watts": 480.0, "hertz": 1.6e9, "bytes": 2.0e9, "joules": 480.0}
VALUES = {
    "gpu_memory_used_bytes": 71.2 * 2**30,
    "gpu_memory_total_bytes": 80.0 * 2**30,
    "gpu_power_limit_watts": 700.0,
    "gpu_clock_max_hertz": 1.98e9,
    "gpu_temperature_margin_celsius": 26.0,
    "gpu_devices": 2.0,
    "gpu_collect_success": 1.0,
    "gpu_collect_duration_seconds": 0.006,
    "gpu_clock_limited": 1.0,
    "gpu_clock_limited_seconds_total": 0.04,
    "gpu_nvlink_links": 18.0,
    "gpu_nvlink_transmit_bytes_total": 9.0e10,
    "gpu_nvlink_receive_bytes_total": 9.0e10,
}


class Probed:
    """What a probe of the replica has shown: a queue and a full batch slow it down."""

    def __init__(self) -> None:
        self._figures = Figures("chat")

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        return self._figures.provenance

    def feed(self, snapshot: Snapshot) -> Block | None:
        return self._figures.block(snapshot.runtime, snapshot.mono)

    def probe(self, replica: Replica, mono: float, *, answered: bool) -> None:
        rank = replica.ranks[0]
        gap = 0.012 + 0.0006 * rank.running
        good = Outcome(first=0.02 + gap + 0.05 * rank.waiting, gaps=(gap,) * 7, generated=8, prompt=14)
        outcome = good if answered else Outcome("refused")
        self._figures.record(DEMO_REPLICA.model_name, outcome, "POST /v1/completions", mono + 150.0)


class World:
    """`play` lets it live; `app` is its sidecar, with the cluster's metrics at /kube and /keda."""

    def __init__(self, length: float) -> None:
        """`length`: simulated seconds of the show; the restart comes when 60 % of it are over."""
        self.length = length
        self.publication = Publication(time.time())
        config = load_bytes((ROOT / "alerts" / "config.yaml").read_bytes() + TARGETS, "world.yaml")
        registry = registry_of(config)
        self._probed = Probed()
        self._pipelines = {
            target.name: TargetPipeline(
                settings_of(target),
                registry,
                [*self._probes(target.name), engine_of(config), signals_of(config, target)],
            )
            for target in config.targets
        }
        self._replica = Replica(replace(DEMO_REPLICA, startup_seconds=10.0), epoch=time.time())
        self._simulation = Simulation(self._replica, demo_traffic(length))
        self._page = VllmPage("0.32.0")
        self._mono = 0.0
        self._restarted = False
        self.done = 0.0  # share of the show that is over
        self.itself = SelfMetrics()
        self.itself.config_loaded(time.time())
        self.itself.loop_lagged(0.001)
        self.app = http_app(lambda: self.publication, self.itself)
        self.app.router.add_get("/kube", _kube)
        self.app.router.add_get("/keda", self._keda)

    def _probes(self, target: str) -> list[Probed]:
        return [self._probed] if target == "chat" else []

    async def play(self, seconds: float, every: float = 2.0) -> None:
        """Let the whole show pass within `seconds` of the clock."""
        ticks = int(self.length / every)
        for tick in range(ticks):
            self.step(every, done=tick / ticks)
            await asyncio.sleep(seconds / ticks)

    def step(self, every: float, done: float) -> None:
        self._mono += every
        self.done = done
        self._simulation.advance(self._mono)
        if done > 0.6 and not self._restarted:
            self._restarted = True
            self._simulation.collect(self._replica.restart(60.0))
        up = self._replica.state is not State.STARTING
        chat = Answer(200, self._page.render(self._replica)) if up else REFUSED
        self._probed.probe(self._replica, self._mono, answered=up)
        if up:
            self._tell_of_vllm("0.32.0" if not self._restarted else "0.33.0")
        triton = TRITON[min(int(done * len(TRITON)), len(TRITON) - 1)]
        snapshots = (
            self._feed("chat", chat),
            self._feed("triton", Answer(200, triton.read_bytes())),
            self._feed("triton-26", Answer(200, TRITON_26.read_bytes())),
            self._feed("gone", REFUSED),
        )
        gpus = block_of(_gpus(self._mono, lost=done > 0.7))
        self.publication = Publication(time.time(), snapshots, (gpus,), self.publication.serial + 1)

    def fleet(self) -> AbstractAsyncContextManager[tuple[str, ...]]:
        """Two fleet roles beside it, whose sidecars show what `chat` does; gives their addresses."""
        return fleet_roles(lambda: self.publication.snapshots[0], lambda: self.done)

    def _tell_of_vllm(self, version: str) -> None:
        card = {"id": DEMO_REPLICA.model_name, "root": DEMO_REPLICA.model_name, "max_model_len": 8192}
        chat = self._pipelines["chat"]
        chat.pin_version(version)
        chat.learn("health", Answer(200))
        chat.learn("models", Answer(200, json.dumps({"object": "list", "data": [card]}).encode()))

    def _feed(self, name: str, answer: Answer) -> Snapshot:
        return self._pipelines[name].feed(
            {"metrics": answer}, time=time.time(), mono=self._mono, elapsed=lambda: 0.003
        )

    async def _keda(self, request: web.Request) -> web.Response:
        labels = 'namespace="demo",scaledObject="chat",metric="s0-prometheus",scaler="prometheusScaler"'
        return web.Response(
            text=f"keda_scaler_metrics_value{{{labels}}} 2.4\n"
            f"keda_scaler_detail_errors_total{{{labels}}} {self._mono:.0f}\n"
        )


async def _kube(request: web.Request) -> web.Response:
    """Names as kube-state-metrics has them."""
    labels = '{namespace="demo",horizontalpodautoscaler="chat"}'
    names = ("status_desired_replicas", "status_current_replicas", "spec_max_replicas", "spec_min_replicas")
    return web.Response(
        text="".join(
            f"kube_horizontalpodautoscaler_{name}{labels} {value}\n"
            for name, value in zip(names, (3, 2, 8, 1), strict=True)
        )
    )


def _gpus(seconds: float, *, lost: bool) -> list[tuple[str, dict[str, str], float]]:
    """Every GPU signal of the schema for two GPUs; a lost one keeps only that it is lost."""
    rows: list[tuple[str, dict[str, str], float]] = []
    for name, signal in SIGNALS.items():
        if not name.startswith("gpu_") or name in ("gpu_info", "gpu_allocation_info", "gpu_up"):
            continue
        value = VALUES.get(name, UNITS.get(signal.unit, 0.0))
        if signal.kind is Kind.COUNTER:
            value = seconds * (value or 0.002)
        own = [label for label in signal.labels if label != "gpu_uuid"]
        label = own[-1] if own else ""
        for choice in LABELS.get(label, (label,)) if label else ("",):
            labels = {label: choice} if choice else {}
            if "gpu_uuid" not in signal.labels:
                rows.append((name, labels, value))
                continue
            rows += [(name, {"gpu_uuid": uuid, **labels}, value) for uuid in ("GPU-0", "GPU-1")[: 2 - lost]]
    for index, uuid in enumerate(("GPU-0", "GPU-1")):
        rows.append(("gpu_info", {"gpu_uuid": uuid, "index": str(index), "name": "NVIDIA H100"}, 1.0))
        rows.append(("gpu_allocation_info", {"gpu_uuid": uuid, "target": "chat", "pod": "chat-0"}, 1.0))
        rows.append(("gpu_up", {"gpu_uuid": uuid}, 0.0 if lost and index else 1.0))
    return rows
