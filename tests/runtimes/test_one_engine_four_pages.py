"""One engine state, four pages, one answer; what a page can't carry is absent and says so."""

from __future__ import annotations

from math import isnan

import pytest

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Status
from sidecar.simulator.model import EngineConfig
from sidecar.simulator.nim_page import NimPage
from sidecar.simulator.page import Page
from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.traffic import Lengths, Shape, Steps, Traffic
from sidecar.simulator.triton_page import TritonPage
from sidecar.simulator.trtllm_page import TrtLlmPage, TrtLlmRows
from sidecar.simulator.vllm_page import VllmPage
from sidecar.snapshot import Snapshot

MODEL = "sim/llama"
EPOCH = 1.8e9
ENGINE = EngineConfig(kv_blocks=900, max_num_seqs=24, max_model_len=4096)
SHAPE = Shape(Lengths(300, 0.5, high=2000), Lengths(80, 0.5, high=400))
#: Calm, twice what the engine can do, and nothing.
TRAFFIC = Traffic(Steps(((0, 3.0), (20, 30.0), (50, 0.0))), SHAPE, seed=5, until=50)

PAGES: dict[str, tuple[str, type[Page] | None]] = {
    "vllm": ("vllm", VllmPage),
    "triton": ("triton", TritonPage),
    "tensorrt_llm": ("tensorrt_llm", TrtLlmPage),
    "rows": ("tensorrt_llm", TrtLlmRows),
    "nim": ("nim", NimPage),
}


class Watched:
    """One replica seen through every page, each by a line of its own."""

    def __init__(self, traffic: Traffic = TRAFFIC) -> None:
        self.replica = Replica(ReplicaConfig(model_name=MODEL, engine=ENGINE), epoch=EPOCH)
        self.simulation = Simulation(self.replica, traffic)
        self.pages = {name: page() for name, (_, page) in PAGES.items() if page is not None}
        self.lines = {
            name: TargetPipeline(Settings(runtime=runtime), Registry())
            for name, (runtime, _) in PAGES.items()
        }
        self.now = 0.0

    def at(self, seconds: float, step: float = 0.5) -> dict[str, Snapshot]:
        """Every page at a moment, after looking at them twice a second on the way there."""
        seen: dict[str, Snapshot] = {}
        while self.now < seconds:
            self.now = min(seconds, self.now + step)
            self.simulation.advance(self.now)
            seen = {
                name: line.feed(
                    {"metrics": Answer(200, self.pages[name].render(self.replica))},
                    time=EPOCH + self.now,
                    mono=self.now,
                )
                for name, line in self.lines.items()
            }
        return seen


Drained = tuple[Watched, dict[str, Snapshot]]


@pytest.fixture(scope="module")
def drained() -> Drained:
    """After everything has ended, and five seconds more."""
    watched = Watched()
    return watched, watched.at(200, step=2.0)


def gauge(snapshot: Snapshot, signal: str) -> float:
    return (
        sum(snapshot.data.values[one.start] for one in snapshot.data.layout.find(signal))
        if list(snapshot.data.layout.find(signal))
        else float("nan")
    )


def histogram(snapshot: Snapshot, signal: str) -> tuple[dict[float, float], float]:
    """Cumulative counts by bound, and the sum."""
    (series,) = snapshot.data.layout.find(signal)
    values = snapshot.data.values
    return dict(zip(series.bounds, values[series.start :], strict=False)), values[series.sum_index]


def status(snapshot: Snapshot, signal: str) -> Status:
    return next(record.status for record in snapshot.provenance if record.signal == signal)


def test_under_overload_running_waiting_and_kv_are_the_same() -> None:
    watched = Watched()
    seen = watched.at(45, step=1.0)
    truth = watched.replica.ranks[0]
    assert truth.running > 10 and truth.waiting > 50, "the engine is to be overloaded"
    for name, snapshot in seen.items():
        assert snapshot.up, (name, snapshot.reasons)
        assert gauge(snapshot, "requests_running") == truth.running, name
        assert gauge(snapshot, "requests_waiting") == truth.waiting, name
        assert gauge(snapshot, "kv_cache_usage_ratio") == pytest.approx(truth.kv_usage), name
        assert snapshot.data.layout.series[0].label("model_name") in (MODEL, ""), name


def test_when_it_idles_all_say_zero_whatever_their_gauges_froze_on(drained: Drained) -> None:
    watched, seen = drained
    assert watched.replica.ranks[0].running == 0
    assert 'request_type="scheduled"} 0' not in watched.pages["triton"].render(watched.replica).decode()
    for name, snapshot in seen.items():
        assert gauge(snapshot, "requests_running") == 0, name
        assert gauge(snapshot, "requests_waiting") == 0, name


def test_tokens_and_ends_add_up_to_the_same(drained: Drained) -> None:
    watched, seen = drained
    truth = watched.replica.ranks[0]
    for name in ("vllm", "triton", "tensorrt_llm", "nim"):
        assert gauge(seen[name], "prompt_tokens_total") == truth.prompt_tokens, name
        assert gauge(seen[name], "generation_tokens_total") == truth.generation_tokens, name
        success = sum(
            seen[name].data.values[one.start]
            for one in seen[name].data.layout.find("requests_total", outcome="success")
        )
        assert success == truth.stopped + truth.length_reached, name
    for signal in ("prompt_tokens_total", "generation_tokens_total"):
        assert isnan(gauge(seen["rows"], signal))
        assert status(seen["rows"], signal) is Status.NEEDS_FLAG


@pytest.mark.parametrize("signal", ["time_to_first_token_seconds", "e2e_request_latency_seconds"])
def test_latency_histograms_agree_at_every_bound_that_two_pages_share(drained: Drained, signal: str) -> None:
    watched, seen = drained
    truth = watched.replica.ranks[0]
    true = truth.time_to_first_token if signal.startswith("time") else truth.end_to_end
    carried = {
        name: histogram(snapshot, signal)
        for name, snapshot in seen.items()
        if list(snapshot.data.layout.find(signal))
    }
    assert set(carried) == (
        {"vllm", "tensorrt_llm", "nim", "triton"}
        if signal.startswith("time")
        else {"vllm", "tensorrt_llm", "nim"}
    )
    for name, (counts, total) in carried.items():
        assert total == pytest.approx(true.total), name
        bounds = [bound for bound in counts if bound != float("inf")]
        assert [counts[bound] for bound in bounds] == true.cumulative(bounds), name
        assert counts[float("inf")] == true.count, name
    for name in PAGES.keys() - carried.keys():
        assert status(seen[name], signal) in (Status.NOT_OBSERVABLE, Status.NEEDS_FLAG), name


def test_what_a_page_cannot_carry_is_absent_and_says_so() -> None:
    seen = Watched().at(30, step=2.0)
    for name, signal in (
        ("triton", "inter_token_latency_seconds"),
        ("tensorrt_llm", "inter_token_latency_seconds"),
        ("nim", "time_per_output_token_seconds"),
        ("nim", "request_queue_time_seconds"),
        ("triton", "preemptions_total"),
        ("rows", "time_to_first_token_seconds"),
    ):
        assert not list(seen[name].data.layout.find(signal)), (name, signal)
        assert status(seen[name], signal) is not Status.OK, (name, signal)
    gaps = {name: histogram(seen[name], "inter_token_latency_seconds") for name in ("vllm", "nim")}
    assert gaps["vllm"][0][0.025] == gaps["nim"][0][0.025]
    assert gaps["vllm"][1] == pytest.approx(gaps["nim"][1])


def test_a_restart_is_one_restart_on_each_page() -> None:
    watched = Watched()
    watched.at(30, step=2.0)
    watched.replica.restart(startup=0.0)
    seen = watched.at(40, step=2.0)
    for name in ("vllm", "tensorrt_llm", "nim", "triton", "rows"):
        assert seen[name].epoch == 1, name


def test_a_hang_is_a_wedge_where_the_page_shows_progress() -> None:
    watched = Watched()
    watched.at(30, step=2.0)
    watched.replica.hang()
    seen = watched.at(100, step=2.0)
    for name in ("vllm", "nim"):
        assert seen[name].life.get("target_wedged") == 1, name
        assert seen[name].life.get("progress_age_seconds") >= 60, name
    # TensorRT-LLM makes no row when it hangs, as when it idles: nothing is claimed.
    for name in ("triton", "tensorrt_llm", "rows"):
        assert seen[name].life.get("target_wedged") != 1, name


def test_several_ranks_are_refused() -> None:
    replica = Replica(ReplicaConfig(ranks=2))
    for page in (TritonPage(), TrtLlmPage(), TrtLlmRows(), NimPage()):
        with pytest.raises(ValueError, match="ranks"):
            page.render(replica)
