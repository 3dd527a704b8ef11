"""Every query of every panel, variable and annotation finds data in a real Prometheus that scrapes the demo:
calm, overload, a restart, a lost GPU; with the generated rules, and without them.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sidecar.outputs.dashboards import DASHBOARDS
from sidecar.outputs.server import listen
from tests.dashboards.fleet import SIDECARS
from tests.dashboards.model import Asked, annotations, filled, panels, queries, variables
from tests.dashboards.world import ROOT, World
from tests.integration.real_servers import Server, program, prometheus

SIMULATED = 400.0
SECONDS = 10.0

BOARDS = [one.json() for one in DASHBOARDS]
PANELS = [one for board in BOARDS for one in queries(board)]
VARIABLES = [one for board in BOARDS for one in variables(board)]
ANNOTATIONS = list({one.expr: one for board in BOARDS for one in annotations(board)}.values())


def config(sidecar: str, fleet: Sequence[str], rules: Iterable[Path]) -> dict[str, Any]:
    def job(name: str, path: str, *addresses: str, **more: Any) -> dict[str, Any]:
        return {
            "job_name": name,
            "metrics_path": path,
            "static_configs": [{"targets": addresses or [sidecar], "labels": {"namespace": "demo"}}],
            **more,
        }

    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in rules],
        "scrape_configs": [
            job("sidecar", "/metrics"),
            job("fleet", "/metrics", *fleet),
            job("kube-state-metrics", "/kube", honor_labels=True),
            job("keda", "/keda"),
        ],
    }


def found(server: Server, asked: Asked, begin: float, end: float) -> int:
    """Samples that a query gets: at the end, or over the time shown."""
    expr = filled(asked.expr, "5s", f"{math.ceil(end - begin)}s")
    expr = expr.replace("offset 1m", "offset 3s")  # an annotation's step; this show is a fast one
    if asked.instant:
        answer = server.get_json("/api/v1/query", query=expr, time=end)["data"]["result"]
        samples = [one["value"] for one in answer if not asked.label or one["metric"].get(asked.label)]
    else:
        answer = server.get_json("/api/v1/query_range", query=expr, start=begin, end=end, step=1)
        samples = [sample for one in answer["data"]["result"] for sample in one["values"]]
    return sum(1 for _, value in samples if value != "NaN")


def value(server: Server, panel: str, end: float) -> float:
    (asked,) = (one for one in PANELS if str(one) == panel)
    (row,) = server.get_json("/api/v1/query", query=filled(asked.expr), time=end)["data"]["result"]
    return float(row["value"][1])


def empty(server: Server, asked: Iterable[Asked], begin: float, end: float) -> list[str]:
    with ThreadPoolExecutor(4) as pool:
        return [
            f"{one}: {filled(one.expr, '4s')}"
            for one, count in pool.map(lambda one: (one, found(server, one, begin, end)), asked)
            if not count
        ]


def test_every_query_finds_data(tmp_path: Path) -> None:
    program("prometheus")
    (tmp_path / "ruled").mkdir()
    (tmp_path / "bare").mkdir()

    async def story() -> None:
        world = World(SIMULATED)
        world.step(2.0, 0.0)
        listener = await listen(world.app, "127.0.0.1:0")
        address = listener.url.removeprefix("http://")
        async with world.fleet() as fleet:
            await judge(world, address, fleet)
        await listener.close()

    async def judge(world: World, address: str, fleet: Sequence[str]) -> None:
        rules = sorted((ROOT / "alerts").glob("*.rules.yaml"))
        begin = time.time()
        with (
            prometheus(tmp_path / "ruled", config(address, fleet, rules)) as ruled,
            prometheus(tmp_path / "bare", config(address, fleet, ())) as bare,
        ):
            await world.play(SECONDS)
            await asyncio.sleep(1.1)
            end = time.time()
            ask = asyncio.to_thread
            missing = await ask(empty, ruled, [*PANELS, *VARIABLES, *ANNOTATIONS], begin, end)
            without = [one for one in [*PANELS, *VARIABLES] if "ALERTS{" not in one.expr]
            missing += await ask(empty, bare, without, begin, end)
            ready = await ask(value, ruled, "inference-fleet-role: Ready A", end)
        assert not missing, "\n".join(missing)
        assert ready == SIDECARS, "two roles say the same of one fleet: that isn't added up"

    asyncio.run(story())
    shown = sum(1 for board in BOARDS for _ in panels(board))
    print(json.dumps({"panels": shown, "queries": len(PANELS), "variables": len(VARIABLES)}))
