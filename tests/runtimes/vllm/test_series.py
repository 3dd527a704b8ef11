"""Captured seconds of a real vLLM through the whole line: load, preemption, aborts, hang, kill, restart."""

from __future__ import annotations

from math import isnan

import pytest

from sidecar.runtimes.adapter import Answer
from sidecar.snapshot import Snapshot
from tests.runtimes.vllm.captured import count_and_sum, page, pipeline, replay, series, step

HEALTHY = Answer(200, b"")


def over_time(snapshots: list[Snapshot], signal: str, **labels: str) -> list[float]:
    return [snapshot.data.get(signal, **labels) for snapshot in snapshots]


def test_a_queue_before_four_slots() -> None:
    """Twelve wait from second 4 to 26, then the queue drains. By eye: tokens 1064 → 89064, 227 finished."""
    seen = replay(pipeline(), series("load"))
    assert over_time(seen, "requests_running") == [0] * 4 + [4] * 25 + [0]
    assert over_time(seen, "requests_waiting") == [0] * 4 + [12] * 23 + [8, 0, 0]
    tokens = over_time(seen, "generation_tokens_total")
    assert (tokens[0], tokens[15], tokens[-1]) == (1064, 41025, 89064)
    assert over_time(seen, "requests_total", outcome="success")[-1] == 227
    assert count_and_sum(seen[-1].data, "time_to_first_token_seconds")[0] == 227
    assert over_time(seen, "requests_total", outcome="cancelled") == [0] * 30
    assert {snapshot.epoch for snapshot in seen} == {0}
    assert seen[-1].life.get("target_restarts_total") == 0
    assert seen[15].life.get("target_wedged") == 0
    assert seen[15].life.get("progress_age_seconds") == 0
    assert isnan(seen[-1].life.get("progress_age_seconds"))  # idle


def test_preempted_requests_are_not_cancelled_ones() -> None:
    """They wait again after their first token; nobody cancelled in these 22 s."""
    seen = replay(pipeline(), series("preempt"))
    assert over_time(seen, "preemptions_total")[0] == 11
    assert over_time(seen, "preemptions_total")[-1] == 192
    assert max(over_time(seen, "kv_cache_usage_max_ratio")) == 1.0
    assert over_time(seen, "requests_waiting")[12] == 8
    assert over_time(seen, "requests_total", outcome="cancelled") == [0] * 22
    assert seen[-1].life.get("target_restarts_total") == 0


def test_five_aborts_are_five_cancelled() -> None:
    """Three streams, one plain request, one that had just begun: made by the client that captured the pages.

    The page calls none of them an abort; one dropped while it waited (the last pair) left no trace at all.
    """
    line = pipeline()
    seen = replay(line, series("load"))
    assert seen[-1].data.get("requests_total", outcome="cancelled") == 0
    steps = [
        ("abort_nonstream_before", 3),
        ("abort_nonstream_after", 4),
        ("abort_waiting_after", 5),
        ("one_token_after", 5),
        ("prefix_cold_after", 5),
        ("prefix_warm_after", 5),
        ("chat_after", 5),
        ("abw_after", 5),
    ]
    later = replay(line, [step(name) for name, _ in steps], start=100)
    assert over_time(later, "requests_total", outcome="cancelled") == [count for _, count in steps]
    assert over_time(later, "requests_total", outcome="success")[-1] == 244
    assert later[-1].epoch == 0


@pytest.mark.parametrize(
    "name", ["err_too_long", "err_bad_model", "err_bad_json", "err_bad_param", "err_404_path", "err_500_like"]
)
def test_a_clients_mistake_is_no_error_of_the_server(name: str) -> None:
    """All of them are answered 4xx."""
    before, after = replay(pipeline(), [step(f"{name}_before"), step(f"{name}_after")])
    for outcome in ("success", "error", "cancelled", "rejected"):
        assert before.data.get("requests_total", outcome=outcome) == after.data.get(
            "requests_total", outcome=outcome
        )


def test_one_token_is_a_zero_in_time_per_output_token() -> None:
    before, after = replay(pipeline(), [step("one_token_before"), step("one_token_after")])
    counts = [count_and_sum(one.data, "time_per_output_token_seconds") for one in (before, after)]
    assert counts[1] == (counts[0][0] + 1, counts[0][1])
    gaps = [count_and_sum(one.data, "inter_token_latency_seconds") for one in (before, after)]
    assert gaps[0] == gaps[1]


def test_a_warm_prefix_counts_blocks_of_128() -> None:
    """600 characters shared, 512 of them hit."""
    before, after = replay(pipeline(), [step("prefix_warm_before"), step("prefix_warm_after")])
    for signal in ("prefix_cache_hits_total", "cached_prompt_tokens_total"):
        assert after.data.get(signal) - before.data.get(signal) == 512
    assert after.data.get("prompt_tokens_total") - before.data.get("prompt_tokens_total") == 610


def test_a_hung_engine_is_wedged_after_a_minute_whatever_health_says() -> None:
    line = pipeline(wedged_after=60.0)
    line.learn("health", HEALTHY)
    bodies = series("hung")
    seen = []
    for second in range(0, 70, 2):
        body = bodies[min(second // 30, 2)]
        seen += replay(line, [body], start=second)
    assert [one.life.get("progress_age_seconds") for one in seen] == [float(age) for age in range(0, 70, 2)]
    wedged = [one.life.get("target_wedged") for one in seen]
    assert wedged == [0] * 31 + [1] * 4
    assert all(one.up and one.life.get("target_ready") == 1 for one in seen)
    assert over_time(seen, "requests_running")[-1] == 2


def test_requests_that_only_wait_are_wedged_too() -> None:
    """running 0, waiting > 0, an empty KV cache for long (vllm-metal#479)."""
    body = page("13_s7_hung_1").replace(
        b'num_requests_running{engine="0",model_name="tiny"} 2.0',
        b'num_requests_running{engine="0",model_name="tiny"} 0.0',
    )
    line = pipeline(wedged_after=60.0)
    replay(line, [body])
    (later,) = replay(line, [body], start=61)
    assert later.data.get("requests_running") == 0
    assert later.life.get("target_wedged") == 1


def test_a_killed_engine_ages_then_vanishes() -> None:
    """Seconds of stale pages with status 200, then nobody listens: signals vanish past their age, life stays."""
    line = pipeline(staleness=10.0)
    seen = replay(line, series("engine_kill"))
    assert over_time(seen, "requests_running") == [4] + [2] * 6
    assert [one.life.get("progress_age_seconds") for one in seen] == [0, 0, 1, 2, 3, 4, 5]
    refused = {"metrics": Answer(error="refused", detail="connection refused")}
    gone = [line.feed(refused, time=1.8e9 + second, mono=second) for second in range(7, 30)]
    assert not any(one.up for one in gone)
    fresh = [not isnan(one.data.get("requests_running")) for one in gone]
    assert fresh == [True] * 10 + [False] * 13  # the last good page is of second 6
    assert gone[-1].provenance == ()
    assert gone[-1].life.get("target_up") == 0
    assert gone[-1].life.get("target_scrapes_total", result="refused") == 23
    assert gone[-1].life.get("target_last_success_timestamp_seconds") == 1.8e9 + 6


def test_a_restart_is_one_restart() -> None:
    """Every counter falls and the start time moves: once. What was cancelled before is not carried over."""
    line = pipeline()
    (before,) = replay(line, [step("chat_after")])
    assert before.data.get("requests_total", outcome="cancelled") == 5
    anew = page("19_eager_small")
    after = replay(line, [anew, anew, anew], start=60)
    assert [one.life.get("target_restarts_total") for one in after] == [1, 1, 1]
    assert [one.epoch for one in after] == [1, 1, 1]
    assert over_time(after, "requests_total", outcome="cancelled") == [0, 0, 0]
    assert over_time(after, "requests_total", outcome="success") == [6, 6, 6]


def test_only_the_start_time_moves() -> None:
    """A restart before the first request: no counter can fall."""
    line = pipeline()
    idle = page("01_idle_first")
    later = idle.replace(
        b"process_start_time_seconds 1.79603295717e+09", b"process_start_time_seconds 1.79603305717e+09"
    )
    assert later != idle
    seen = replay(line, [idle, idle, later, later])
    assert [one.life.get("target_restarts_total") for one in seen] == [0, 0, 1, 1]


def test_counters_of_a_kept_directory_go_on() -> None:
    """PROMETHEUS_MULTIPROC_DIR outlives the process: no counter falls, buckets of both runs are merged."""
    line = pipeline()
    before, after = replay(line, series("restart_mp"))
    assert before.data.get("generation_tokens_total") == after.data.get("generation_tokens_total") == 500
    assert after.life.get("target_restarts_total") == 0
    assert after.epoch == 0


def test_a_directory_that_is_gone_is_an_error_of_the_page_only() -> None:
    """Inference works, /health says so; /metrics answers 400 with JSON."""
    line = pipeline(staleness=10.0)
    replay(line, [page("06_s3_asc2_after")])
    line.learn("health", HEALTHY)
    body = b'{"error":{"message":"env PROMETHEUS_MULTIPROC_DIR is not set or not a directory","code":400}}'
    bad = Answer(400, body, error="http_error", detail="HTTP 400")
    seen = [line.feed({"metrics": bad}, time=1.8e9 + second, mono=second) for second in range(1, 14)]
    assert [one.up for one in seen] == [False] * 13
    assert seen[0].data.get("generation_tokens_total") == 16800
    assert isnan(seen[-1].data.get("generation_tokens_total"))
    assert seen[-1].life.get("target_live") == 1


def test_json_with_status_200_is_not_metrics() -> None:
    line = pipeline()
    snapshot = line.feed({"metrics": Answer(200, b'{"detail":"Not Found"}')}, time=1.8e9, mono=0.0)
    assert not snapshot.up
    assert snapshot.life.get("target_scrapes_total", result="not_metrics") == 1
