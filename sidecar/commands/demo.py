"""`demo`: a simulated runtime, the sidecar beside it, traffic from calm to overload and back."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from math import isnan, nan

from sidecar.app import Application
from sidecar.commands.tell import tell
from sidecar.config import Config, load_bytes
from sidecar.config.quantities import parse_duration
from sidecar.gpu.simulated import SimulatedSource
from sidecar.history import Table
from sidecar.outputs.server import ListenError, split_address
from sidecar.simulator.demo import demo_server
from sidecar.simulator.server import SimulatedVllm
from sidecar.snapshot import Snapshot

NAME = "demo"
HELP = "a simulated runtime, the sidecar beside it, and traffic; no GPU needed"

CONFIG = """
listen: {listen}
interval: 1s
targets:
  - {{name: demo, url: "{url}", capacity: {{slots: 48}}}}
probe: {{enabled: true, interval: 2s}}
slos:
  - name: ttft
    signal: time_to_first_token
    threshold: 1s
    objective: 95%
    period: 7d
    windows: [{{severity: page, short: 10s, long: 1m, factor: 2}}]
"""

#: What rates and means are made of: signals, and which of a series' numbers.
COUNTED = (
    ("generation_tokens_total", "start"),
    ("time_to_first_token_seconds", "sum_index"),
    ("time_to_first_token_seconds", "count_index"),
    ("inter_token_latency_seconds", "sum_index"),
    ("inter_token_latency_seconds", "count_index"),
    ("probe_time_to_first_token_seconds", "sum_index"),
    ("probe_time_to_first_token_seconds", "count_index"),
)

#: What the rates and means of the table are taken over.
WINDOW = 5.0
EVERY = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--for", dest="seconds", default="60s", metavar="TIME", help="default: 60s")
    parser.add_argument(
        "--listen",
        default="127.0.0.1:9845",
        metavar="HOST:PORT",
        help="default: 127.0.0.1:9845; port 0: a free one",
    )


def run(options: argparse.Namespace) -> int:
    try:
        seconds = parse_duration(options.seconds)
    except ValueError:
        tell(f"demo: --for {options.seconds}: not a time; write it like 60s or 5m")
        return 2
    try:
        split_address(options.listen)
        logging.getLogger("sidecar").setLevel(logging.WARNING)
        asyncio.run(_show(seconds, options.listen))
    except ListenError as error:
        tell(f"demo: {error}")
        return 2
    return 0


async def _show(seconds: float, listen: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with demo_server(seconds) as server:
        app = Application(
            _config(server.url, listen),
            gpu_source=SimulatedSource(lambda: _load(server), target="demo", interval=2.0),
        )
        await app.start()
        print(
            f"A simulated vLLM at {server.url}/metrics, and two simulated\n"
            f"GPUs: their numbers obey what real ones' do. The sidecar reads them each second:\n\n"
            f"  {app.url}/            status page\n"
            f"  {app.url}/metrics     the normalised page\n"
            f"  {app.url}/v1/signals  the same as JSON\n\n"
            f"Traffic for {seconds:g} s: calm, overload, calm again. Objective: 95 % of first\n"
            f"tokens within 1 s. `probe` is the first token of a request that the sidecar\n"
            f"sends itself, every 2 s. Ctrl-C ends it.\n"
        )
        try:
            await _table(app, seconds, stop)
        finally:
            await app.close()


def _load(server: SimulatedVllm) -> list[float]:
    """Both GPUs hold a half of the model: they are as busy as the batch is full."""
    replica = server.replica
    running = sum(rank.running for rank in replica.ranks)
    return [running / replica.config.engine.max_num_seqs] * 2


def _config(url: str, listen: str) -> Config:
    return load_bytes(CONFIG.format(url=url, listen=listen).encode(), "demo")


async def _table(app: Application, seconds: float, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    watch = Watch()
    print("".join(f"{column.title:>{column.width}}" for column in COLUMNS), flush=True)
    shown = -EVERY
    while not stop.is_set() and (now := loop.time() - start) < seconds:
        for snapshot in app.board.publication().snapshots:
            watch.feed(snapshot)
        if now - shown >= EVERY:
            shown = now
            cells = (_cell(column, watch, now) for column in COLUMNS)
            print(
                "".join(f"{cell:>{column.width}}" for cell, column in zip(cells, COLUMNS, strict=True)),
                flush=True,
            )
        try:
            async with asyncio.timeout(0.25):
                await stop.wait()
        except TimeoutError:
            pass


class Watch:
    """The last snapshot and what is needed for rates."""

    def __init__(self) -> None:
        self.last: Snapshot | None = None
        self._table = Table(len(COUNTED), 60.0)

    def feed(self, snapshot: Snapshot) -> None:
        if snapshot is not self.last and snapshot.up:
            self.last = snapshot
            self._table.append(snapshot.mono, [self._counted(signal, place) for signal, place in COUNTED])

    def _counted(self, signal: str, place: str) -> float:
        assert self.last is not None
        return next(
            (
                block.values[getattr(one, place)]
                for block in self.last.blocks
                for one in block.layout.by_signal.get(signal, ())
            ),
            nan,
        )

    def value(self, signal: str, **labels: str) -> float:
        """A gauge or counter of the last snapshot."""
        for block in self.last.blocks if self.last is not None else ():
            for series in block.layout.find(signal, **labels):
                return block.values[series.start]
        return nan

    def increase(self, signal: str, place: str = "start") -> float:
        """What a cumulative value grew by over the window; NaN without two readings."""
        if len(self._table) < 2:
            return nan
        return self._table.increase(COUNTED.index((signal, place)), self._table.base(WINDOW))

    def rate(self, signal: str) -> float:
        table = self._table
        if len(table) < 2:
            return nan
        return self.increase(signal) / (table.times[-1] - table.times[table.base(WINDOW)] or nan)

    def mean(self, signal: str) -> float:
        """Mean of a histogram's new observations; NaN when there were none."""
        return self.increase(signal, "sum_index") / (self.increase(signal, "count_index") or nan)


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    width: int
    value: Callable[[Watch], float]
    form: Callable[[float], str]


def _seconds(value: float) -> str:
    """Within eight columns."""
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"


COLUMNS = (
    Column("time", 6, lambda watch: nan, str),
    Column("running", 9, lambda watch: watch.value("requests_running"), "{:.0f}".format),
    Column("waiting", 9, lambda watch: watch.value("requests_waiting"), "{:.0f}".format),
    Column("kv cache", 10, lambda watch: watch.value("kv_cache_usage_ratio"), "{:.0%}".format),
    Column("tokens/s", 10, lambda watch: watch.rate("generation_tokens_total"), "{:.0f}".format),
    Column("ttft", 9, lambda watch: watch.mean("time_to_first_token_seconds"), _seconds),
    Column("probe", 8, lambda watch: watch.mean("probe_time_to_first_token_seconds"), _seconds),
    Column("itl", 9, lambda watch: watch.mean("inter_token_latency_seconds") * 1e3, "{:.1f} ms".format),
    Column(
        "burn 10s", 10, lambda watch: watch.value("slo_burn_rate", slo="ttft", window="10s"), "{:.1f}".format
    ),
)


def _cell(column: Column, watch: Watch, now: float) -> str:
    if column.title == "time":
        return f"{now:.0f} s"
    value = column.value(watch)
    return "-" if isnan(value) else column.form(value)
