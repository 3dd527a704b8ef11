"""What misled people who scraped Triton, one test a case, numbered as in docs/runtimes/triton.md."""

from __future__ import annotations

import json
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from sidecar.exposition import PageReader
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Method, Status

PAGES = Path(__file__).parent / "pages"
CASES, CAPTURES = PAGES / "cases", PAGES / "captures"

V2 = (PAGES / "endpoints" / "C_v2.json").read_bytes()


def config(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "backend": "python", "max_batch_size": 8} | more


def ensemble(name: str, *steps: str) -> dict[str, Any]:
    return {
        "name": name,
        "platform": "ensemble",
        "ensemble_scheduling": {"step": [{"model_name": step, "model_version": -1} for step in steps]},
    }


def case(name: str) -> bytes:
    return (CASES / f"{name}.prom").read_bytes()


def test_01_failures_that_count_as_success_are_a_lower_bound(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton", {"version": {"version": "2.51.0"}}), case("01_errors_as_success"))
    assert seen.get("requests_total", outcome="error") == 0
    assert seen.says("requests_total:error").method is Method.ESTIMATED
    assert "lower bound" in seen.says("requests_total:error").note
    assert "upper bound" in seen.says("requests_total:success").note


def test_01_until_24_04_the_errors_are_exact(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton", {"version": {"version": "2.45.0"}}), case("12_crashed_backend"))
    assert seen.says("requests_total:error").method is Method.NATIVE


def test_02_dead_counters_are_replaced_by_the_summaries(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("02_counters_dead_summaries_live"))
    assert seen.get("requests_total", outcome="success") == 20
    assert seen.histogram("request_queue_time_seconds") == (20, pytest.approx(2.58318))
    assert not seen.has("requests_total", outcome="error")
    assert "counter_latencies=false" in seen.says("requests_total:error").note
    assert any("counter_latencies=true" in finding for finding in seen.adapter.findings())


def test_02_a_real_page_without_counters_gives_no_zeros(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), (CAPTURES / "option_counter_off_1_after.prom").read_bytes())
    assert not seen.has("requests_total")
    assert seen.get("requests_waiting", model_name="fast") == 0


def test_03_async_engines_have_no_latency_and_no_queue_of_tritons(adapter: Any, scrape: Any) -> None:
    page = (CAPTURES / "llm_1_eight_streams_two_run.prom").read_bytes()
    seen = scrape(adapter("triton"), page, now=1796033477.0)
    # Triton says 8 requests in 0.28 s; the engine says that none has ended, and six wait inside of it.
    assert seen.histogram("e2e_request_latency_seconds", model_name="vllm_model") == (0, 0)
    assert not seen.has("requests_waiting", model_name="vllm_model")
    assert not seen.has("request_queue_time_seconds", model_name="vllm_model")
    assert seen.histogram("time_to_first_token_seconds", model_name="vllm_model")[0] == 2
    assert seen.get("generation_tokens_total", model_name="vllm_model") == 53


def test_03_a_decoupled_model_is_known_by_its_config(adapter: Any, scrape: Any) -> None:
    streaming = config("stream_async", model_transaction_policy={"decoupled": True})
    page = (CAPTURES / "load_11_six_async_streams_running.prom").read_bytes()
    seen = scrape(adapter("triton", {"config/stream_async": streaming}), page)
    for signal in ("e2e_request_latency_seconds", "request_queue_time_seconds", "requests_waiting"):
        assert not seen.has(signal, model_name="stream_async")
        assert seen.has(signal, model_name="slow")
    assert seen.has("requests_total", model_name="stream_async", outcome="success")


def test_04_gpu_uuid_splits_are_summed_and_the_load_time_is_the_highest(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("04_gpu_uuid_split"))
    assert seen.get("requests_total", outcome="success") == 46
    assert seen.get("requests_waiting") == 11

    seen = scrape(adapter("triton"), (CAPTURES / "r26_two_gpus.prom").read_bytes())
    llama = {"model_name": "llama"}
    assert seen.get("requests_total", outcome="success", **llama) == 91
    assert seen.get("requests_total", outcome="rejected", **llama) == 7
    assert seen.get("requests_total", outcome="cancelled", **llama) == 3
    assert seen.get("requests_total", outcome="error", **llama) == 1
    assert seen.get("model_load_seconds", **llama) == 212.5
    assert seen.histogram("request_queue_time_seconds", **llama) == (91, pytest.approx(45.5))


def test_06_rejections_are_a_lower_bound(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("06_queue_full_invisible"))
    assert seen.get("requests_total", outcome="rejected") == 6  # of 12
    assert seen.says("requests_total:rejected").method is Method.ESTIMATED


def test_07_ensembles_count_once(adapter: Any, scrape: Any) -> None:
    known = {"config/ens": ensemble("ens", "fast", "flaky"), "config/fast": config("fast")}
    seen = scrape(adapter("triton", known), case("07_ensemble"))
    requests = seen.total("requests_total")
    errors = seen.total("requests_total", outcome="error")
    assert (requests, errors) == (5, 1)
    # Queues are the steps' own; the whole request is the ensemble's.
    assert seen.total("requests_waiting") == 3
    assert not seen.has("request_queue_time_seconds", model_name="ens")
    assert seen.histogram("request_queue_time_seconds", model_name="fast") == (5, pytest.approx(0.025674))
    assert seen.histogram("e2e_request_latency_seconds", model_name="ens") == (4, pytest.approx(0.047789))
    assert not seen.has("e2e_request_latency_seconds", model_name="fast")
    assert seen.total("model_executions_total") == 10


def test_07_without_the_configs_the_sidecar_says_that_it_cannot_tell(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("07_ensemble"))
    assert any("ensembles" in finding and "8000" in finding for finding in seen.adapter.findings())


def test_07_a_real_ensemble_by_its_repository(adapter: Any, scrape: Any) -> None:
    known = {"config/ens": ensemble("ens", "fast", "flaky")}
    seen = scrape(adapter("triton", known), (CAPTURES / "load_09_versions_ensemble.prom").read_bytes())
    assert seen.get("requests_total", model_name="ens", outcome="success") == 4
    assert seen.get("requests_total", model_name="ens", outcome="error") == 1
    assert [s.label("model_version") for s in seen.block.layout.find("requests_total", model_name="ens")] == [
        "",
        "",
        "",
        "",
    ]
    assert seen.get("requests_total", model_name="multi", model_version="2", outcome="success") == 6


def test_08_an_absent_pending_gauge_is_not_zero(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("13_old_format_21"))
    assert isnan(seen.get("requests_waiting"))
    assert "23.09" in seen.says("requests_waiting").note
    assert seen.get("requests_total", outcome="success") == 177
    assert seen.get("requests_total", outcome="error") == 2


def test_08_no_pending_of_the_steps_of_an_ensemble_that_streams(adapter: Any, scrape: Any) -> None:
    known = {
        "config/ens": ensemble("ens", "fast", "flaky"),
        "config/flaky": config("flaky", model_transaction_policy={"decoupled": True}),
    }
    seen = scrape(adapter("triton", known), case("07_ensemble"))
    assert not seen.has("requests_waiting")
    assert not seen.has("e2e_request_latency_seconds")
    assert seen.get("requests_total", model_name="ens", outcome="success") == 4


def test_09_gpu_families_are_left_to_the_gpu_reader(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("09_gpu_values_zero"))
    assert not seen.block.layout.series
    assert seen.binding.unmapped == ()


def test_10_frozen_gauges_are_known_by_their_age(adapter: Any, scrape: Any) -> None:
    page = case("10_trtllm_frozen")
    stale = scrape(adapter("triton"), page, now=1796033484.48)
    assert stale.get("requests_running") == 0
    assert stale.get("requests_waiting") == 0
    assert not stale.has("kv_cache_usage_ratio")
    fresh = scrape(adapter("triton"), page, now=1796033477.0)
    assert fresh.get("requests_running") == 1
    assert fresh.get("kv_cache_usage_ratio") == pytest.approx(9 / 64)


def test_10_an_hour_of_another_time_zone_is_no_age(adapter: Any, scrape: Any) -> None:
    for hours in (-5, 1, 9):
        seen = scrape(adapter("triton"), case("10_trtllm_frozen"), now=1796033477.0 + hours * 3600)
        assert seen.get("requests_running") == 1


def test_10_a_timestamp_that_stands_still_is_stale_whatever_it_says(adapter: Any, scrape: Any) -> None:
    page = (CAPTURES / "trtllm_readme_2026.prom").read_bytes()  # seconds, of another year
    known = adapter("triton")
    assert scrape(known, page, now=1796033480.0).get("requests_running") == 1
    assert scrape(known, page, now=1796033484.0).get("requests_running") == 1
    assert scrape(known, page, now=1796033486.0).get("requests_running") == 0
    moved = page.replace(b"1700074049", b"1700074051")
    assert scrape(known, moved, now=1796033487.0).get("requests_running") == 1


def test_10_waiting_is_derived_where_the_backend_does_not_tell_it(adapter: Any, scrape: Any) -> None:
    page = (
        (CAPTURES / "trtllm_readme_23.12.prom")
        .read_bytes()
        .replace(b'request_type="active",version="1"} 0', b'request_type="active",version="1"} 9')
    )
    seen = scrape(adapter("triton"), page)
    assert (seen.get("requests_running"), seen.get("requests_waiting")) == (1, 8)
    assert seen.says("requests_waiting").method is Method.DERIVED
    assert seen.get("kv_cache_usage_ratio") == pytest.approx(1 / 6239)
    assert seen.get("kv_cache_capacity_tokens") == 6239 * 64
    assert seen.get("request_slots") == 512


def test_11_vllm_through_triton_is_another_profile(adapter: Any, scrape: Any) -> None:
    known = adapter("triton")
    page = (CAPTURES / "vllm_readme_with_cuts.prom").read_bytes()
    seen = scrape(known, page)
    assert known.facts.engine == "vllm"
    assert seen.get("generation_tokens_total") == 16
    assert len(PageReader().read(page).shape.bad_lines) == 6  # the README's own "..." cost their families
    for signal in ("requests_running", "requests_waiting", "kv_cache_usage_ratio", "preemptions_total"):
        assert not seen.has(signal)
        assert seen.says(signal).status is Status.NOT_OBSERVABLE


def test_12_cache_hits_are_no_computed_requests(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("08_cache"))
    count, total = seen.histogram("request_inference_time_seconds")
    assert total / count == pytest.approx(0.055590, abs=1e-6)
    assert seen.get("requests_total", outcome="success") == 6


def test_13_nan_is_dropped(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("11_nan"))
    assert all(value == value for value in seen.block.values)
    assert seen.histogram("e2e_request_latency_seconds") == (20, pytest.approx(0.885309))


def test_14_a_crashed_backend_shows_its_failures(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton", {"v2": V2, "ready": b""}), case("12_crashed_backend"))
    assert seen.adapter.facts.ready is True
    assert seen.get("requests_total", outcome="error") == 4


def test_14_draining_is_metrics_without_an_api(adapter: Any, scrape: Any) -> None:
    known = adapter("triton", {"health": b"", "ready": b"", "v2": V2})
    assert known.facts.live is True
    known.learn("health", Answer(error="refused"))
    seen = scrape(known, case("14_draining"))
    assert (known.facts.live, known.facts.ready) == (False, False)
    assert not seen.has("requests_waiting")
    assert any("drains" in finding for finding in known.findings())


def test_14_a_restricted_api_says_nothing_of_readiness(adapter: Any) -> None:
    assert adapter("triton", {"v2": V2, "ready": Answer(403, b"")}).facts.ready is None
    assert adapter("triton", {"v2": V2, "ready": Answer(400, b"")}).facts.ready is False


def test_14_the_metrics_port_says_200_to_everything_and_is_not_believed(adapter: Any) -> None:
    known = adapter("triton", dict.fromkeys(("version", "health", "ready", "index"), b""))
    assert (known.facts.live, known.facts.ready, known.facts.version) == (None, None, "")
    assert any("api_url" in finding and "8000" in finding for finding in known.findings())
    never_seen = adapter("triton", {"health": Answer(error="refused"), "ready": Answer(error="refused")})
    assert (never_seen.facts.live, never_seen.facts.ready) == (None, None)


def test_15_namespaces_are_told_apart_and_tags_merged(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), case("15_namespace_and_tags"))
    assert seen.get("requests_total", model_namespace="/models/a", outcome="success") == 20
    assert seen.get("requests_total", model_namespace="/models/b", outcome="success") == 5
    names = {name for one in seen.block.layout.series for name, _ in one.labels}
    assert "namespace" not in names and "_team" not in names


def test_16_queue_and_compute_are_sums_of_all_three_parts(adapter: Any, scrape: Any) -> None:
    seen = scrape(adapter("triton"), (CAPTURES / "load_09_versions_ensemble.prom").read_bytes())
    slow = {"model_name": "slow"}
    assert seen.histogram("request_queue_time_seconds", **slow) == (16, pytest.approx(9.511671))
    assert seen.histogram("request_inference_time_seconds", **slow) == (
        16,
        pytest.approx((882 + 6448750 + 2556) / 1e6),
    )


def test_slots_come_from_the_configs(adapter: Any, scrape: Any) -> None:
    group = [{"kind": "KIND_CPU", "count": 2, "gpus": []}]
    known = {
        "config/slow": config("slow", max_batch_size=4, instance_group=group, dynamic_batching={}),
        "config/fast": config("fast", max_batch_size=4, instance_group=group),
    }
    seen = scrape(adapter("triton", known), (CAPTURES / "load_00_idle.prom").read_bytes())
    assert seen.get("request_slots", model_name="slow") == 8
    assert seen.get("request_slots", model_name="fast") == 2
    gpus = [{"kind": "KIND_GPU", "count": 1, "gpus": [0, 1, 2]}]
    seen = scrape(
        adapter("triton", {"config/slow": config("slow", instance_group=gpus)}),
        (CAPTURES / "load_00_idle.prom").read_bytes(),
    )
    assert seen.get("request_slots", model_name="slow") == 3


def test_first_response_is_the_whole_answer_of_a_model_that_does_not_stream(
    adapter: Any, scrape: Any
) -> None:
    known = {
        "config/resnet": config("resnet"),
        "config/llama": config("llama", model_transaction_policy={"decoupled": True}),
    }
    seen = scrape(adapter("triton", known), (CAPTURES / "r26_two_gpus.prom").read_bytes())
    assert seen.bounds("e2e_request_latency_seconds", model_name="resnet")[:4] == (0.005, 0.01, 0.05, 0.1)
    assert seen.histogram("e2e_request_latency_seconds", model_name="resnet") == (120, pytest.approx(0.64))
    assert not seen.has("time_to_first_token_seconds", model_name="resnet")
    assert seen.bounds("time_to_first_token_seconds", model_name="llama")[:4] == (0.1, 0.5, 2.0, 5.0)
    assert not seen.has("e2e_request_latency_seconds", model_name="llama")


def test_the_index_says_which_models_are_ready(adapter: Any, scrape: Any) -> None:
    index = (PAGES / "endpoints" / "C_repository_index.json").read_bytes()
    known = adapter("triton", {"index": index, "version": (PAGES / "endpoints" / "C_v2.json").read_bytes()})
    assert [model.name for model in known.facts.models] == ["fast"]
    assert known.facts.version == "2.51.0"
    assert any("broken" in finding and "weights are missing" in finding for finding in known.findings())
    assert [one.path for one in known.endpoints if one.name.startswith("config/")] == [
        "/v2/models/fast/config"
    ]
    loading = json.loads((PAGES / "endpoints" / "D_index_while_loading.json").read_bytes())
    seen = scrape(
        adapter("triton", {"index": loading}),
        (CAPTURES / "startup_D_metrics_while_loading.prom").read_bytes(),
    )
    assert not seen.has("requests_waiting", model_name="coldstart")
    assert seen.get("requests_waiting", model_name="fast") == 0


def test_a_model_name_is_quoted_in_the_path(adapter: Any) -> None:
    known = adapter("triton", {"index": [{"name": "a/../b?", "version": "1", "state": "READY"}]})
    assert known.endpoints[-1].path == "/v2/models/a%2F..%2Fb%3F/config"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"null", b"[1, {}]", b'{"name": 3}', b"\xff"])
def test_endpoints_that_say_nonsense_are_not_believed(adapter: Any, scrape: Any, body: bytes) -> None:
    known = adapter("triton", dict.fromkeys(("version", "index", "config/fast"), body))
    assert scrape(known, case("04_gpu_uuid_split")).get("requests_waiting") >= 0 or known.facts.models == ()
    assert known.facts.version == ""


def test_what_is_learnt_later_binds_the_same_page_anew() -> None:
    line = TargetPipeline(Settings(runtime="triton"), Registry())
    page = {"metrics": Answer(200, case("07_ensemble"))}
    before = line.feed(page, time=0.0, mono=0.0)
    line.learn("config/ens", Answer(200, json.dumps(ensemble("ens", "fast", "flaky")).encode()))
    after = line.feed(page, time=2.0, mono=2.0)
    assert sum(before.data.values[s.start] for s in before.data.layout.find("requests_total")) == 16
    assert sum(after.data.values[s.start] for s in after.data.layout.find("requests_total")) == 5
    assert after.epoch == 0


TEXT = {
    "input": [{"name": "text_input", "data_type": "TYPE_STRING"}],
    "output": [{"name": "text_output", "data_type": "TYPE_STRING"}],
}
STREAMS = {"model_transaction_policy": {"decoupled": True}}


def learnt(adapter: Any, *configs: dict[str, Any]) -> Any:
    return adapter("triton", {f"config/{one['name']}": one for one in configs})


def test_models_that_can_be_asked_for_a_text_are_known_by_their_configs(adapter: Any) -> None:
    llm, classify = config("llm", **TEXT, **STREAMS), config("classify", **TEXT)
    no_text = config("tensorrt_llm", input=[{"name": "input_ids", "data_type": "TYPE_INT32"}], **STREAMS)
    numbers = config("numbers", input=[{"name": "text_input", "data_type": "TYPE_FP32"}], **STREAMS)
    assert learnt(adapter, llm, classify, no_text, numbers, config("bare", **STREAMS)).generating == ("llm",)
    assert learnt(adapter, classify, no_text, config("odd", input=7, output=[1], **STREAMS)).generating == ()
    around = ensemble("around", "pre", "tensorrt_llm") | TEXT
    tokens = ensemble("tokens", "tensorrt_llm")
    assert learnt(adapter, llm, no_text, around, tokens).generating == ("around",), "it asks its steps itself"
    assert learnt(adapter, llm, no_text, tokens).generating == ("llm",)


def test_the_llm_api_model_is_asked_by_its_own_names(adapter: Any) -> None:
    own = ("text_input", "streaming", "sampling_param_max_tokens", "sampling_param_top_p")
    inputs = [{"name": name, "data_type": "TYPE_STRING"} for name in own]
    known = learnt(adapter, config("tensorrt_llm", input=inputs), config("vllm", **TEXT))
    assert known.names("tensorrt_llm") == {"stream": "streaming", "max_tokens": "sampling_param_max_tokens"}
    assert known.names("vllm") == known.names("nobody") == {}
