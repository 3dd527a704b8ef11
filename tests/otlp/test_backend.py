"""A real backend: what VictoriaMetrics stored from OTLP, and its own histogram_quantile of it."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from math import inf
from pathlib import Path

import aiohttp
import pytest

from sidecar.app import Application
from sidecar.config import load_bytes
from sidecar.simulator.server import SimulatedVllm
from tests.otlp.test_push import complete, config, on_the_page

ROOT = Path(__file__).parents[2]
TOKENS = (3, 7, 20, 40)
BUCKETS = "inference_time_to_first_token_seconds_bucket"


@pytest.fixture(scope="module")
def program() -> Path:
    script = ["sh", str(ROOT / "tests/otlp/backend.sh"), str(ROOT / ".venv/tools")]
    done = subprocess.run(script, capture_output=True, text=True)
    found = ROOT / ".venv/tools/victoria-metrics"
    if not found.exists():
        pytest.skip(f"no VictoriaMetrics that speaks OTLP: {done.stderr[-200:]}")
    return found


def quantile(share: float, buckets: dict[float, float]) -> float:
    """As PromQL's histogram_quantile on counts."""
    rank = share * buckets[inf]
    low, below = 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= rank:
            return low + (bound - low) * (rank - below) / (count - below)
        low, below = bound, count
    raise AssertionError("no bucket holds it")


@pytest.mark.real
def test_a_real_backend_answers_the_quantile(program: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    backend = subprocess.Popen(
        [
            str(program),
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-storageDataPath={tmp_path}",
            "-opentelemetry.usePrometheusNaming",
            "-search.latencyOffset=0s",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    async def ask(session: aiohttp.ClientSession, query: str) -> float | None:
        async with session.get(url + "/api/v1/query", params={"query": query, "nocache": "1"}) as answer:
            found = (await answer.json())["data"]["result"]
        return float(found[0]["value"][1]) if found else None

    async def story() -> None:
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:
            app = Application(load_bytes(config(server.url, f"{url}/opentelemetry", "http").encode(), "test"))
            await app.start()
            try:
                for tokens in TOKENS:
                    await complete(session, server.url, tokens)
                for _ in range(100):
                    await asyncio.sleep(0.2)
                    try:
                        counted = await ask(session, "sum(gen_ai_server_time_to_first_token_seconds_count)")
                    except aiohttp.ClientError:
                        continue
                    if counted == len(TOKENS):
                        break
                async with session.get(app.url + "/metrics") as answer:
                    page = on_the_page(await answer.text())
                buckets = {
                    float(dict(labels)["le"]): value
                    for (name, labels), value in page.items()
                    if name == BUCKETS
                }
                assert buckets[inf] == len(TOKENS)
                for share in (0.5, 0.95):
                    query = (
                        f"histogram_quantile({share}, sum by (le)"
                        " (gen_ai_server_time_to_first_token_seconds_bucket))"
                    )
                    assert await ask(session, query) == pytest.approx(quantile(share, buckets), rel=1e-6)
                assert await ask(session, "sum(inference_generation_tokens_total)") == sum(TOKENS)
            finally:
                await app.close()

    try:
        asyncio.run(story())
    finally:
        backend.terminate()
        backend.wait(20)
