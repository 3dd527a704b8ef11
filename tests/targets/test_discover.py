"""What runs on this host is found, once, and by the page that is best to read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from sidecar.runtimes.registry import Registry
from sidecar.targets.discover import CANDIDATES, Found, look

PAGES = Path(__file__).parents[1] / "runtimes"
NIM = (PAGES / "nim/pages/samples/nim_embedding_v1metrics_port8000.prom").read_bytes()
INSIDE = (PAGES / "nim/pages/samples/nim_embedding_triton_port8002.prom").read_bytes()
PROMETHEUS = (PAGES / "tensorrt_llm/pages/samples/prometheus_metrics_v13_loaded.prom").read_bytes()
ROWS = (PAGES / "tensorrt_llm/pages/samples/metrics_v13_loaded.json").read_bytes()


async def _serve(pages: Mapping[str, bytes]) -> tuple[web.AppRunner, int]:
    async def answer(request: web.Request) -> web.Response:
        body = pages.get(request.path)
        return web.Response(body=body) if body is not None else web.Response(status=404)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, int(runner.addresses[0][1])


def found_on(*servers: tuple[Mapping[str, bytes], tuple[str, ...]]) -> list[Found]:
    """Look at the paths of each server in turn."""

    async def run() -> list[Found]:
        runners, urls = [], []
        for pages, paths in servers:
            runner, port = await _serve(pages)
            runners.append(runner)
            urls += [f"http://127.0.0.1:{port}{path}" for path in paths]
        try:
            return await look(Registry().detector, 5.0, urls)
        finally:
            for runner in runners:
                await runner.cleanup()

    return asyncio.run(run())


def test_a_nim_with_a_triton_inside_is_one_target() -> None:
    found = found_on(
        ({"/v1/metrics": NIM}, ("/v1/metrics", "/metrics")), ({"/metrics": INSIDE}, ("/metrics",))
    )
    assert [one.runtime for one in found] == ["nim", "", ""]
    assert "inside the NIM" in found[2].reason


def test_a_triton_alone_is_a_target() -> None:
    (found,) = found_on(({"/metrics": INSIDE}, ("/metrics",)))
    assert found.runtime == "triton"


def test_the_page_that_nobody_drains_comes_first() -> None:
    pages = {"/prometheus/metrics": PROMETHEUS, "/metrics": ROWS}
    found = found_on((pages, ("/prometheus/metrics", "/metrics")))
    assert [one.runtime for one in found] == ["tensorrt_llm", "tensorrt_llm"]
    paths = [url.removeprefix("http://127.0.0.1:8000") for url in CANDIDATES if ":8000/" in url]
    assert paths == ["/prometheus/metrics", "/v1/metrics", "/metrics"]


def test_nothing_is_nothing() -> None:
    (found,) = found_on(({"/metrics": b"<html></html>"}, ("/metrics",)))
    assert found.runtime == ""
