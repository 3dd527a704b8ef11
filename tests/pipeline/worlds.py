"""Processes that count as a captured page does, and what answers under one address at each moment."""

from __future__ import annotations

import random
import re
from pathlib import Path

from sidecar.config import load_bytes
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Kind
from sidecar.signals import Signals
from sidecar.slo.configured import objectives_of
from sidecar.slo.engine import SloEngine
from sidecar.snapshot import Series, Snapshot

RUNTIMES = Path(__file__).parent.parent / "runtimes"
VLLM = "vllm/pages/03_s2_after_preempt.txt"
TRITON = "triton/pages/captures/load_03_backlog_drained.prom"
NIM = "nim/pages/samples/nim1_saturated.prom"
TRT = "tensorrt_llm/pages/samples/prometheus_metrics_v13_saturated.prom"
DYNAMO = "dynamo/pages/samples/fe_saturated.prom"

REGISTRY = Registry()
SLOS = b"""
slos:
  - {name: ttft, signal: time_to_first_token, threshold: 1s, objective: 95%, period: 7d}
  - {name: availability, signal: availability, objective: 99%, period: 7d}
"""
NOW = 1796033477.0
_COUNTS = ("counter", "histogram", "summary")


class Process:
    """Counts as the page does, at any level of it: 0 at its start, 1 what was captured, 2 twice as much. How long
    things took differs from process to process."""

    def __init__(self, page: str, *, start: float | None = None, seed: int = 0, busy: str = "") -> None:
        """Lines with the text `busy` count five times as fast."""
        dice = random.Random(seed)
        self._lines: list[tuple[str, float, float]] = []  # text, value, its growth with the level
        kinds: dict[str, str] = {}
        for line in (RUNTIMES / page).read_text().splitlines():
            prefix, _, value = line.rpartition(" ")
            if line.startswith("#"):
                words = line.split()
                kinds |= {words[2]: words[3]} if words[1] == "TYPE" else {}
                self._lines.append((line, 0.0, -1.0))
                continue
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            if "uptime" in name:
                continue
            family = re.sub(r"_(bucket|sum|count|total)$", "", name)
            if name == "process_start_time_seconds":
                if start is not None:
                    self._lines.append((prefix, start, 0.0))
            elif kinds.get(name, kinds.get(family, "gauge")) in _COUNTS:
                time = name.endswith(("_sum", "_us"))
                pace = (dice.uniform(0.9, 1.1) if time else 1.0) * (5.0 if busy and busy in line else 1.0)
                self._lines.append((prefix, 0.0, float(value) * pace))
            else:
                self._lines.append((prefix, float(value), 0.0))

    def page(self, level: float) -> Answer:
        text = []
        for prefix, value, grows in self._lines:
            if grows == -1.0 and prefix.startswith("#"):
                text.append(prefix)
            else:
                counted = grows * level
                text.append(f"{prefix} {value + (counted if '_sum' in prefix else int(counted))}")
        return Answer(200, ("\n".join(text) + "\n").encode())


class Address:
    """The whole line of a target whose address answers with whatever it is given."""

    def __init__(self, page: str = VLLM) -> None:
        self.engine = SloEngine(objectives_of(load_bytes(SLOS, "test")))
        self.signals = Signals()
        settings = Settings(runtime=page.partition("/")[0])
        self.pipeline = TargetPipeline(settings, REGISTRY, [self.engine, self.signals])
        self.mono = 0.0

    def read(self, answer: Answer, seconds: float = 2.0) -> Snapshot:
        self.mono += seconds
        return self.pipeline.feed({"metrics": answer}, time=NOW + self.mono, mono=self.mono)


def rows(snapshot: Snapshot, signal: str, **labels: str) -> list[Series]:
    return [one for block in snapshot.blocks for one in block.layout.find(signal, **labels)]


def value(snapshot: Snapshot, signal: str, **labels: str) -> float:
    """The first number of a signal, wherever it stands; NaN where nothing has it."""
    for block in snapshot.blocks:
        for one in block.layout.find(signal, **labels):
            return block.values[one.count_index if one.signal.kind is Kind.HISTOGRAM else one.start]
    return float("nan")
