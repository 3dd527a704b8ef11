"""A running tritonserver and its client, on free loopback ports."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.real_servers import free_port, wait_for
from tests.integration.real_triton import environment, models, texts


@dataclass(frozen=True, slots=True)
class Triton:
    api: str
    metrics: str
    process: subprocess.Popen[bytes]
    repository: Path

    def ask(self, path: str, body: Any = None, *, method: str | None = None) -> tuple[int, bytes]:
        """Status and body; status 0 when nothing answers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.api + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return 0, b""

    def infer(self, model: str, value: float = 1.0, version: int | None = None) -> int:
        return self.tell(model, value, version)[0]

    def tell(self, model: str, value: float = 1.0, version: int | None = None) -> tuple[int, str]:
        """Status of an inference, and the error that came with it."""
        where = f"/v2/models/{model}" + (f"/versions/{version}" if version else "")
        tensor = {"name": "X", "shape": [1, 1], "datatype": "FP32", "data": [value]}
        status, body = self.ask(f"{where}/infer", {"inputs": [tensor]})
        return status, "" if status == 200 else body.decode("utf-8", "replace")

    def stream(self, model: str, tokens: int) -> int:
        """Answers that came over a stream."""
        status, body = self.ask(f"/v2/models/{model}/generate_stream", {"X": float(tokens)})
        assert status == 200, body
        return body.count(b"data: ")

    def together(self, count: int, model: str) -> list[tuple[int, str]]:
        """Statuses and errors of so many requests at once."""
        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(lambda _: self.tell(model), range(count)))


@contextmanager
def serving(folder: Path) -> Iterator[Triton]:
    """Started with explicit model control; ended by its pid."""
    repository = folder / "models"
    models.write(repository)
    texts.write(repository)
    base = environment.server()
    http, grpc, metrics = free_port(), free_port(), free_port()
    command = [
        base / "bin" / "tritonserver",
        f"--model-repository={repository}",
        f"--backend-directory={base / 'backends'}",
        f"--cache-directory={base / 'caches'}",
        "--cache-config=local,size=1048576",
        "--model-control-mode=explicit",
        *(f"--load-model={name}" for name in models.LOADED + texts.LOADED),
        *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
        f"--http-port={http}",
        f"--grpc-port={grpc}",
        f"--metrics-port={metrics}",
        "--backend-config=python,shm-default-byte-size=4194304",
    ]
    with (folder / "triton.log").open("wb") as log:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=log, stderr=log, env=environment.surroundings()
        )
    triton = Triton(f"http://127.0.0.1:{http}", f"http://127.0.0.1:{metrics}", process, repository)
    try:
        wait_for(
            lambda: process.poll() is not None or triton.ask("/v2/health/ready")[0] == 200,
            40.0,
            name="Triton",
        )
        assert process.poll() is None, (folder / "triton.log").read_text()[-2000:]
        yield triton
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
