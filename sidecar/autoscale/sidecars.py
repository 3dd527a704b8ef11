"""The sidecar of each replica: what vLLM's page tells of the simulator's telemetry, through the signals.

Pages are left out, for speed: the block has the series that vLLM's mapping makes, with vLLM's own buckets. A
test holds both ways to the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

from sidecar.signals import Settings, Signals
from sidecar.simulator.replica import Replica, State
from sidecar.simulator.telemetry import Histogram, Telemetry
from sidecar.snapshot import EMPTY_BLOCK, Block, Layout, LayoutBuilder, Snapshot, block_of

#: vLLM's bounds of the inter-token latency, up to what the objectives here can ask about.
GAP_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0)
_TIME_BOUNDS = (0.3, 1.0, 2.5, 10.0, 60.0, 240.0)
_LABELS = {"target": "local", "runtime": "vllm", "model_name": "simulated"}


def _layout(gaps: bool, slots: bool) -> Layout:
    build = LayoutBuilder()
    for signal in (
        "requests_running",
        "requests_waiting",
        "kv_cache_usage_ratio",
        "kv_cache_usage_max_ratio",
        "generation_tokens_total",
    ):
        build.add(signal, _LABELS)
    build.add("requests_total", _LABELS | {"outcome": "success"})
    build.add("requests_total", _LABELS | {"outcome": "error"})
    for signal in ("request_queue_time_seconds", "request_inference_time_seconds"):
        build.add(signal, _LABELS, _TIME_BOUNDS)
    if gaps:
        build.add("inter_token_latency_seconds", _LABELS, GAP_BOUNDS)
    if slots:
        build.add("request_slots", _LABELS)
    return build.build()


_LAYOUTS = {(gaps, slots): _layout(gaps, slots) for gaps in (True, False) for slots in (True, False)}


class Sidecar:
    """Reads its replica when asked to. `gaps` False is a runtime without an inter-token latency, `slots` what a
    config tells of its size."""

    def __init__(self, settings: Settings, *, gaps: bool = True, slots: int | None = None) -> None:
        self.signals = Signals(settings)
        self.blind = False  # a fault: its page of the runtime can't be read
        self.last: Mapping[str, float] | None = None
        self._gaps = gaps
        self._slots = slots
        self._busy = (nan, 0.0)

    def read(self, replica: Replica) -> None:
        """One poll, at the replica's present second."""
        now = replica.now
        up = not self.blind and replica.state in (State.READY, State.DRAINING)
        data = self._block(replica.ranks[0]) if up else EMPTY_BLOCK
        life = block_of(
            [("target_up", (), float(up)), ("target_start_timestamp_seconds", (), replica.started)]
        )
        snapshot = Snapshot("local", "vllm", now, now, 0, up, data, life)
        derived = self.signals.feed(snapshot)
        self.last = None
        if not up or derived is None:
            return
        values = {
            "requests_running": data.values[0],
            "requests_waiting": data.values[1],
            "kv_cache_usage_ratio": data.values[2],
            "kv_cache_usage_max_ratio": data.values[3],
            "gpu_utilization_ratio": self._utilisation(now, replica.ranks[0].busy_seconds),
        }
        for name in (
            "replica_demand",
            "offered_load_requests",
            "queued_gpu_seconds",
            "queue_to_compute_ratio",
            "service_time_seconds",
            "idle_inter_token_latency_seconds",
        ):
            values[name] = derived.get(name)
        values["saturation_ratio"] = derived.get("saturation_ratio", resource="max")
        self.last = values

    def _utilisation(self, now: float, busy: float) -> float:
        """Share of the time since the last look, as a driver counts it."""
        then, before = self._busy
        self._busy = (now, busy)
        return min(max((busy - before) / (now - then), 0.0), 1.0) if now > then else 0.0

    def _block(self, rank: Telemetry) -> Block:
        values: list[float] = [
            rank.running,
            rank.waiting,
            rank.kv_usage,
            rank.kv_usage,
            rank.generation_tokens,
            rank.stopped + rank.length_reached,
            rank.errors,
            *_histogram(rank.queue, _TIME_BOUNDS),
            *_histogram(rank.inference, _TIME_BOUNDS),
        ]
        if self._gaps:
            values += _histogram(rank.inter_token, GAP_BOUNDS)
        if self._slots is not None:
            values.append(self._slots)
        return Block(_LAYOUTS[self._gaps, self._slots is not None], values)


def _histogram(histogram: Histogram, bounds: tuple[float, ...]) -> list[float]:
    assert bounds[-1] < inf
    return [*histogram.cumulative(bounds), histogram.count, histogram.total]
