"""What misled people who scraped trtllm-serve, one test a case, numbered as in docs/runtimes/tensorrt_llm.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.exposition import PageError
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.runtimes.tensorrt_llm.iterations import Iterations
from sidecar.schema import Method, Status

PAGES = Path(__file__).parent / "pages"
SMALL = json.loads((PAGES / "endpoints" / "http_small_endpoints.json").read_text())


def case(name: str) -> bytes:
    (page,) = (PAGES / "cases").glob(f"{name}.*")
    return page.read_bytes()


def sample(name: str) -> bytes:
    return (PAGES / "samples" / name).read_bytes()


def test_01_rows_that_another_reader_took_are_counted(adapter: Any, scrape: Any) -> None:
    known = adapter("tensorrt_llm")
    seen = scrape(known, case("01_two_readers_A"), now=0.0)
    assert known.iterations.lost == 2
    assert seen.get("requests_total", outcome="success") == 1
    assert any("2 iteration rows" in finding for finding in known.findings())
    merged = json.loads(case("01_two_readers_A")) + json.loads(case("01_two_readers_B"))
    alone = adapter("tensorrt_llm")
    seen = scrape(alone, json.dumps(merged).encode(), now=0.0)
    assert (alone.iterations.lost, seen.get("requests_total", outcome="success")) == (0, 2)


def test_01_a_statistics_interval_is_no_loss() -> None:
    rows = [{"iter": number} for number in range(0, 100, 10)]
    reader = Iterations()
    reader.read(json.dumps(rows).encode(), 0.0)
    assert reader.lost == 0
    reader.read(json.dumps([{"iter": 120}]).encode(), 1.0)
    assert reader.lost == 2  # of 100 and 110


def test_01_the_rows_are_read_only_where_there_is_no_other_page(adapter: Any) -> None:
    known = adapter("tensorrt_llm")
    assert {one.path for one in known.endpoints if one.page} == {"/prometheus/metrics", "/metrics"}
    known.read({"metrics": Answer(200, sample("prometheus_metrics_v13_loaded.prom"))})
    assert {one.path for one in known.endpoints if one.page} == {"/prometheus/metrics"}
    known.read({"iterations": Answer(200, b"[]")})
    assert {one.path for one in known.endpoints if one.page} == {"/prometheus/metrics", "/metrics"}


def test_02_an_empty_list_is_not_zero(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("02_empty"), now=0.0)
    assert not seen.block.layout.series
    assert seen.says("requests_running").status is Status.NEEDS_FLAG
    assert "enable_iter_perf_stats" in seen.says("requests_running").note
    assert any("no iteration rows" in finding for finding in seen.adapter.findings())


def test_03_the_last_row_before_idle_says_one_and_means_none(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("03_last_row_before_idle"), now=0.0)
    assert seen.get("requests_running") == 0
    stale = scrape(adapter("tensorrt_llm"), sample("prometheus_metrics_v13_idle_stale.prom"))
    assert (stale.get("requests_running"), stale.get("requests_waiting")) == (0, 0)


def test_03_no_row_for_a_while_is_idle(adapter: Any, scrape: Any) -> None:
    known = adapter("tensorrt_llm")
    assert scrape(known, case("04_kv_full_queue_zero"), now=100.0).get("requests_running") == 20
    assert scrape(known, b"[]", now=104.0).get("requests_running") == 20
    idle = scrape(known, b"[]", now=105.5)
    assert (idle.get("requests_running"), idle.get("requests_waiting")) == (0, 0)
    assert idle.get("kv_cache_usage_ratio") == 0.99


def test_04_what_is_active_and_not_scheduled_waits(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("04_kv_full_queue_zero"), now=0.0)
    assert (seen.get("requests_running"), seen.get("requests_waiting")) == (20, 44)
    assert seen.get("kv_cache_usage_ratio") == 0.99
    page = scrape(adapter("tensorrt_llm"), sample("prometheus_metrics_v13_saturated.prom"))
    assert (page.get("requests_running"), page.get("requests_waiting")) == (41, 37 + 64 - 41)


def test_05_attention_dp_ranks_add_up(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("05_adp_two_ranks"), now=0.0)
    assert seen.get("requests_running") == 10
    assert seen.get("kv_cache_usage_ratio") == 32 / 128
    assert seen.get("kv_cache_usage_max_ratio") == 20 / 64
    assert seen.get("kv_cache_capacity_tokens") == 128 * 32


def test_06_names_without_prefix_and_an_undefined_model(adapter: Any, scrape: Any) -> None:
    nameless = scrape(adapter("tensorrt_llm"), case("06_v12_unprefixed_undefined"))
    assert nameless.get("requests_total", outcome="success") == 5
    assert all("model_name" not in dict(one.labels) for one in nameless.block.layout.series)
    known = adapter("tensorrt_llm", {"models": SMALL["GET /v1/models"]["body"]})
    named = scrape(known, case("06_v12_unprefixed_undefined"))
    assert named.histogram("time_to_first_token_seconds", model_name="Qwen3-8B") == (5, 0.42)


def test_06_the_other_prefix(adapter: Any, scrape: Any) -> None:
    page = sample("prometheus_metrics_v13_loaded.prom").replace(b"trtllm_", b"trtllm:")
    seen = scrape(adapter("tensorrt_llm"), page)
    assert (seen.get("requests_running"), seen.get("requests_total", outcome="success")) == (9, 40)
    assert seen.binding.unmapped == ()


def test_07_dead_processes_do_not_speak(adapter: Any, scrape: Any) -> None:
    known = adapter("tensorrt_llm")
    page = case("07_dead_pids")
    seen = scrape(known, page)
    assert (seen.get("requests_running"), seen.get("requests_waiting")) == (2, 1)
    assert seen.get("kv_cache_usage_ratio") == 0.25
    # The numbers of the processes may have wrapped around: who moves is alive.
    moved = page.replace(b'pid="101"} 50', b'pid="101"} 51')
    assert scrape(known, moved).get("requests_running") == 51


def test_08_a_mean_gap_a_request_is_no_gap_between_tokens(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("08_tpot_per_request_trtllm"))
    assert seen.histogram("time_per_output_token_seconds") == (5, 0.055)
    assert not seen.has("inter_token_latency_seconds")
    assert seen.says("inter_token_latency_seconds").status is Status.NOT_OBSERVABLE


def test_16_prefix_hits_are_counted_not_rated(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("16_hit_rate_warmup"), now=0.0)
    assert seen.get("prefix_cache_hits_total") == 4
    assert seen.get("prefix_cache_queries_total") == 3125


def test_17_iteration_latency_is_not_read(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("17_overlap_latency"), now=0.0)
    assert seen.says("inter_token_latency_seconds").status is Status.NOT_OBSERVABLE


def test_18_an_empty_page_is_a_server_that_is_up() -> None:
    line = TargetPipeline(Settings(runtime="tensorrt_llm"), Registry())
    snapshot = line.feed({"metrics": Answer(200, b"")}, time=0.0, mono=0.0)
    assert snapshot.up
    assert not snapshot.data.layout.series


def test_20_health_is_asked_without_generating(adapter: Any) -> None:
    known = adapter("tensorrt_llm")
    assert {one.path for one in known.endpoints} == {
        "/prometheus/metrics",
        "/metrics",
        "/health",
        "/version",
        "/v1/models",
    }
    for said in SMALL["GET /health"]:
        known.learn("health", Answer(said["status"], said["body"].encode()))
        assert (known.facts.live, known.facts.ready) == (True, said["status"] == 200)
    known.learn("version", Answer(200, json.dumps(SMALL["GET /version"]["body"]).encode()))
    assert (known.facts.version, known.facts.engine) == ("1.2.1", "tensorrt_llm")


def test_a_config_that_says_so_reads_the_rows_beside_the_page() -> None:
    pipeline = TargetPipeline(Settings(runtime="tensorrt_llm", draining=True), Registry())
    pages = {
        "metrics": Answer(200, sample("prometheus_metrics_v13_loaded.prom")),
        "iterations": Answer(200, case("04_kv_full_queue_zero")),
    }
    data = pipeline.feed(pages, time=0.0, mono=0.0).data
    assert data.get("requests_waiting") == 44
    assert {one.path for one in pipeline.endpoints if one.page} == {"/prometheus/metrics", "/metrics"}


def test_both_pages_together(adapter: Any, scrape: Any) -> None:
    known = adapter("tensorrt_llm")
    # The newer page has a live gauge; without it the rows are fresher than the page's copy of a row.
    page = b"\n".join(
        line
        for line in sample("prometheus_metrics_v13_loaded.prom").split(b"\n")
        if b"scheduled_batch_size" not in line
    )
    seen = scrape(known, page, case("04_kv_full_queue_zero"), now=0.0)
    assert (seen.get("requests_running"), seen.get("requests_waiting")) == (20, 44)
    assert seen.says("requests_running").source.startswith("/metrics")
    assert seen.get("requests_total", outcome="success", model_name="Qwen3-8B") == 40
    assert seen.histogram("e2e_request_latency_seconds")[0] == 40
    assert seen.says("e2e_request_latency_seconds").source == "trtllm_e2e_request_latency_seconds"


def test_the_page_tells_the_model(adapter: Any, scrape: Any) -> None:
    known = adapter("tensorrt_llm")
    scrape(known, sample("prometheus_metrics_v13_fresh.prom"))
    (model,) = known.facts.models
    assert (model.name, model.root) == ("Qwen3-8B", "/models/Qwen3-8B")


def test_a_stale_copy_of_a_row_is_an_estimate(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("tensorrt_llm"), case("07_dead_pids"))
    assert seen.says("requests_running").method is Method.ESTIMATED


def test_errors_of_the_client_are_none_of_the_server(adapter: Any, scrape: Any) -> None:
    page = (
        b"# TYPE trtllm_request_error_total counter\n"
        b'trtllm_request_error_total{model_name="m",http_code="400"} 3\n'
        b'trtllm_request_error_total{model_name="m",http_code="503"} 2\n'
    )
    assert scrape(adapter("tensorrt_llm"), page).get("requests_total", outcome="error") == 2


def test_a_restart_starts_the_rows_anew() -> None:
    reader = Iterations()
    reader.read(json.dumps([{"iter": 500, "numCompletedRequests": 7}]).encode(), 0.0)
    reading = reader.read(json.dumps([{"iter": 3, "numCompletedRequests": 1}]).encode(), 2.0)
    values = {one.name: value for one, value in zip(reading.shape.samples, reading.values, strict=True)}
    assert (values["json:numCompletedRequests"], reader.lost) == (1, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"[1, null, {}]",
        b'[{"iter": "x", "kvCacheStats": 3, "numActiveRequests": true}]',
        b'[{"iter": 1e400}]',
        b'[{"iter": 5, "inflightBatchingStats": {"numScheduledRequests": -1e999}, "numQueuedRequests": [1]}]',
        b'[{"attentionDpRank": "zero", "iter": 1}]',
    ],
)
def test_rows_of_nonsense_give_no_numbers(adapter: Any, scrape: Any, body: bytes) -> None:
    seen = scrape(adapter("tensorrt_llm"), body, now=0.0)
    assert not seen.has("requests_waiting")
    assert not seen.has("kv_cache_usage_ratio")


@pytest.mark.parametrize("body", [b"[", b"[" * 100_000, b"[1,]", b"[\xff]"])
def test_a_list_that_is_none_is_a_failed_scrape(adapter: Any, body: bytes) -> None:
    with pytest.raises(PageError):
        adapter("tensorrt_llm").read({"metrics": Answer(200, body)})
