"""What objectives cost: twenty on a tick, memory of one, state on disk. `python -m benchmarks.slo`."""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

from sidecar.slo import Objective, SloEngine, StateStore
from sidecar.slo.windows import DAY
from sidecar.snapshot import EMPTY_BLOCK, Block, LayoutBuilder, Snapshot

#: Thresholds that are bounds, one objective each.
BOUNDS = tuple(round(0.05 * number, 2) for number in range(1, 23))
POLL = 2.0


@dataclass(frozen=True, slots=True)
class SloCost:
    """`kib_each` is the growth of traced memory an objective once its ring is full."""

    objectives: int
    tick_microseconds: float
    kib_each: float
    state_kib: float
    freeze_milliseconds: float
    save_milliseconds: float
    load_milliseconds: float


def objectives(count: int) -> list[Objective]:
    return [
        Objective(f"slo{number}", "time_to_first_token", 0.95, 7 * DAY, threshold=BOUNDS[number])
        for number in range(count)
    ]


class Traffic:
    """A runtime with one histogram that grows from snapshot to snapshot."""

    def __init__(self) -> None:
        builder = LayoutBuilder()
        builder.add("time_to_first_token_seconds", {"target": "t", "model_name": "m"}, BOUNDS)
        self._layout = builder.build()
        self._count = 0.0

    def snapshot(self, at: float) -> Snapshot:
        self._count += 3
        buckets = [self._count * (place + 1) / (len(BOUNDS) + 1) for place in range(len(BOUNDS) + 1)]
        data = Block(self._layout, (*buckets, self._count))
        return Snapshot("t", "vllm", 1.7e9 + at, at, 0, True, data, EMPTY_BLOCK)


def measure(count: int = 20, ticks: int = 2000) -> SloCost:
    """Fill a month of the ring coarsely and its newest hours finely, then measure warm ticks."""
    gc.collect()
    tracemalloc.start()
    traffic = Traffic()
    before = tracemalloc.get_traced_memory()[0]
    engine = SloEngine(objectives(count))
    at = 0.0
    while at < 31 * DAY:
        engine.feed(traffic.snapshot(at))
        at += 900 if at < 30.5 * DAY else 20
    memory = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    snapshots = [traffic.snapshot(at + POLL * number) for number in range(ticks)]
    start = time.process_time()
    for snapshot in snapshots:
        engine.feed(snapshot)
    tick = (time.process_time() - start) / ticks
    start = time.process_time()
    state = engine.saved()
    freeze = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        store = StateStore(Path(folder) / "state.sqlite")
        start = time.perf_counter()
        store.save(state)
        save = time.perf_counter() - start
        start = time.perf_counter()
        SloEngine(objectives(count), store.load())
        load = time.perf_counter() - start
    size = sum(map(len, state.values()))
    return SloCost(
        count, tick * 1e6, memory / 1024 / count, size / 1024, freeze * 1e3, save * 1e3, load * 1e3
    )


def section(cost: SloCost) -> str:
    """The part of RESULTS.md that is about objectives."""
    return (
        "## Objectives\n\n"
        "| objectives | tick, µs | memory each, KiB | state, KiB | freeze, ms | save, ms | load, ms |\n"
        "|---|---|---|---|---|---|---|\n"
        f"| {cost.objectives} | {cost.tick_microseconds:.0f} | {cost.kib_each:.0f} | {cost.state_kib:.0f} | "
        f"{cost.freeze_milliseconds:.1f} | {cost.save_milliseconds:.1f} | {cost.load_milliseconds:.1f} |\n\n"
    )


if __name__ == "__main__":
    print(section(measure()), end="")
