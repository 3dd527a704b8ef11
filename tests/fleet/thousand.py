"""Many sidecars before one fleet role, each a real listener with a real page: what it costs.

`python -m tests.fleet.thousand [sidecars] [seconds]` prints CPU and memory of the fleet role's process; the
servers are another process.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from tests.fleet.world import simulated_page

_TICKS = os.sysconf("SC_CLK_TCK")
INTERVAL = 5.0


async def _serve(count: int, listed: Callable[[str], object]) -> None:
    """So many listeners, told as a list; each time that a page is asked for, its numbers are others."""
    pages = [simulated_page(seconds=60.0 + 20 * place, seed=place) for place in range(8)]
    asked = 0

    async def metrics(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(body=pages[asked % len(pages)], content_type="text/plain")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    targets = []
    for _ in range(count):
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=16)
        await site.start()
    for host, port in runner.addresses:
        targets.append(f"{host}:{port}")
    listed(json.dumps([{"targets": targets}]))
    await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_share: float  # of a core
    resident: int  # bytes
    answering: int
    failed: int


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)


def measure(count: int, seconds: float, interval: float = INTERVAL) -> Cost:
    """Let the fleet role read `count` sidecars for so long, after all have answered once."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "sidecars.json"
        with _process("-m", "tests.fleet.thousand", "serve", str(count), str(listed)):
            _until(listed.exists)
            port = _free_port()
            arguments = ["--file", str(listed), "--listen", f"127.0.0.1:{port}", "--interval", f"{interval}s"]
            with _process("-m", "sidecar.cli", "fleet", *arguments, "--timeout", "4s") as role:
                url = f"http://127.0.0.1:{port}/metrics"
                _until(lambda: _number(url, 'fleet_replicas{state="answering"}') == count)
                before, began = _cpu(role.pid), time.monotonic()
                time.sleep(seconds)
                used, took = _cpu(role.pid) - before, time.monotonic() - began
                page = _page(url)
                failed = sum(
                    int(float(line.rpartition(" ")[2]))
                    for line in page.splitlines()
                    if line.startswith("inference_fleet_reads_total") and '"ok"' not in line
                )
                answering = _number(url, 'fleet_replicas{state="answering"}')
                return Cost(used / took, _resident(role.pid), int(answering or 0), failed)


def _until(what: Callable[[], bool], within: float = 90.0) -> None:
    deadline = time.monotonic() + within
    while not what():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.1)


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def _number(url: str, name: str) -> float | None:
    try:
        page = _page(url)
    except OSError:
        return None
    found = [line for line in page.splitlines() if line.startswith(f"inference_{name} ")]
    return float(found[0].rpartition(" ")[2]) if found else None


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve(int(sys.argv[2]), Path(sys.argv[3]).write_text))
    else:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
        cost = measure(count, float(sys.argv[2]) if len(sys.argv) > 2 else 30.0)
        print(
            f"{count} sidecars every {INTERVAL:g} s: {cost.cpu_share:.2f} of a core,"
            f" {cost.resident / 2**20:.0f} MiB, {cost.answering} answer, {cost.failed} failed readings"
        )
