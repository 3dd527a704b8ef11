"""A running `inference-sidecar run`, asked over its own /metrics."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from sidecar.exposition import read_page
from tests.integration.real_servers import free_port, wait_for

INTERVAL = 0.25


@dataclass
class Sidecar:
    """A running `inference-sidecar run`, and the highest value that its gauges have had."""

    url: str
    peaks: dict[str, float] = field(default_factory=dict)

    def values(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
            page = read_page(answer.read())
        return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in page.samples}

    def get(self, name: str, **labels: str) -> float | None:
        """The only value of a signal with these labels; None when it is absent."""
        found = [
            value
            for (sample, own), value in self.values().items()
            if sample == f"inference_{name}" and labels.items() <= dict(own).items()
        ]
        assert len(found) < 2, f"{name} {labels}: {len(found)} series"
        return found[0] if found else None

    def number(self, name: str, **labels: str) -> float:
        value = self.get(name, **labels)
        assert value is not None, f"{name} {labels} is absent"
        return value

    def watch(self, stop: threading.Event) -> None:
        while not stop.wait(INTERVAL):
            try:
                values = self.values()
            except (urllib.error.URLError, OSError):
                continue
            for (name, _), value in values.items():
                self.peaks[name] = max(self.peaks.get(name, 0.0), value)

    def settled(self) -> None:
        """Wait until nothing is in flight and the sidecar has read the page since."""
        wait_for(lambda: self.get("requests_running") == 0 and self.get("requests_waiting") == 0, 30.0)
        time.sleep(3 * INTERVAL)


@contextmanager
def sidecar(folder: Path, runtime: str, slots: int, **more: object) -> Iterator[Sidecar]:
    """`more` are keys of its config."""
    port = free_port()
    config = folder / "sidecar.yaml"
    target = {"name": "tiny", "url": runtime, "runtime": "vllm", "capacity": {"slots": slots}}
    config.write_text(
        yaml.safe_dump(
            {
                "listen": f"127.0.0.1:{port}",
                "interval": INTERVAL,
                "wedged_after": 3,
                "targets": [target],
                "gpu": {"source": "none"},
                **more,
            }
        )
    )
    with (folder / "sidecar.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    running = Sidecar(f"http://127.0.0.1:{port}")
    stop = threading.Event()
    watcher = threading.Thread(target=running.watch, args=(stop,))
    try:
        wait_for(lambda: _answers(running, process, folder), 20.0, name="the sidecar")
        watcher.start()
        yield running
    finally:
        stop.set()
        if watcher.ident is not None:
            watcher.join()
        process.terminate()
        process.wait(timeout=20)


def _answers(running: Sidecar, process: subprocess.Popen[bytes], folder: Path) -> bool:
    assert process.poll() is None, (folder / "sidecar.log").read_text()
    try:
        return running.get("target_up") is not None
    except (urllib.error.URLError, OSError):
        return False
