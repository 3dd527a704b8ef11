"""What bites people who scrape vLLM, each case by its number in docs/runtimes/vllm.md."""

from __future__ import annotations

import json
import re
from math import isnan, nan

import pytest

from sidecar.pipeline import TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.snapshot import Provenance, Snapshot
from tests.runtimes.vllm.captured import (
    PAGES,
    captured,
    count_and_sum,
    covered,
    numbers,
    page,
    pipeline,
    read,
    replay,
)


def says(snapshot: Snapshot, signal: str) -> Provenance:
    return next(one for one in snapshot.provenance if one.signal == signal)


def changed(body: bytes, **lines: str) -> bytes:
    """A page with other values: sample name → value, for every series of it."""
    for name, value in lines.items():
        pattern = rb"(?m)^(vllm:%s\{.*\}) \S+$" % name.encode()
        body, count = re.subn(pattern, rb"\1 " + value.encode(), body)
        assert count, name
    return body


def models(*rows: dict[str, object]) -> Answer:
    return Answer(200, json.dumps({"object": "list", "data": list(rows)}).encode())


# 1, 18: test_dialects. 3, 5, 7, 8: test_series.


@pytest.mark.parametrize("name", ["05_s3_asc2_idle", "09_s5_dp2_idle"])
def test_02_gauges_without_a_sample_before_the_first_step_are_an_assumed_zero(name: str) -> None:
    body = page(name)
    assert b"# TYPE vllm:num_requests_running gauge" in body
    assert b"\nvllm:num_requests_running{" not in body
    snapshot = captured(name)
    for signal in (
        "requests_running",
        "requests_waiting",
        "kv_cache_usage_ratio",
        "kv_cache_usage_max_ratio",
    ):
        assert snapshot.data.get(signal, model_name="tiny") == 0
        assert says(snapshot, signal).method.value == "assumed"
    assert snapshot.data.get("requests_total", outcome="cancelled") == 0


def test_02_but_not_while_the_runtime_is_unhealthy() -> None:
    line = pipeline()
    line.learn("health", Answer(error="timeout"))
    (snapshot,) = replay(line, [page("09_s5_dp2_idle")])
    assert isnan(snapshot.data.get("requests_running"))


def test_02_and_not_once_anything_has_finished() -> None:
    body = re.sub(rb"(?m)^(vllm:prompt_tokens_total\{.*\}) \S+$", rb"\1 7.0", page("09_s5_dp2_idle"))
    assert isnan(read(body).data.get("requests_running"))


def test_03_an_engine_before_0_8_5_is_not_judged() -> None:
    """V0 observed TTFT twice with chunked prefill: the difference says nothing."""
    body = changed(page("v0.6.6"), time_to_first_token_seconds_count="80.0")
    assert says(read(body), "requests_total:cancelled").status.value == "not_observable"


def test_03_an_abort_that_the_page_counts_is_counted_once() -> None:
    body = page("19_eager_small")
    for aborted in (
        b'finished_reason="abort",model_name="tiny"} 0.0',
        b'finished_reason="stop",model_name="tiny"} 0.0',
    ):
        assert aborted in body
    body = body.replace(
        b'finished_reason="abort",model_name="tiny"} 0.0', b'finished_reason="abort",model_name="tiny"} 2.0'
    )
    body = changed(body, time_to_first_token_seconds_count="8.0")
    data = read(body).data
    assert data.get("requests_total", outcome="cancelled") == 2
    assert data.get("requests_total", outcome="success") == 6


def test_04_rejections_answered_200_are_rejections_not_errors() -> None:
    """By eye: 388 refused, 384 of them counted as 5xx."""
    snapshot = captured("03_s2_after_preempt")
    assert snapshot.data.get("requests_total", outcome="rejected") == 388
    assert snapshot.data.get("requests_total", outcome="error") == 0
    assert snapshot.data.get("requests_total", outcome="success") == 109


def test_04_a_failure_counts_once_though_the_page_counts_it_twice() -> None:
    body = page("03_s2_after_preempt").replace(b'status="5xx"} 384.0', b'status="5xx"} 391.0')
    body = re.sub(rb'(?m)^(vllm:request_success_total\{.*"error".*\}) 0.0$', rb"\1 2.0", body)
    assert read(body).data.get("requests_total", outcome="error") == 3
    assert says(read(body), "requests_total:error").method.value == "estimated"


def test_09_old_and_new_name_at_once_are_one_signal() -> None:
    """The new one counts; they are never added up."""
    both = changed(page("v0.9.2"), kv_cache_usage_perc="0.4", gpu_cache_usage_perc="0.9")
    assert read(both).data.get("kv_cache_usage_ratio") == 0.4
    assert says(read(both), "kv_cache_usage_ratio").source == "vllm:kv_cache_usage_perc"
    data = captured("v0.11.0").data  # by eye: the old name says 1.2850893038653495
    assert count_and_sum(data, "inter_token_latency_seconds") == (40, 1.4076096379572678)


def test_09_a_rename_between_two_scrapes_is_no_restart() -> None:
    """The runtime was upgraded under the same counts; what matters is that no count falls."""
    line = pipeline()
    old = changed(page("v0.9.0.1"), prompt_tokens_total="5200.0")
    seen = replay(line, [old, changed(page("v0.9.2"), prompt_tokens_total="5300.0")])
    assert [one.data.get("kv_cache_usage_ratio") for one in seen] == [0.42, 0.42]
    assert seen[1].epoch == 0


@pytest.mark.parametrize(
    ("version", "unit"), [("0.8.0", "blocks up to 0.8.x"), ("0.9.0.1", "in tokens"), ("", "blocks")]
)
def test_10_the_unit_of_the_old_prefix_cache_counters(version: str, unit: str) -> None:
    name = "v0.8.0" if version == "0.8.0" else "v0.9.0.1"
    note = says(read(page(name), version), "prefix_cache_queries_total").note
    assert unit in note
    assert note == "in tokens" or version != "0.9.0.1"


def test_10_the_hit_rate_of_minus_one_is_not_read() -> None:
    body = changed(page("v0.6.6"), gpu_prefix_cache_hit_rate="-1.0")
    snapshot = read(body, "0.6.6")
    assert -1.0 not in {value for values in numbers(snapshot.data).values() for value in values}


def test_11_queries_and_hits_are_counters() -> None:
    """Their ratio is made in the query, and is empty when nothing was looked up."""
    data = captured("01_idle_first").data
    assert (data.get("prefix_cache_queries_total"), data.get("prefix_cache_hits_total")) == (0, 0)


def test_12_the_gap_between_tokens_is_not_the_time_per_token() -> None:
    snapshot = captured("v0.9.2")
    assert says(snapshot, "inter_token_latency_seconds").source == "vllm:time_per_output_token_seconds"
    assert says(snapshot, "time_per_output_token_seconds").status.value == "not_exposed"


def test_12_speculation_is_said_beside_the_gaps() -> None:
    assert "several tokens" in says(captured("06_s3_asc2_after"), "inter_token_latency_seconds").note
    assert "several tokens" not in says(captured("ts_load_015"), "inter_token_latency_seconds").note


LORA = b'vllm:lora_requests_info{max_lora="2",running_lora_adapters="%s",waiting_lora_adapters="%s"} %s'


def adapters(snapshot: Snapshot, signal: str = "adapter_running") -> dict[str, float]:
    return {
        one.label("adapter"): snapshot.data.values[one.start]
        for one in snapshot.data.layout.by_signal.get(signal, ())
    }


def test_13_the_newest_series_is_the_present_state() -> None:
    """By eye: the newest of five series names nobody; without /v1/models a comma parts two names."""
    assert adapters(captured("08_s4_lora_after")) == {"sql": 0, "chat": 0, "v2": 0}


def lora_line(*names: str) -> TargetPipeline:
    line = pipeline()
    line.learn("models", models({"id": "tiny"}, *({"id": name, "parent": "tiny"} for name in names)))
    return line


def test_13_a_name_may_hold_a_comma() -> None:
    """Order of names varies; /v1/models knows the names."""
    body = page("08_s4_lora_after")
    newer = LORA % (b"chat,v2,sql", b"sql", b"1.8e+09") + b"\n"
    line = lora_line("sql", "chat,v2")
    (snapshot,) = replay(line, [body + newer])
    assert adapters(snapshot) == {"sql": 1, "chat,v2": 1}
    assert adapters(snapshot, "adapter_waiting") == {"sql": 1, "chat,v2": 0}


def test_13_adapters_are_bounded_and_the_gauge_is_never_forwarded() -> None:
    names = [b"adapter-%d" % i for i in range(500)]
    body = page("08_s4_lora_after") + b"".join(LORA % (name, b"", b"1.8e+09") + b"\n" for name in names)
    snapshot = read(body)
    assert len(adapters(snapshot)) == 64
    assert not any(value > 1 for value in adapters(snapshot).values())


def test_16_a_sum_that_falls_is_no_restart() -> None:
    """Negative queue times (vllm#56238): the counts are kept."""
    body = page("ts_load_015")
    line = pipeline()
    before, after = replay(
        line,
        [
            changed(body, request_queue_time_seconds_sum="4.0"),
            changed(body, request_queue_time_seconds_sum="-44.0"),
        ],
    )
    assert after.life.get("target_restarts_total") == 0
    assert count_and_sum(before.data, "request_queue_time_seconds") == (103, 4.0)
    assert count_and_sum(after.data, "request_queue_time_seconds")[0] == 103


def test_20_created_series_are_noise() -> None:
    assert page("01_idle_first").count(b"_created gauge") > 30
    for name in ("01_idle_first", "03_s2_after_preempt", "rust_frontend", "v0.24.0"):
        line = pipeline()
        replay(line, [page(name)])
        assert line.binding is not None
        assert line.binding.unmapped == ()


def test_20_no_family_of_any_page_is_unheard_of() -> None:
    for file in sorted(PAGES.glob("*.txt")):
        line = pipeline()
        replay(line, [file.read_bytes()])
        assert line.binding is not None
        assert line.binding.unmapped == (), file.stem
        assert line.bad_lines == 0
        assert line.dropped == 0


def test_21_odd_model_names_come_through() -> None:
    snapshot = captured("03_s2_after_preempt")
    assert {one.label("model_name") for one in snapshot.data.layout.series} == {'tiny "q" \\b näme\nx'}


def test_21_served_models_are_listed_adapters_are_not() -> None:
    line = pipeline()
    line.learn(
        "models",
        models(
            {"id": "tiny", "root": "model/tiny-llama", "parent": None, "max_model_len": 1024},
            {"id": "alias2", "root": "model/tiny-llama", "parent": None, "max_model_len": 1024},
            {"id": "sql", "root": "/adapters/sql", "parent": "tiny"},
        ),
    )
    (snapshot,) = replay(line, [page("01_idle_first")])
    told = [dict(one.labels) for one in snapshot.life.layout.find("model_info")]
    assert [(one["model_name"], one["model_root"], one["max_context_tokens"]) for one in told] == [
        ("tiny", "model/tiny-llama", "1024"),
        ("alias2", "model/tiny-llama", "1024"),
    ]


def test_22_stats_switched_off_are_no_zeros() -> None:
    snapshot = captured("12_s6_disable_log_stats")
    assert snapshot.up
    assert covered(snapshot) == {}
    assert numbers(snapshot.data) == {}
    assert says(snapshot, "requests_running").status.value == "needs_flag"
    assert "--disable-log-stats" in says(snapshot, "requests_running").note
    assert snapshot.life.get("target_up") == 1
    assert isnan(snapshot.life.get("target_wedged"))


@pytest.mark.parametrize(
    "body", [b'{"version":3}', b"[]", b"null", b"\xff", b'{"data":{"id":1}}', b'{"data":[1,null]}']
)
def test_answers_that_nobody_expects(body: bytes) -> None:
    line = pipeline()
    for name in ("health", "version", "models"):
        line.learn(name, Answer(200, body))
    (snapshot,) = replay(line, [page("01_idle_first")])
    assert snapshot.up
    assert line.facts.version == ""


@pytest.mark.parametrize(
    ("answer", "live", "ready"),
    [
        (Answer(200), 1, 1),
        (Answer(503), 1, 0),
        (Answer(error="refused"), 0, 0),
        (Answer(error="timeout"), 0, 0),
        (Answer(404), nan, nan),
    ],
)
def test_health(answer: Answer, live: float, ready: float) -> None:
    line = pipeline()
    line.learn("health", answer)
    (snapshot,) = replay(line, [page("01_idle_first")])
    assert snapshot.life.get("target_live") == pytest.approx(live, nan_ok=True)
    assert snapshot.life.get("target_ready") == pytest.approx(ready, nan_ok=True)


def test_version_and_start_time() -> None:
    (snapshot,) = replay(pipeline("0.32.0+cpu"), [page("01_idle_first")])
    (runs,) = snapshot.life.layout.find("runtime_info")
    assert runs.label("engine_version") == "0.32.0+cpu"
    assert snapshot.life.get("target_start_timestamp_seconds") == 1.79603295717e9
