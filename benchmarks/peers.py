"""The whole process beside Prometheus and vmagent: the same eight pages, scraped every second, in one run."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.pages import series

PAGES = 8
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    name: str
    cpu_seconds: float
    rss_mib: float
    pages: float

    @property
    def milliseconds_a_page(self) -> float:
        return self.cpu_seconds / self.pages * 1e3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve(ports: list[int], pages: list[bytes]) -> None:
    """Serve the page of the second on each port, as small as HTTP allows: it shares the machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if b" /metrics" in head.split(b"\r\n", 1)[0]:
                    page, status = pages[int(time.time()) % len(pages)], b"200 OK"
                else:
                    page, status = b"", b"404 Not Found"
                kind = b"text/plain; version=0.0.4"
                writer.write(
                    b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"
                    % (status, kind, len(page), page)
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def main() -> None:
        for port in ports:
            await asyncio.start_server(answer, "127.0.0.1", port, limit=2**22)
        await asyncio.Event().wait()

    asyncio.run(main())


def cpu_of(pid: int) -> float:
    """User and system seconds of a process and its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def rss_of(pid: int) -> float:
    """Resident MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[int]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=20)


def commands(ports: list[int], folder: Path) -> dict[str, list[str]]:
    """The command of each peer that is installed, and the sidecar's with four objectives."""
    scrape = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {"job_name": "runtimes", "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports]}]}
        ],
    }
    prometheus = folder / "prometheus.yml"
    prometheus.write_text(yaml.safe_dump(scrape))
    from benchmarks.micro import FOUR_SLOS

    config = {
        "listen": f"127.0.0.1:{free_port()}",
        "interval": "1s",
        "timeout": "1s",
        "targets": [
            {"name": f"t{place}", "url": f"http://127.0.0.1:{port}", "runtime": "vllm"}
            for place, port in enumerate(ports)
        ],
        **yaml.safe_load(FOUR_SLOS),
        "gpu": {"source": "none"},
    }
    sidecar = folder / "sidecar.yaml"
    sidecar.write_text(yaml.safe_dump(config))
    found = {"sidecar": [sys.executable, "-m", "sidecar.cli", "run", "--config", str(sidecar)]}
    if shutil.which("prometheus"):
        found["prometheus"] = [
            "prometheus",
            f"--config.file={prometheus}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{free_port()}",
        ]
    if shutil.which("vmagent"):
        found["vmagent"] = [
            "vmagent",
            f"-promscrape.config={prometheus}",
            f"-remoteWrite.url=http://127.0.0.1:{ports[0]}/nowhere",
            f"-remoteWrite.tmpDataPath={folder / 'vm'}",
            f"-httpListenAddr=127.0.0.1:{free_port()}",
        ]
    return found


def measure(seconds: float = 30.0, ranks: int = 3, warm_up: float = 8.0) -> tuple[list[Cost], int]:
    """The cost of each, all running side by side over the same seconds; and the bytes of a page."""
    pages = series(ranks, 20)
    ports = [free_port() for _ in range(PAGES)]
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(ports, pages), daemon=True)
    server.start()
    try:
        with tempfile.TemporaryDirectory() as name:
            return _measure(Path(name), ports, seconds, warm_up), len(pages[0])
    finally:
        server.terminate()
        server.join()


def _measure(folder: Path, ports: list[int], seconds: float, warm_up: float) -> list[Cost]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        pids = {}
        for name, command in commands(ports, folder).items():
            own = folder / name
            own.mkdir()
            pids[name] = stack.enter_context(running(command, own))
        time.sleep(warm_up)
        before = {name: cpu_of(pid) for name, pid in pids.items()}
        began = time.monotonic()
        time.sleep(seconds)
        pages = PAGES * (time.monotonic() - began)
        return [Cost(name, cpu_of(pid) - before[name], rss_of(pid), pages) for name, pid in pids.items()]
