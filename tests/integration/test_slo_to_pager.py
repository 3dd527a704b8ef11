"""From an overloaded runtime to the pager and back, with everything real but the GPU.

Simulator → sidecar (its own process) → Prometheus with generated rules → Alertmanager with the example's
routes → a webhook gets the page with its runbook; the load falls; the webhook gets the resolution. In the
middle the sidecar restarts with its state.
"""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml
from aiohttp import web

from sidecar.cli import main
from sidecar.simulator.model import EngineConfig
from sidecar.simulator.replica import ReplicaConfig
from sidecar.simulator.server import SimulatedVllm
from sidecar.simulator.traffic import Lengths, Shape, Steady, Traffic
from tests.integration.real_servers import Server, alertmanager, free_port, program, prometheus, wait_for

T = TypeVar("T")

ROOT = Path(__file__).parents[2]

#: Some 29 requests of this shape a second are what the replica can do.
REPLICA = ReplicaConfig(model_name="m", engine=EngineConfig(max_num_seqs=8, max_model_len=2048))
SHAPE = Shape(prompt=Lengths(20), output=Lengths(20))
CALM, OVERLOAD = Traffic(Steady(5.0), SHAPE), Traffic(Steady(55.0), SHAPE, seed=1)

CONFIG = """
interval: 1s
listen: 127.0.0.1:{port}
state_file: {folder}/state.sqlite
gpu: {{source: none}}
targets:
  - {{name: local, url: "{url}", runtime: vllm}}
slos:
  - name: ttft
    signal: time_to_first_token
    threshold: 1s
    objective: 95%
    period: 7d
    windows:
      - {{severity: page, short: 10s, long: 1m, factor: 4}}
"""


class Pager:
    """Webhooks that keep what Alertmanager sends: (receiver, notification)."""

    def __init__(self) -> None:
        self.port = free_port()
        self.told: list[tuple[str, dict[str, Any]]] = []

    async def __aenter__(self) -> Pager:
        app = web.Application()
        app.router.add_post("/{receiver}", self._receive)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        self.told.append((request.match_info["receiver"], await request.json()))
        return web.Response()

    def first(self, status: str) -> dict[str, Any] | None:
        """The first page of an alert in this status."""
        for receiver, notification in self.told:
            for alert in notification["alerts"]:
                if receiver == "pages" and alert["status"] == status:
                    found: dict[str, Any] = alert
                    return found
        return None


@contextmanager
def sidecar(config: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """The sidecar as its own process, up; ended as a container is."""
    log = config.with_suffix(".log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)], stderr=log
    )
    try:
        wait_for(lambda: "slo_events_total" in page(url), 20, name="the sidecar's first numbers")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=15) == 0
        log.close()


def page(url: str) -> str:
    try:
        with urllib.request.urlopen(url + "/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def number(text: str, series: str) -> float | None:
    """The value of the first line that begins with a pattern."""
    found = re.search(rf"^{series}.* (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


def alertmanager_config(pager: Pager) -> dict[str, Any]:
    """The example, quicker and with receivers that are there."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "alerts" / "alertmanager.yaml").read_text())
    for route in (config["route"], *config["route"]["routes"]):
        route.update(group_wait="0s", group_interval="1s")
    for receiver in config["receivers"]:
        receiver["webhook_configs"][0]["url"] = f"http://127.0.0.1:{pager.port}/{receiver['name']}"
    return config


def prometheus_config(folder: Path, alerts: Server, port: int) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules" / "*.rules.yaml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alerts.address]}]}]},
        "scrape_configs": [
            {"job_name": "sidecar", "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]},
        ],
    }


class Background:
    """An event loop in a thread of its own, so that the test itself can wait for things."""

    def __enter__(self) -> Background:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    @contextmanager
    def running(self, part: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """An asynchronous context, entered and left in the loop."""
        entered = asyncio.run_coroutine_threadsafe(part.__aenter__(), self.loop).result(20)
        try:
            yield entered
        finally:
            asyncio.run_coroutine_threadsafe(part.__aexit__(None, None, None), self.loop).result(20)

    def do(self, what: Callable[[], T]) -> T:
        """Call something in the loop and wait for its answer."""

        async def call() -> T:
            return what()

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(20)


def test_an_overload_pages_and_resolves(tmp_path: Path) -> None:
    program("prometheus")
    port = free_port()
    url, config = f"http://127.0.0.1:{port}", tmp_path / "config.yaml"
    with ExitStack() as stack:
        background = stack.enter_context(Background())
        runtime = stack.enter_context(background.running(SimulatedVllm(REPLICA)))
        pager = stack.enter_context(background.running(Pager()))
        config.write_text(CONFIG.format(port=port, folder=tmp_path, url=runtime.url))
        assert main(["rules", "--config", str(config), "--out", str(tmp_path / "rules")]) == 0
        alerts = stack.enter_context(alertmanager(tmp_path, alertmanager_config(pager)))
        server = stack.enter_context(prometheus(tmp_path, prometheus_config(tmp_path, alerts, port)))

        with sidecar(config, url):
            background.do(lambda: runtime.play(CALM))
            wait_for(lambda: server.value("slo:sli_error:ratio_rate10s") == 0, 20, name="calm in Prometheus")
            assert pager.told == []
            background.do(lambda: runtime.play(OVERLOAD))
            fired = wait_for(lambda: pager.first("firing"), 25, name="the page")
            background.do(lambda: runtime.play(CALM))
            before = number(page(url), "inference_slo_events_total")
        with sidecar(config, url):
            after = page(url)
            coverage = number(after, r'inference_slo_window_coverage_ratio\{.*window="10s"')
            assert coverage is not None and coverage > 0.9  # the windows go on where they were
            resolved = wait_for(lambda: pager.first("resolved"), 30, name="the resolution")
            background.do(lambda: runtime.play(None))
            counted = wait_for(lambda: settled(url), 10, name="no more events")
            truth = background.do(lambda: observed(runtime))

    for alert in (fired, resolved):
        assert alert["labels"]["alertname"] == "InferenceErrorBudgetBurnFast"
        assert alert["labels"]["model_name"] == "m"
        assert alert["labels"]["sloth_slo"] == "ttft"
        runbook = alert["annotations"]["runbook_url"]
        assert (ROOT / runbook[runbook.index("docs/") :]).is_file()
    assert re.match(
        r"[\d.]+% of the events of m were bad in the last 10s\.", fired["annotations"]["description"]
    )
    # Nothing is counted twice; lost is at most what came between the last look at the first page and its end.
    assert before is not None
    assert 0 <= truth - (before + counted) <= 3 * 29


def observed(runtime: SimulatedVllm) -> float:
    """First tokens that the runtime's own page tells of."""
    text = runtime.page.render(runtime.replica)
    found = number(text if isinstance(text, str) else text.decode(), "vllm:time_to_first_token_seconds_count")
    assert found is not None
    return found


def settled(url: str) -> float | None:
    """Events counted, once two polls show the same."""
    first = number(page(url), "inference_slo_events_total")
    time.sleep(2.5)
    return first if first == number(page(url), "inference_slo_events_total") else None
