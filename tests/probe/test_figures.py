"""What is counted of probes, and for how long it is told."""

from __future__ import annotations

from math import inf

import pytest

from sidecar.probe.figures import BUNDLED, FIRST_BOUNDS, GAP_BOUNDS, Figures
from sidecar.probe.stream import Outcome
from sidecar.schema import PROBE, PROBE_RESULTS, Method, Scope, Status
from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.vllm_page import VllmPage
from sidecar.snapshot import Block, is_absent

GOOD = Outcome(first=0.05, gaps=(0.01, 0.012, 0.3), generated=4, prompt=12)


def block(figures: Figures, now: float = 0.0) -> Block:
    found = figures.block("vllm", now)
    assert found is not None
    return found


def histogram(of: Block, signal: str) -> tuple[float, float]:
    (series,) = of.layout.by_signal[signal]
    return of.values[series.count_index], of.values[series.sum_index]


def test_nothing_is_told_before_the_first_probe() -> None:
    assert Figures("t").block("vllm", 0.0) is None


def test_a_success() -> None:
    figures = Figures("t")
    figures.record("m", GOOD, "POST /v1/completions", stale_at=10.0)
    told = block(figures)
    assert told.get("probe_success", model_name="m", target="t", runtime="vllm") == 1
    assert histogram(told, "probe_time_to_first_token_seconds") == (1, 0.05)
    assert histogram(told, "probe_inter_token_latency_seconds") == (3, pytest.approx(0.322))
    assert told.get("probe_requests_total", result="ok") == 1
    assert told.get("probe_generation_tokens_total") == 4
    assert told.get("probe_prompt_tokens_total") == 12
    assert {one.signal.name for one in told.layout.series} - {"signal_info"} == {one.name for one in PROBE}


def test_a_failure_is_counted_by_its_reason_and_has_no_latency() -> None:
    figures = Figures("t")
    figures.record("m", Outcome("timeout", "slow", generated=2), "POST /x", stale_at=10.0)
    told = block(figures)
    assert told.get("probe_success") == 0
    assert histogram(told, "probe_time_to_first_token_seconds") == (0, 0)
    counted = {
        one.label("result"): told.values[one.start] for one in told.layout.by_signal["probe_requests_total"]
    }
    assert tuple(counted) == PROBE_RESULTS
    assert [result for result, count in counted.items() if count] == ["timeout"]
    assert told.get("probe_generation_tokens_total") == 2
    assert is_absent(told.get("probe_prompt_tokens_total")), "nobody told them: absent, not 0"


def test_an_old_success_is_told_no_more_and_counts_stay() -> None:
    figures = Figures("t")
    figures.record("m", GOOD, "POST /x", stale_at=10.0)
    assert block(figures, 9.9).get("probe_success") == 1
    assert block(figures, 9.8) is block(figures, 9.9), "nothing new: outputs have nothing to render"
    late = block(figures, 10.0)
    assert is_absent(late.get("probe_success"))
    assert late.get("probe_requests_total", result="ok") == 1
    assert late.layout is block(figures, 9.9).layout


def test_counts_add_up_by_model() -> None:
    figures = Figures("t")
    for model in ("a", "b", "a"):
        figures.record(model, GOOD, "POST /x", stale_at=1.0)
    told = block(figures)
    assert told.get("probe_requests_total", model_name="a", result="ok") == 2
    assert told.get("probe_prompt_tokens_total", model_name="a") == 24
    assert told.get("probe_requests_total", model_name="b", result="ok") == 1


def test_signal_info_says_that_a_client_has_timed_it() -> None:
    figures = Figures("t")
    figures.record("m", Outcome(first=0.1, generated=4), "POST /v1/completions", stale_at=1.0)
    told = block(figures)
    assert _ok(told) == {"probe_success", "probe_time_to_first_token_seconds"}
    gaps = next(one for one in figures.provenance if one.signal == "probe_inter_token_latency_seconds")
    assert (gaps.status, gaps.note) == (Status.NOT_OBSERVABLE, BUNDLED)
    figures.record("m", GOOD, "POST /v1/completions", stale_at=1.0)
    assert "probe_inter_token_latency_seconds" in _ok(block(figures))
    assert {(one.method, one.scope) for one in figures.provenance} == {(Method.PROBE, Scope.CLIENT)}


def _ok(told: Block) -> set[str]:
    """Signals that `signal_info` says are there, by a client's clock."""
    known = {"method": "probe", "scope": "client", "source": "POST /v1/completions", "status": "ok"}
    return {one.label("signal") for one in told.layout.find("signal_info", **known)}


@pytest.mark.parametrize(
    ("native", "ours"),
    [("vllm:time_to_first_token_seconds", FIRST_BOUNDS), ("vllm:inter_token_latency_seconds", GAP_BOUNDS)],
)
def test_thresholds_that_are_exact_in_vllm_are_exact_here(native: str, ours: tuple[float, ...]) -> None:
    page = VllmPage("0.32.0").render(Replica(ReplicaConfig())).decode()
    theirs = {
        float(line.split('le="')[1].split('"')[0])
        for line in page.splitlines()
        if line.startswith(native + "_bucket")
    }
    assert theirs and theirs <= {*ours, inf}
    assert list(ours) == sorted(set(ours))
