"""A real Prometheus scrapes the sidecar every second for a minute: no scrape fails, values are equal."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests.integration.real_servers import Server, free_port, program, prometheus, wait_for

SECONDS = 60


def fetch(url: str, accept: str = "") -> str:
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def test_a_minute_of_scrapes(tmp_path: Path) -> None:
    program("prometheus")
    port = free_port()
    demo = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "sidecar.cli",
            "demo",
            "--for",
            f"{SECONDS + 30}s",
            "--listen",
            f"127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}/metrics"

        def there() -> bool:
            try:
                return "inference_requests_running{" in fetch(url)
            except OSError:
                return False

        wait_for(there, 20, name="the demo's first numbers")
        scrape = {
            "job_name": "sidecar",
            "scrape_interval": "1s",
            "scrape_timeout": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
        }
        with prometheus(tmp_path, {"scrape_configs": [scrape]}) as server:
            wait_for(lambda: server.value("up"), 20, name="the first scrape")
            began = time.time()
            time.sleep(SECONDS)
            seconds = int(time.time() - began)
            assert server.value(f"count_over_time(up[{seconds}s])") >= SECONDS - 3
            assert server.value(f"min_over_time(up[{seconds}s])") == 1
            # The traffic came and went: counters rose, and every scrape fits the histogram's own laws.
            assert server.value("max_over_time(inference_requests_waiting[1m])") > 0
            assert server.value("inference_generation_tokens_total") > 1000
            torn = server.query(
                "inference_time_to_first_token_seconds_count"
                ' != ignoring(le) inference_time_to_first_token_seconds_bucket{le="+Inf"}'
            )
            assert torn == []
            assert server.value("scrape_samples_scraped") == server.value(
                "scrape_samples_post_metric_relabeling"
            )
            _equal(url, server)
    finally:
        demo.terminate()
        demo.wait(timeout=20)


def _equal(url: str, server: Server) -> None:
    """What Prometheus stored last is what the page showed at some moment of the last seconds."""
    name = "inference_generation_tokens_total"
    shown: set[float] = set()
    until = time.monotonic() + 4
    while time.monotonic() < until:
        (line,) = (line for line in fetch(url).splitlines() if line.startswith(name + "{"))
        shown.add(float(line.rsplit(" ", 1)[1]))
        time.sleep(0.05)
    assert server.value(name) in shown


def test_promtool_finds_nothing_to_mend(tmp_path: Path) -> None:
    promtool = program("promtool")
    page = Path(__file__).parents[1] / "commands" / "pages" / "vllm_0.32_queue.txt"
    mapped = subprocess.run(
        [sys.executable, "-m", "sidecar.cli", "map", str(page)], capture_output=True, check=True
    )
    told = subprocess.run([promtool, "check", "metrics"], input=mapped.stdout, capture_output=True)
    assert told.returncode == 0, told.stderr.decode() + told.stdout.decode()
