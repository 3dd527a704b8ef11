"""A replica whose numbers are chosen: snapshots as the line makes them, for one model or several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import Any

from sidecar.signals import Signals
from sidecar.snapshot import EMPTY_BLOCK, Block, LayoutBuilder, Snapshot, block_of

BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, inf)

#: Fields of a poll by what they are, the names of reference.py.
GAUGES = {
    "running": "requests_running",
    "waiting": "requests_waiting",
    "kv": "kv_cache_usage_max_ratio",
    "slots": "request_slots",
}
SUMS = {
    "inf_sum": "request_inference_time_seconds",
    "queue_sum": "request_queue_time_seconds",
    "e2e_sum": "e2e_request_latency_seconds",
}
EMPTY_POLL = {"running": 0.0, "waiting": 0.0, "kv": 0.0, "finished": 0.0, "inf_sum": 0.0, "inf_cnt": 0.0}
EMPTY_GAPS = {"itl_sum": 0.0, "itl_cnt": 0.0, "itl_good": 0.0}
FULL = EMPTY_POLL | EMPTY_GAPS | {"slots": 64.0, "tokens": 0.0}


@dataclass
class Replica:
    """Makes snapshots of polls; a poll is {model: {field: value}} or, of the model `m`, {field: value}.

    The layout is kept while the fields of all models stay the same.
    """

    target: str = "local"
    runtime: str = "vllm"
    epoch: int = 0
    started: float = nan
    clock: float = 1e9  # Unix time of mono 0
    extra: tuple[Block, ...] = ()
    _layouts: dict[object, Any] = field(default_factory=dict)

    def snapshot(self, mono: float, poll: dict[str, Any], *, up: bool = True) -> Snapshot:
        models = poll if poll and isinstance(next(iter(poll.values())), dict) else {"m": poll}
        return self._snapshot(mono, self._block(models), up)

    def down(self, mono: float) -> Snapshot:
        return self._snapshot(mono, EMPTY_BLOCK, False)

    def _snapshot(self, mono: float, data: Block, up: bool) -> Snapshot:
        life: list[tuple[str, dict[str, str], float]] = [("target_up", {"target": self.target}, float(up))]
        life.append(("target_start_timestamp_seconds", {"target": self.target}, self.started))
        return Snapshot(
            self.target,
            self.runtime,
            self.clock + mono,
            mono,
            self.epoch,
            up,
            data,
            block_of(life),
            extra=self.extra,
        )

    def _block(self, models: dict[str, dict[str, float]]) -> Block:
        key = tuple((name, tuple(poll)) for name, poll in models.items())
        if key not in self._layouts:
            build = LayoutBuilder()
            for name, poll in models.items():
                self._add(build, name, poll)
            self._layouts[key] = build.build()
        values: list[float] = []
        for poll in models.values():
            values += _values(poll)
        return Block(self._layouts[key], tuple(values))

    def _add(self, build: LayoutBuilder, model: str, poll: dict[str, float]) -> None:
        labels = {"target": self.target, "runtime": self.runtime} | ({"model_name": model} if model else {})
        for name, signal in GAUGES.items():
            if name in poll:
                build.add(signal, labels)
        if "finished" in poll:
            build.add("requests_total", labels | {"outcome": "success"})
        if "tokens" in poll:
            build.add("generation_tokens_total", labels)
        for name, signal in SUMS.items():
            if name in poll:
                build.add(signal, labels)
        if "itl_sum" in poll:
            build.add("inter_token_latency_seconds", labels, BOUNDS)


def _values(poll: dict[str, float]) -> Iterable[float]:
    for name in GAUGES:
        if name in poll:
            yield poll[name]
    for name in ("finished", "tokens"):
        if name in poll:
            yield poll[name]
    for name in SUMS:
        if name in poll:
            yield poll.get(name.replace("_sum", "_cnt"), poll.get("finished", nan))
            yield poll[name]
    if "itl_sum" in poll:
        good, count = poll["itl_good"], poll["itl_cnt"]
        yield from (0.0, 0.0, good, good, count, count, poll["itl_sum"])


def fed(signals: Signals, snapshot: Snapshot) -> Block:
    block = signals.feed(snapshot)
    assert block is not None
    return block


def present(block: Block) -> set[str]:
    return {one.signal.name for one in block.layout.series if not isnan(block.values[one.start])}


def burn_rates(*rates: float, model: str = "m") -> Block:
    """Objectives with a short and a long window each; the long ones burn."""
    labels = {"target": "local", "runtime": "vllm", "model_name": model}
    return block_of(
        [
            ("slo_burn_rate", labels | {"slo": f"slo{place}", "window": window}, value)
            for place, rate in enumerate(rates)
            for window, value in (("1h", 9.0), ("5m", rate))
        ]
    )
