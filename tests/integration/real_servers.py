"""Real Prometheus and Alertmanager for tests: started on free loopback ports, stopped by their pid.

    with prometheus(tmp_path, {"scrape_configs": [...]}) as server:
        server.query("up")

A test that needs a program that isn't installed is skipped, with the reason.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

T = TypeVar("T")

READY_WITHIN = 20.0
POLL = 0.05


def program(name: str) -> str:
    """Path of an installed program; the test is skipped without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: Callable[[], T | None], within: float, *, name: str = "condition") -> T:
    """The first truthy answer of `what`, asked again and again; AssertionError after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        answer = what()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{name}: not within {within} s, last answer {answer!r}")
        time.sleep(POLL)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its address, and what it answers."""

    url: str
    pid: int
    log: Path

    @property
    def address(self) -> str:
        """host:port, as Prometheus' own configuration wants it."""
        return self.url.removeprefix("http://")

    def get_json(self, path: str, **parameters: str | float) -> Any:
        query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        with urllib.request.urlopen(self.url + path + query, timeout=30) as answer:
            return json.load(answer)

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """Prometheus: the instant vector of an expression: `[{"metric": {...}, "value": [time, "1"]}, …]`."""
        when: dict[str, str | float] = {} if at is None else {"time": at}
        result: list[dict[str, Any]] = self.get_json("/api/v1/query", query=expression, **when)["data"][
            "result"
        ]
        return result

    def value(self, expression: str, at: float | None = None) -> float | None:
        """Prometheus: the value of the only series of an expression, None when there is none."""
        result = self.query(expression, at)
        assert len(result) <= 1, f"{expression} has {len(result)} series"
        return float(result[0]["value"][1]) if result else None


@contextmanager
def prometheus(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    *,
    data: Path | None = None,
    flags: Sequence[str] = ("--storage.tsdb.retention.time=1h",),
) -> Iterator[Server]:
    """Prometheus with a config (a mapping, written as YAML) over a folder; `data` is an existing database."""
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(dict(config or {})))
    storage = data or folder / "prometheus-data"
    command = [
        program("prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={storage}",
        "--log.level=warn",
        *flags,
    ]
    with _serve(command, folder / "prometheus.log") as server:
        yield server


@contextmanager
def alertmanager(folder: Path, config: Mapping[str, Any]) -> Iterator[Server]:
    """Alertmanager with a config (a mapping, written as YAML) over a folder."""
    file = folder / "alertmanager.yml"
    file.write_text(yaml.safe_dump(dict(config)))
    command = [
        program("prometheus-alertmanager"),
        f"--config.file={file}",
        f"--storage.path={folder / 'alertmanager-data'}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    with _serve(command, folder / "alertmanager.log") as server:
        yield server


@contextmanager
def _serve(command: Sequence[str], log: Path) -> Iterator[Server]:
    port = free_port()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=sink, stderr=subprocess.STDOUT
        )
    server = Server(f"http://127.0.0.1:{port}", process.pid, log)
    try:
        wait_for(lambda: _ready(server, process), READY_WITHIN, name=command[0])
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready(server: Server, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise AssertionError(
            f"{process.args!r} ended with {process.returncode}: {server.log.read_text()[-2000:]}"
        )
    try:
        with urllib.request.urlopen(server.url + "/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
