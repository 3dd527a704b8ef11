"""A sidecar process beside a Triton, and what its page says."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from sidecar.exposition import read_page
from tests.integration.real_servers import free_port, wait_for
from tests.integration.real_triton.server import Triton

INTERVAL = 0.2
Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Page:
    """What the sidecar said at one moment."""

    samples: list[tuple[str, Labels, float]]

    def get(self, name: str, **labels: str) -> float | None:
        """The sum of a signal's samples with these labels; None when there is none."""
        found = [
            value for sample, own, value in self.samples if sample == name and labels.items() <= own.items()
        ]
        return sum(found) if found else None

    def labels(self, name: str) -> list[Labels]:
        return [own for sample, own, _ in self.samples if sample == name]


@dataclass(frozen=True, slots=True)
class Sidecar:
    url: str

    def read(self) -> Page:
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
                page = read_page(answer.read())
        except (urllib.error.URLError, OSError):
            return Page([])
        return Page([(one.name.removeprefix("inference_"), one.labels, one.value) for one in page.samples])

    def get(self, name: str, **labels: str) -> float | None:
        return self.read().get(name, **labels)

    def comes_to(self, expected: float, name: str, **labels: str) -> None:
        wait_for(
            lambda: (now := self.get(name, **labels)) is not None and abs(now - expected) < 1e-6,
            20.0,
            name=f"{name} {labels} = {expected}, at last {self.get(name, **labels)}",
        )


@contextmanager
def watching(folder: Path, triton: Triton) -> Iterator[Sidecar]:
    """It probes as often as a config may say."""
    port = free_port()
    config = folder / "sidecar.yaml"
    settings = {
        "listen": f"127.0.0.1:{port}",
        "interval": INTERVAL,
        "probe": {"enabled": True, "interval": 1, "timeout": 10},
        "targets": [{"name": "t", "url": triton.metrics, "api_url": triton.api, "runtime": "auto"}],
        "gpu": {"source": "none"},
    }
    config.write_text(yaml.safe_dump(settings))
    with (folder / "sidecar.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)], stdout=log, stderr=log
        )
    try:
        beside = Sidecar(f"http://127.0.0.1:{port}")
        # The index and the configs of the models are known once an ensemble has no version of its own.
        wait_for(
            lambda: any(
                own.get("model_name") == "ens" and "model_version" not in own
                for own in beside.read().labels("requests_total")
            ),
            20.0,
            name="the sidecar knows the ensemble",
        )
        yield beside
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(15)
