"""Minutes of the demo in seconds: the simulated replica, its page, the whole line, on a clock of its own."""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.app.parts import registry_of, stages_of
from sidecar.config import Config, load_bytes
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.simulator.demo import DEMO_REPLICA, demo_traffic
from sidecar.simulator.replica import Replica
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.vllm_page import VllmPage
from sidecar.snapshot import Block, Publication, block_of

CONFIG = """
targets: [{name: chat, url: "http://127.0.0.1:8000", capacity: {slots: 48}}]
slos:
  - {name: ttft, signal: time_to_first_token, threshold: 1s, objective: 95%, period: 7d,
     windows: [{severity: page, short: 1m, long: 5m, factor: 2}]}
  - {name: itl, signal: inter_token_latency, threshold: 50ms, objective: 90%, period: 7d,
     windows: [{severity: page, short: 1m, long: 5m, factor: 2}]}
  - {name: available, signal: availability, objective: 99.9%, period: 30d}
"""

BEGIN = 1_800_000_000.0


def config() -> Config:
    return load_bytes(CONFIG.encode(), "show.yaml")


class Show:
    """`time` is Unix time of the last publication; `publication` is what an output reads."""

    def __init__(self, seconds: float, *, model: str = DEMO_REPLICA.model_name, begin: float = BEGIN) -> None:
        self.time = begin
        self.publication = Publication(begin)
        self._seconds = seconds
        self._begin = begin
        self._model = model

    def play(self, seconds: float, every: float = 2.0) -> Iterator[Publication]:
        """Publications of the next `seconds`, one each `every`."""
        conf = config()
        target = conf.targets[0]
        settings = Settings(name=target.name, slots=target.capacity.slots)
        pipeline = TargetPipeline(settings, registry_of(conf), stages_of(conf))
        pipeline.pin_version("0.32.0")
        replica = Replica(DEMO_REPLICA, epoch=self._begin)
        simulation = Simulation(replica, demo_traffic(self._seconds))
        page = VllmPage("0.32.0")
        mono = 0.0
        while mono < seconds:
            mono += every
            simulation.advance(mono)
            body = page.render(replica).replace(DEMO_REPLICA.model_name.encode(), self._model.encode())
            self.time = self._begin + mono
            snapshot = pipeline.feed(
                {"metrics": Answer(200, body)}, time=self.time, mono=mono, elapsed=lambda: 0.004
            )
            self.publication = Publication(
                self.time, (snapshot,), (gpus(snapshot.data.get("kv_cache_usage_ratio")),), int(mono * 10)
            )
            yield self.publication


def gpus(busy: float) -> Block:
    """Two GPUs, the second one hot."""
    rows: list[tuple[str, dict[str, str], float]] = []
    for index, (name, celsius) in enumerate(
        (("NVIDIA H100 80GB HBM3", 61.0), ("NVIDIA H100 80GB HBM3", 86.0))
    ):
        uuid = {"gpu_uuid": f"GPU-{index}f0e1d2c"}
        rows += [
            ("gpu_info", {**uuid, "index": str(index), "name": name}, 1.0),
            ("gpu_allocation_info", {**uuid, "target": "chat"}, 1.0),
            ("gpu_up", uuid, 1.0),
            ("gpu_utilization_ratio", uuid, min(1.0, 0.5 + busy / 2)),
            ("gpu_sm_active_ratio", uuid, min(1.0, 0.3 + busy / 2)),
            ("gpu_memory_used_bytes", uuid, 71.2 * 2**30),
            ("gpu_memory_total_bytes", uuid, 80.0 * 2**30),
            ("gpu_power_watts", uuid, 280 + 380 * busy),
            ("gpu_power_limit_watts", uuid, 700.0),
            ("gpu_temperature_celsius", {**uuid, "sensor": "gpu"}, celsius),
            ("gpu_clock_limited", {**uuid, "reason": "sw_thermal"}, float(index)),
            ("gpu_clock_limited", {**uuid, "reason": "idle"}, 0.0),
        ]
    return block_of(rows)
