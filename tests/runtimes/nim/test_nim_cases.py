"""What misled people who scraped NIMs, one test a case, numbered as in docs/runtimes/nim.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Method, Status

PAGES = Path(__file__).parent / "pages"
SMALL = json.loads((PAGES / "endpoints" / "nim_small_endpoints.json").read_text())


def sample(name: str) -> bytes:
    return (PAGES / "samples" / f"{name}.prom").read_bytes()


def case(name: str) -> bytes:
    return (PAGES / "cases" / f"{name}.prom").read_bytes()


def test_08_time_per_output_token_is_one_observation_a_gap(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("nim"), case("08_tpot_per_token_nim"))
    assert seen.histogram("inter_token_latency_seconds") == (169, pytest.approx(1.856855869293213))
    assert not seen.has("time_per_output_token_seconds")
    # The same on the real page: 174 tokens of 5 requests have 169 gaps.
    real = scrape(adapter("nim"), sample("nim1_real_datadog_fixture"))
    tokens, requests = real.get("generation_tokens_total"), real.get("requests_total", outcome="success")
    assert real.histogram("inter_token_latency_seconds")[0] == tokens - requests


def test_09_missing_gauges_are_unknown_not_zero(adapter: Any, scrape: Any) -> None:
    for page in (case("09_nim_missing_gauges"), sample("nim1_0_multigpu_trtllm_missing_gauges")):
        seen = scrape(adapter("nim"), page)
        for signal in ("requests_running", "requests_waiting", "kv_cache_usage_ratio", "request_slots"):
            assert not seen.has(signal)
            assert seen.says(signal).status is Status.NOT_OBSERVABLE
        assert seen.get("generation_tokens_total") > 0


@pytest.mark.parametrize(
    ("release", "method"), [("1.15.4", Method.ESTIMATED), ("1.15.5", Method.NATIVE), ("", Method.ESTIMATED)]
)
def test_09_latencies_before_1_15_5_are_not_trusted(
    adapter: Any, scrape: Any, release: str, method: Method
) -> None:
    known = adapter("nim", {"release": {"release": release, "api": "1"}})
    seen = scrape(known, sample("nim1_loaded"))
    assert seen.says("time_to_first_token_seconds").method is method
    assert seen.says("e2e_request_latency_seconds").method is method
    assert seen.says("inter_token_latency_seconds").method is Method.NATIVE


def test_10_power_in_milliwatts_is_left_to_the_gpu_reader(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("nim"), case("10_nim_power_milliwatts"))
    assert not seen.block.layout.series
    assert seen.binding.unmapped == ()


def test_11_three_digits_of_exponent(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("nim"), case("11_three_digit_exponent"))
    assert seen.get("prompt_tokens_total") == 115891634176
    assert seen.adapter.facts.start_time == 1730312854.9


def test_12_a_nim_that_passes_vllm_through(adapter: Any, scrape: Any) -> None:
    known = adapter("nim", {"release": {"release": "2.1.6", "api": "2"}})
    seen = scrape(known, sample("nim2_vllm_v1metrics_excerpt"))
    assert (seen.get("requests_running"), seen.get("requests_waiting")) == (12, 3)
    assert seen.get("kv_cache_usage_ratio") == 0.83
    assert (known.name, known.facts.engine, known.facts.version) == ("nim", "vllm", "2.1.6")
    assert {one.label("runtime") for one in seen.block.layout.series} == {"nim"}


def test_12_a_nim_that_passes_sglang_through(adapter: Any, scrape: Any) -> None:
    known = adapter("nim")
    seen = scrape(known, case("12_nim2_sglang"))
    assert (seen.get("requests_running"), seen.get("requests_waiting")) == (4, 2)
    assert seen.get("kv_cache_usage_ratio") == 0.41
    assert known.facts.engine == "sglang"


def test_12_the_paths_are_looked_for_and_then_kept(adapter: Any) -> None:
    known = adapter("nim")
    everywhere = {("/v1/metrics", None), ("/metrics", None), ("/metrics", 8002)}

    def pages() -> set[tuple[str, int | None]]:
        return {(one.path, one.port) for one in known.endpoints if one.page}

    assert pages() == everywhere
    page = Answer(200, sample("nim1_loaded"))
    known.read({"metrics": page})
    assert pages() == {("/v1/metrics", None)}
    for _ in range(40):
        known.read({"metrics": page})
        if pages() == everywhere:
            break
    assert pages() == everywhere
    known.read({"metrics_1_0": page})
    assert pages() == {("/metrics", None)}
    known.learn("health", Answer(error="refused"))
    assert pages() == everywhere


def test_an_embedding_nim_has_two_pages(adapter: Any, scrape: Any) -> None:
    known = adapter("nim")
    seen = scrape(known, sample("nim_embedding_v1metrics_port8000"), sample("nim_embedding_triton_port8002"))
    assert known.facts.engine == "triton"
    assert known.facts.start_time == 1796032200
    assert seen.get("requests_waiting") == 2
    assert seen.get("requests_total", outcome="success") == 412
    assert seen.histogram("request_queue_time_seconds") == (412, pytest.approx(0.412345))
    assert seen.get("model_inferences_total") == 1236
    assert seen.binding.unmapped == ()


def test_a_page_that_answers_under_two_paths_counts_once(adapter: Any, scrape: Any) -> None:
    page = sample("nim1_saturated")
    seen = scrape(adapter("nim"), page, page)
    assert (seen.get("requests_running"), seen.get("requests_total", outcome="success")) == (64, 210)
    assert seen.histogram("time_to_first_token_seconds")[0] == 220


def test_outcomes_of_a_saturated_nim(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("nim"), sample("nim1_saturated"))
    assert {
        outcome: seen.get("requests_total", outcome=outcome) for outcome in ("success", "cancelled", "error")
    } == {"success": 210, "cancelled": 10, "error": 0}
    assert seen.get("requests_finished_total", reason="stop") == 150
    assert seen.get("requests_finished_total", reason="length") == 60
    assert (seen.get("requests_running"), seen.get("requests_waiting")) == (64, 131)
    assert seen.get("request_slots") == 64
    assert seen.says("requests_total:error").method is Method.ESTIMATED


def test_a_failure_that_no_client_caused_is_an_error(adapter: Any, scrape: Any) -> None:
    page = sample("nim1_saturated").replace(
        b'request_failure_total{model_name="meta/llama-3.1-8b-instruct"} 10',
        b'request_failure_total{model_name="meta/llama-3.1-8b-instruct"} 14',
    )
    assert scrape(adapter("nim"), page).get("requests_total", outcome="error") == 4


def test_errors_never_fall_when_a_failure_shows_to_be_a_client_that_left(adapter: Any, scrape: Any) -> None:
    head = b'request_failure_total{model_name="meta/llama-3.1-8b-instruct"} '
    known = adapter("nim")
    seen = scrape(known, sample("nim1_saturated").replace(head + b"10", head + b"11"))
    assert seen.get("requests_total", outcome="error") == 1
    assert scrape(known, sample("nim1_saturated")).get("requests_total", outcome="error") == 1


def test_endpoints_tell_life_release_and_profile(adapter: Any) -> None:
    known = adapter("nim")
    for said in SMALL["GET /v1/health/ready"]:
        known.learn("ready", Answer(said["status"], json.dumps(said["body"]).encode()))
        assert known.facts.ready is (said["status"] == 200)
    known.learn("health", Answer(200, json.dumps(SMALL["GET /v1/health/live"]["body"]).encode()))
    known.learn("metadata", Answer(200, json.dumps(SMALL["GET /v1/metadata"]["body"]).encode()))
    assert (known.facts.live, known.facts.version, known.facts.profile) == (True, "1.12.0", "...")
    known.learn("release", Answer(200, json.dumps(SMALL["GET /v1/version"]["body"]).encode()))
    assert known.facts.version == "1.0.0"
    known.learn("models", Answer(200, b'{"data": [{"id": "meta/llama", "max_model_len": 8192}, 3]}'))
    assert [(one.name, one.max_context_tokens) for one in known.facts.models] == [("meta/llama", "8192")]
    for nonsense in (b"", b"[]", b"null", b'{"release": 3, "data": 7}'):
        for name in ("release", "metadata", "models"):
            known.learn(name, Answer(200, nonsense))
    assert known.facts.version == "1.0.0"


def test_a_nim_stays_a_nim_when_its_page_is_its_engines() -> None:
    line = TargetPipeline(Settings(), Registry())
    page = sample("nim2_vllm_v1metrics_excerpt")
    first = line.feed({"v1_metrics": Answer(200, page)}, time=0.0, mono=0.0)
    assert (first.runtime, line.facts.engine) == ("nim", "vllm")
    more = page + b'# TYPE vllm:num_preemptions counter\nvllm:num_preemptions_total{model_name="m"} 3\n'
    assert line.feed({"metrics": Answer(200, more)}, time=2.0, mono=2.0).runtime == "nim"
