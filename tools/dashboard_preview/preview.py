"""Draws every dashboard with Grafana's own components against a real Prometheus, and writes pictures.

    npm install --prefix tools/dashboard_preview && npm run build --prefix tools/dashboard_preview
    python tools/dashboard_preview/preview.py docs/img

Needs Prometheus and Chromium. Prints panels without data and errors of the page; ends with 1 if there are any.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
from aiohttp import web

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from sidecar.outputs.dashboards import DASHBOARDS  # noqa: E402
from sidecar.outputs.server import listen  # noqa: E402
from tests.dashboards.test_queries import config  # noqa: E402
from tests.dashboards.world import World  # noqa: E402
from tests.integration.real_servers import prometheus  # noqa: E402
from tests.web.browser import Browser, chromium  # noqa: E402

BUILD = Path(__file__).parent / "build"
#: What the variables are set to, where not to All: captured Triton pages hold provoked failures.
CHOSEN = {
    "inference-fleet": "target=chat",
    "inference-slo": "target=chat",
    "inference-triton": "runtime=triton",
}
SIMULATED = 1200.0
SECONDS = 60.0

PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="uPlot.min.css">
<link rel="icon" href="data:,"><div id="root"></div><script src="preview.js"></script>"""


def stage(address: str) -> web.Application:
    """The preview's page, the dashboards, and Prometheus' API behind it."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    async def api(request: web.Request) -> web.Response:
        async with aiohttp.ClientSession() as session, session.get(address + request.path_qs) as answer:
            return web.Response(body=await answer.read(), content_type="application/json")

    async def asset(request: web.Request) -> web.Response:
        """Icons and fonts, which Grafana's server has and its packages haven't."""
        if request.path.endswith(".svg"):
            return web.Response(
                text='<svg xmlns="http://www.w3.org/2000/svg"/>', content_type="image/svg+xml"
            )
        return web.Response(status=204)

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_get("/api/v1/{name}", api)
    app.router.add_get("/public/{name:.*}", asset)
    app.router.add_static("/boards", ROOT / "dashboards")
    app.router.add_static("/", BUILD)
    return app


async def main(out: Path, wanted: list[str]) -> int:
    world = World(SIMULATED)
    world.step(2.0, 0.0)
    sidecar = await listen(world.app, "127.0.0.1:0")
    rules = sorted((ROOT / "alerts").glob("*.rules.yaml"))
    with tempfile.TemporaryDirectory() as folder:
        async with world.fleet() as fleet:
            scraped = config(sidecar.url.removeprefix("http://"), fleet, rules)
            with prometheus(Path(folder), scraped) as server:
                begin = time.time() + 1
                await world.play(SECONDS)
                span = f"begin={begin:.0f}&end={time.time() - 0.5:.0f}"
                async with chromium(Path(folder)) as browser:
                    wrong = await draw(browser, server.url, span, out, wanted)
    await sidecar.close()
    return 1 if wrong else 0


async def draw(browser: Browser, prometheus: str, span: str, out: Path, wanted: list[str]) -> int:
    """Every dashboard that is wanted, as a picture; returns the number of faults and of panels without data."""
    runner = web.AppRunner(stage(prometheus))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    wrong = 0
    for board in DASHBOARDS:
        if wanted and board.name not in wanted:
            continue
        url = f"http://127.0.0.1:{port}/?board={board.name}&{span}&{CHOSEN.get(board.name, '')}"
        async with browser.page(url, width=1600, height=1000) as page:
            await page.until("window.pending === 0", 60)
            await asyncio.sleep(1.5)
            picture = out / f"dashboard-{board.name.removeprefix('inference-')}.png"
            picture.write_bytes(await page.shot())
            errors = [one for one in page.errors if "font" not in one.lower() and "OTS" not in one]
            faults = [*errors, *await page.evaluate("window.faults")]
            empty = await page.evaluate("window.empty")
            print(f"{board.name}: {len(faults)} faults {faults[:3]}, without data: {empty}")
            wrong += len(faults) + len(empty)
    await runner.cleanup()
    return wrong


if __name__ == "__main__":
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    sys.exit(asyncio.run(main(out, sys.argv[2:])))
