"""What misled people who scraped Dynamo's front end, numbered as in docs/runtimes/tensorrt_llm.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sidecar.exposition import peek_families
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry

PAGES = Path(__file__).parent / "pages"


def case(name: str) -> bytes:
    return (PAGES / "cases" / f"{name}.prom").read_bytes()


def sample(name: str) -> bytes:
    return (PAGES / "samples" / f"{name}.prom").read_bytes()


def test_13_queued_is_inside_of_inflight(adapter: Any, scrape: Any) -> None:
    for page in (case("13_dynamo_queue_inflight"), sample("fe_saturated")):
        seen = scrape(adapter("dynamo"), page)
        assert (seen.get("requests_running"), seen.get("requests_waiting")) == (6, 18)


def test_14_cancellations_and_the_clients_own_mistakes_are_no_errors(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("dynamo"), case("14_dynamo_cancel_and_overload"))
    told = {
        outcome: seen.get("requests_total", model_name="tiny-llm", outcome=outcome)
        for outcome in ("success", "cancelled", "rejected", "error")
    }
    assert told == {"success": 27, "cancelled": 3, "rejected": 10, "error": 10}  # 20 that the service failed
    assert not seen.has("requests_total", model_name="unknown_model")


def test_15_nothing_is_joined_over_worker_ids(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("dynamo"), case("15_dynamo_worker_id_join"))
    assert not seen.has("kv_cache_usage_ratio")
    assert "DYN_SYSTEM_PORT" in seen.says("kv_cache_usage_ratio").note
    assert seen.binding.unmapped == ()


def test_a_saturated_front_end(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("dynamo"), sample("fe_saturated"))
    assert seen.get("requests_total", outcome="success") == 7
    assert seen.get("prompt_tokens_total") == 1112
    assert seen.get("generation_tokens_total") == 787
    assert seen.histogram("time_to_first_token_seconds") == (13, pytest.approx(1.13609678))
    assert seen.histogram("inter_token_latency_seconds")[0] == 413
    assert seen.histogram("e2e_request_latency_seconds")[0] == 7
    assert seen.binding.unmapped == ()


def test_the_old_prefix_is_another_door(adapter: Any, scrape: Any) -> None:
    page = sample("fe_customprefix")
    assert Registry().detector.detect(peek_families(page)).runtime == "dynamo"
    seen = scrape(adapter("dynamo"), page)
    assert seen.get("requests_total", outcome="success") > 0
    assert seen.adapter.facts.ready is True


def test_ready_is_a_worker_that_serves_not_the_health_endpoint(adapter: Any, scrape: Any) -> None:
    known = adapter("dynamo", {"health": json.loads((PAGES / "endpoints" / "fe_live.json").read_text())})
    scrape(known, sample("fe_saturated"))
    assert (known.facts.live, known.facts.ready, known.findings()) == (True, True, ())
    scrape(known, sample("fe_worker_gone2"))
    assert (known.facts.live, known.facts.ready) == (True, False)
    assert "no worker" in known.findings()[0]
    known.learn("models", Answer(200, (PAGES / "endpoints" / "fe_models.json").read_bytes()))
    assert [model.name for model in known.facts.models] == ["tiny-llm"]


def test_the_start_is_told_by_the_uptime_and_does_not_jitter() -> None:
    line = TargetPipeline(Settings(), Registry())
    page = sample("fe_saturated")
    first = line.feed({"metrics": Answer(200, page)}, time=1000.0, mono=0.0)
    later = page.replace(b"26.192271048", b"28.2")
    second = line.feed({"metrics": Answer(200, later)}, time=1002.3, mono=2.3)
    assert first.runtime == "dynamo"
    starts = [one.life.get("target_start_timestamp_seconds") for one in (first, second)]
    assert starts == [pytest.approx(1000.0 - 26.192271048)] * 2
    anew = page.replace(b"26.192271048", b"1.0")
    assert line.feed({"metrics": Answer(200, anew)}, time=1010.0, mono=10.0).epoch == 1


def test_a_clock_that_is_set_restarts_nothing() -> None:
    body = (Path(__file__).parent / "pages" / "samples" / "fe_after.prom").read_text()
    pipeline = TargetPipeline(Settings(), Registry())

    def read(uptime: float, time: float, mono: float) -> int:
        page = re.sub(r"(?m)^(dynamo_component_uptime_seconds\{.*\}) .*$", rf"\1 {uptime}", body)
        return pipeline.feed({"metrics": Answer(200, page.encode())}, time=time, mono=mono).epoch

    assert read(3600, 1.7e9, 1000) == 0
    assert read(3602, 1.7e9 + 32, 1002) == 0, "half a minute forwards"
    assert read(3604, 1.7e9 - 26, 1004) == 0, "a minute back"
    assert read(3606, 1.7e9 - 24, 1006) == 0
    assert read(1, 1.7e9 - 14, 1016) == 1, "started anew"
    assert read(3, 1.7e9 - 12, 1018) == 1


def test_a_killed_worker_leaves_errors_behind(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("dynamo"), sample("fe_killed_15s"))
    # Ten clients got HTTP 200 and [DONE]: only this counter knows better.
    assert seen.get("requests_total", model_name="Org/Tiny-LLM", outcome="error") == 10
    assert seen.get("requests_total", model_name="Org/Tiny-LLM", outcome="rejected") == 10
