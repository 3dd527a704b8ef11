"""A real Triton, a real sidecar beside it, and a client that counts for itself: one server, one story.

The first run downloads 55 MB into a cache outside the repository; without a network the tests are skipped.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from sidecar.exposition import read_page
from tests.integration.real_servers import free_port, wait_for
from tests.integration.real_triton import environment
from tests.integration.real_triton.server import Triton, serving

INTERVAL = 0.2
Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Sidecar:
    url: str

    def read(self) -> list[tuple[str, Labels, float]]:
        try:
            with urllib.request.urlopen(f"{self.url}/metrics", timeout=5) as answer:
                page = read_page(answer.read())
        except (urllib.error.URLError, OSError):
            return []
        return [(one.name.removeprefix("inference_"), one.labels, one.value) for one in page.samples]

    def get(self, name: str, **labels: str) -> float | None:
        """The sum of a signal's samples with these labels; None when there is none."""
        found = [
            value for sample, own, value in self.read() if sample == name and labels.items() <= own.items()
        ]
        return sum(found) if found else None

    def comes_to(self, expected: float, name: str, **labels: str) -> None:
        wait_for(
            lambda: (now := self.get(name, **labels)) is not None and abs(now - expected) < 1e-6,
            5.0,
            name=f"{name} {labels} = {expected}, at last {self.get(name, **labels)}",
        )


@contextmanager
def watching(folder: Path, triton: Triton) -> Iterator[Sidecar]:
    port = free_port()
    config = folder / "sidecar.yaml"
    target = {"name": "t", "url": triton.metrics, "api_url": triton.api, "runtime": "auto"}
    settings = {
        "listen": f"127.0.0.1:{port}",
        "interval": INTERVAL,
        "targets": [target],
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
                name == "requests_total" and own.get("model_name") == "ens" and "model_version" not in own
                for name, own, _ in beside.read()
            ),
            20.0,
            name="the sidecar knows the ensemble",
        )
        yield beside
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(15)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Triton, Sidecar]]:
    try:
        environment.prepare()
    except environment.Unavailable as why:
        pytest.skip(f"no real Triton: {why}")
    folder = tmp_path_factory.mktemp("triton")
    with serving(folder) as triton, watching(folder, triton) as beside:
        yield triton, beside


def what_runs_is_found(triton: Triton, beside: Sidecar) -> None:
    beside.comes_to(1, "target_ready", runtime="triton")
    beside.comes_to(1, "runtime_info", version="2.51.0", engine="python")
    beside.comes_to(7, "model_info")
    beside.comes_to(2, "request_slots", model_name="slow")


def a_backlog_is_seen_while_it_stands_and_counted_when_it_is_gone(triton: Triton, beside: Sidecar) -> None:
    peaks: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            peaks.append(beside.get("requests_waiting", model_name="slow") or 0.0)
            time.sleep(INTERVAL / 2)

    looking = threading.Thread(target=look)
    looking.start()
    # 20 at once: two are taken, twelve queue, the others are refused; the queue's last ones wait too long.
    told = Counter(
        "timed out" if "timeout expired" in error else "refused" if "maximum queue size" in error else status
        for status, error in triton.together(20, "slow")
    )
    over.set()
    looking.join()
    assert told[200] + told["timed out"] + told["refused"] == 20 and told["timed out"]
    assert 4 <= max(peaks) <= 13
    beside.comes_to(told[200], "requests_total", model_name="slow", outcome="success")
    # What a full queue refuses is counted nowhere.
    beside.comes_to(told["timed out"], "requests_total", model_name="slow", outcome="rejected")
    beside.comes_to(told[200], "request_queue_time_seconds_count", model_name="slow")
    queued = beside.get("request_queue_time_seconds_sum", model_name="slow")
    whole = beside.get("e2e_request_latency_seconds_sum", model_name="slow")
    computed = beside.get("request_inference_time_seconds_sum", model_name="slow")
    assert queued and whole and computed
    assert queued + computed == pytest.approx(whole, rel=0.02)
    assert computed >= 0.4 * told[200]
    beside.comes_to(0, "requests_waiting", model_name="slow")


def an_ensemble_counts_once(triton: Triton, beside: Sidecar) -> None:
    told = Counter(triton.infer("ens", value) for value in (1, 1, 1, 1, -5))
    assert told == {200: 4, 500: 1}
    beside.comes_to(4, "requests_total", model_name="ens", outcome="success")
    beside.comes_to(1, "requests_total", model_name="ens", outcome="error")
    assert beside.get("requests_total", model_name="fast", outcome="success") is None
    beside.comes_to(5, "model_executions_total", model_name="fast")


def cache_hits_are_not_computed(triton: Triton, beside: Sidecar) -> None:
    assert [triton.infer("cached", value) for value in (1, 1, 1, 2, 2, 3)] == [200] * 6
    beside.comes_to(6, "requests_total", model_name="cached", outcome="success")
    beside.comes_to(3, "request_inference_time_seconds_count", model_name="cached")
    computed = beside.get("request_inference_time_seconds_sum", model_name="cached")
    assert computed is not None and computed / 3 >= 0.05


def versions_stay_apart(triton: Triton, beside: Sidecar) -> None:
    for version, count in ((1, 3), (2, 5)):
        assert [triton.infer("multi", version=version) for _ in range(count)] == [200] * count
        beside.comes_to(
            count, "requests_total", model_name="multi", model_version=str(version), outcome="success"
        )


def a_stream_has_no_latency_of_tritons(triton: Triton, beside: Sidecar) -> None:
    assert triton.stream("stream", 5) == 5
    beside.comes_to(1, "requests_total", model_name="stream", outcome="success")
    for signal_name in ("e2e_request_latency_seconds_count", "requests_waiting"):
        assert beside.get(signal_name, model_name="stream") is None
        assert beside.get(signal_name, model_name="slow") is not None


def a_model_that_is_loaded_again_goes_on_counting(triton: Triton, beside: Sidecar) -> None:
    before = beside.get("requests_total", model_name="multi", outcome="success")
    assert before
    assert triton.ask("/v2/repository/models/multi/unload", {})[0] == 200
    wait_for(lambda: beside.get("requests_total", model_name="multi", outcome="success") is None, 10.0)
    assert triton.ask("/v2/repository/models/multi/load", {})[0] == 200
    assert [triton.infer("multi", version=1) for _ in range(2)] == [200, 200]
    beside.comes_to(before + 2, "requests_total", model_name="multi", outcome="success")
    beside.comes_to(0, "target_restarts_total")


def failed_answers_are_a_lower_bound_and_exceptions_are_counted(triton: Triton, beside: Sidecar) -> None:
    assert [triton.infer("flaky", value) for value in (-1, -1, -999, -999)] == [500] * 4
    # `flaky` is a step of the ensemble: its own requests aren't shown beside it, its executions are.
    assert beside.get("requests_total", model_name="flaky") is None
    info = [
        own
        for name, own, _ in beside.read()
        if name == "signal_info" and own["signal"] == "requests_total:error"
    ]
    assert {own["method"] for own in info} <= {"derived", "estimated"}


def a_model_that_cannot_be_loaded_makes_the_server_not_ready(triton: Triton, beside: Sidecar) -> None:
    assert triton.ask("/v2/repository/models/broken/load", {})[0] == 400
    wait_for(lambda: beside.get("target_ready") == 0, 15.0, name="not ready")
    beside.comes_to(1, "target_live")
    beside.comes_to(1, "target_up")


STORY = (
    what_runs_is_found,
    a_backlog_is_seen_while_it_stands_and_counted_when_it_is_gone,
    an_ensemble_counts_once,
    cache_hits_are_not_computed,
    versions_stay_apart,
    a_stream_has_no_latency_of_tritons,
    a_model_that_is_loaded_again_goes_on_counting,
    failed_answers_are_a_lower_bound_and_exceptions_are_counted,
    a_model_that_cannot_be_loaded_makes_the_server_not_ready,
)


def test_the_sidecar_and_the_client_agree(both: tuple[Triton, Sidecar]) -> None:
    for chapter in STORY:
        chapter(*both)
