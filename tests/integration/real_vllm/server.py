"""A real vLLM on a free loopback port, started and stopped by its pid."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.integration.real_servers import free_port, wait_for
from tests.integration.real_vllm import environment

READY_WITHIN = 180.0
ENGINE = "EngineCore"

_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True, slots=True)
class Vllm:
    """A running server; times on the wall clock."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    launched: float
    healthy: float

    def page(self) -> bytes:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as answer:
            body: bytes = answer.read()
            return body

    def engine(self) -> int:
        """Pid of the engine process."""
        found = [pid for pid in _descendants(self.process.pid) if ENGINE in _command(pid)]
        assert found, f"no {ENGINE} below {self.process.pid}"
        return found[0]


@contextmanager
def serving(folder: Path, port: int, *flags: str) -> Iterator[Vllm]:
    """Start vLLM with the tiny model on `port`; it is healthy when the block is entered."""
    log = folder / "vllm.log"
    command = [
        *(environment.python(), environment.HERE / "launch.py", "serve", environment.model()),
        *("--host", "127.0.0.1", "--port", port, "--load-format", "dummy", "--dtype", "bfloat16"),
        *("--served-model-name", "tiny", "--enforce-eager", *flags),
    ]
    launched = time.time()
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=os.environ | _ENVIRONMENT,
            cwd=folder,
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _healthy(url, process, log), READY_WITHIN, name="vLLM's /health")
        yield Vllm(url, process, log, launched, time.time())
    finally:
        _stop(process)


def _healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise AssertionError(
            f"vLLM ended with {process.returncode}: {log.read_text('utf-8', 'replace')[-3000:]}"
        )
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server and what it started: all of them are in a session of their own."""
    process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def _descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [one for child in map(int, children) for one in (child, *_descendants(child))]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text() + Path(f"/proc/{pid}/cmdline").read_text()


__all__ = ["Vllm", "free_port", "serving"]
