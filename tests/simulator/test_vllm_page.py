"""vLLM's page: the same lines as the real one, and numbers that are the engine's truth."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar.simulator.model import EngineConfig
from sidecar.simulator.replica import Replica, ReplicaConfig
from sidecar.simulator.request import FINISHED, Request
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.telemetry import Histogram, Telemetry
from sidecar.simulator.traffic import Shape, Steady, Traffic
from sidecar.simulator.vllm_page import Dialect, VllmPage

PAGES = Path(__file__).parent / "pages"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def _real(name: str) -> str:
    return (PAGES / name).read_text()


def _replica(longest: int = 1024, model: str = "model/tiny-llama", ranks: int = 1) -> Replica:
    engine = EngineConfig(kv_blocks=16383, block_size=128, max_model_len=longest)
    return Replica(ReplicaConfig(model, engine, ranks), epoch=1.796e9)


def _busy(ranks: int = 1) -> tuple[Replica, list[Request]]:
    """A replica in the middle of an overload that preempts, and every request that came to it."""
    config = ReplicaConfig(
        "m", EngineConfig(kv_blocks=600, max_model_len=4000, max_num_seqs=24, max_queued_requests=40), ranks
    )
    shape = Shape(prefixed=0.5, prefix_tokens=200, impatient=0.2, patience=6.0, max_tokens=400)
    simulation = Simulation(Replica(config, epoch=1.796e9), Traffic(Steady(12.0), shape, 8), keep=True)
    simulation.advance(30.0)
    simulation.service.error_rate = 0.2
    simulation.advance(60.0)
    return simulation.service, [*simulation.ended, *simulation.service.requests]


def _prefixes(page: str) -> list[str]:
    """Lines without their values; what differs from machine to machine is taken out."""
    lines = [re.sub(r" \S+$", "", line) for line in page.splitlines() if not line.startswith("#")]
    comments = [line for line in page.splitlines() if line.startswith("#")]
    lines = [re.sub(r'="[^"]*"', "", line) if "_info" in line else line for line in lines]
    return [*lines, *comments]


def _samples(page: str, parse: Callable[[str], object] = parse_text) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in parse(page)  # type: ignore[attr-defined]
        for sample in family.samples
    }


def _find(samples: Samples, name: str, **labels: str) -> float:
    found = [v for (n, pairs), v in samples.items() if n == name and labels.items() <= dict(pairs).items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]


@pytest.mark.parametrize(
    ("version", "capture", "model"),
    [("0.32.0", "vllm_0.32.0_idle.txt", "model/tiny-llama"), ("0.27.1", "vllm_0.27.1_idle.txt", "tiny")],
)
def test_an_idle_page_is_the_real_one_line_for_line(version: str, capture: str, model: str) -> None:
    mine, real = VllmPage(version).render(_replica(model=model)).decode(), _real(capture)
    skip = "vllm:cache_config_info{" if version == "0.27.1" else "\0"
    assert [line for line in _prefixes(mine) if skip not in line] == [
        line for line in _prefixes(real) if skip not in line
    ]


def test_a_loaded_page_has_the_real_ones_lines() -> None:
    real = _real("vllm_0.32.0_loaded.txt")
    replica = _replica()
    replica.submit(Request(10, 5))
    replica.advance(1.0)
    for handler in ("/v1/models", "/kv_event_sources"):
        replica.front.record(handler, "GET", 200, 0.001)
    mine = VllmPage().render(replica).decode()
    assert sorted(_prefixes(mine)) == sorted(_prefixes(real))


def test_multi_process_mode_knows_its_gauges_but_has_no_sample_before_the_first_step() -> None:
    real = _real("vllm_0.32.0_multiprocess_idle.txt")
    page = VllmPage(multiprocess=True)
    replica = _replica(model="tiny")
    mine = page.render(replica).decode()
    assert sorted(_prefixes(mine)) == sorted(line for line in _prefixes(real) if "spec_decode" not in line)
    assert not [name for name, _ in _samples(mine) if name == "vllm:num_requests_waiting"]
    replica.submit(Request(10, 5))
    replica.advance(1.0)
    samples = _samples(page.render(replica).decode())
    assert _find(samples, "vllm:num_requests_waiting") == 0.0
    assert not [name for name, _ in samples if name.startswith(("process_", "python_")) or "_created" in name]


@pytest.mark.parametrize(
    ("version", "definitions"),
    [(path.name.split("_")[1], path.name) for path in sorted(PAGES.glob("vllm_*_V?.txt"))],
)
def test_older_pages_have_the_families_texts_labels_and_bounds_of_their_version(
    version: str, definitions: str
) -> None:
    mine = VllmPage(version).render(_replica(longest=8192, model="acme/tiny-7b")).decode()
    own = [line for line in _prefixes(mine) if "vllm:" in line and "cache_config_info" not in line]
    own = [
        line for line in own if 'finished_reason="repetition"' not in line
    ]  # from 0.17 on; not in the definitions
    real = [line for line in _prefixes(_real(definitions)) if "cache_config_info" not in line]
    assert sorted(own) == sorted(real)
    assert "vllm:cache_config_info{" in mine


def test_the_definitions_are_those_of_six_versions() -> None:
    assert len(list(PAGES.glob("vllm_*_V?.txt"))) == 6


HISTOGRAMS: dict[str, Callable[[Telemetry], Histogram]] = {
    "time_to_first_token_seconds": lambda rank: rank.time_to_first_token,
    "inter_token_latency_seconds": lambda rank: rank.inter_token,
    "request_time_per_output_token_seconds": lambda rank: rank.time_per_output_token,
    "e2e_request_latency_seconds": lambda rank: rank.end_to_end,
    "request_queue_time_seconds": lambda rank: rank.queue,
    "request_prefill_time_seconds": lambda rank: rank.prefill,
    "request_decode_time_seconds": lambda rank: rank.decode,
    "request_inference_time_seconds": lambda rank: rank.inference,
    "request_prompt_tokens": lambda rank: rank.request_prompt_tokens,
    "request_generation_tokens": lambda rank: rank.request_generation_tokens,
    "iteration_tokens_total": lambda rank: rank.step_tokens,
}


@pytest.mark.parametrize("dialect", list(Dialect))
def test_numbers_are_the_engines_truth_in_both_dialects(dialect: Dialect) -> None:
    replica, every = _busy()
    page = VllmPage(dialect=dialect).render(replica).decode()
    samples = _samples(page, parse_openmetrics if dialect is Dialect.RUST else parse_text)
    [rank] = replica.ranks
    done = [request for request in every if request.outcome in FINISHED]
    assert rank.preemptions and rank.errors and rank.cancelled_running and rank.waiting
    assert _find(samples, "vllm:num_requests_running", engine="0", model_name="m") == rank.running
    assert _find(samples, "vllm:num_requests_waiting") == rank.waiting
    assert _find(samples, "vllm:num_requests_waiting_by_reason", reason="capacity") == rank.waiting
    assert _find(samples, "vllm:kv_cache_usage_perc") == rank.kv_used / 600
    assert _find(samples, "vllm:num_preemptions_total") == rank.preemptions
    assert _find(samples, "vllm:prompt_tokens_total") == rank.prompt_tokens
    assert _find(samples, "vllm:generation_tokens_total") == rank.generation_tokens
    assert _find(samples, "vllm:prefix_cache_hits_total") == rank.prefix_hit > 0
    by_source = [
        _find(samples, "vllm:prompt_tokens_by_source_total", source=source)
        for source in ("local_compute", "local_cache_hit")
    ]
    assert sum(by_source) == rank.prompt_tokens
    for reason in ("stop", "length", "error"):
        count = sum(request.outcome == reason for request in done)
        assert _find(samples, "vllm:request_success_total", finished_reason=reason) == count
    assert _find(samples, "vllm:request_generation_tokens_sum") == sum(r.generated for r in done)
    assert _find(samples, "vllm:e2e_request_latency_seconds_sum") == pytest.approx(
        sum(r.end_to_end_seconds for r in done)
    )
    for name, read in HISTOGRAMS.items():
        histogram = read(rank)
        assert _find(samples, f"vllm:{name}_count") == histogram.count > 0
        assert _find(samples, f"vllm:{name}_bucket", le="+Inf") == histogram.count
    e2e = [_find(samples, "vllm:e2e_request_latency_seconds_bucket", le=le) for le in ("1.0", "5.0", "20.0")]
    assert e2e == [sum(r.end_to_end_seconds <= bound for r in done) for bound in (1, 5, 20)]
    http = sum(v for (name, _), v in samples.items() if name == "http_requests_total")
    assert http == sum(request.outcome is not None for request in every)


def test_the_python_page_shows_refusals_and_no_cancellation() -> None:
    replica, every = _busy()
    samples = _samples(VllmPage().render(replica).decode())
    refused = sum(request.outcome == "rejected" for request in every)
    assert _find(samples, "vllm:admission_rejections_total", reason="max_num_queued_reqs") == refused > 0
    assert _find(samples, "vllm:request_success_total", finished_reason="abort") == 0.0
    began = _find(samples, "vllm:time_to_first_token_seconds_count")
    finished = _find(samples, "vllm:request_prompt_tokens_count")
    # what an estimate of the cancelled has to go by: began, not finished, and no longer there
    there = sum(request.first_token_ns >= 0 for request in every if request.outcome is None)
    left = sum(request.first_token_ns >= 0 for request in every if request.outcome == "cancelled")
    assert began - finished - there == left > 0


def test_ranks_have_series_of_their_own() -> None:
    replica, _ = _busy(ranks=2)
    samples = _samples(VllmPage().render(replica).decode())
    for number, rank in enumerate(replica.ranks):
        assert (
            _find(samples, "vllm:generation_tokens_total", engine=str(number)) == rank.generation_tokens > 0
        )
        assert _find(samples, "vllm:cache_config_info", engine=str(number)) == 1.0
    assert _find(samples, "vllm:admission_rejections_total", reason="max_num_queued_reqs") >= 0


def test_a_version_without_the_label_takes_one_rank() -> None:
    with pytest.raises(ValueError, match="no label for the rank"):
        VllmPage("0.8.0").render(_replica(ranks=2))


def test_a_rust_page_is_strict_openmetrics_and_shows_only_what_was_used() -> None:
    idle = VllmPage(dialect=Dialect.RUST).render(_replica()).decode()
    assert idle == "# EOF\n"
    replica, _ = _busy()
    page = VllmPage(dialect=Dialect.RUST)
    text = page.render(replica).decode()
    assert "openmetrics" in page.content_type
    names = {family.name for family in parse_openmetrics(text)}
    assert {"vllm:prompt_tokens", "vllm:inter_token_latency_seconds", "http_requests"} <= names
    assert not {name for name in names if name.startswith("process_") or "cache_config" in name}
    assert 'vllm:num_requests_running{model_name="m",engine="0"} ' in text
    assert re.search(r"^vllm:prompt_tokens_total\{.*\} \d+$", text, re.M)
    assert 'request_prompt_tokens_bucket{le="131072.0",model_name="m",engine="0"}' in text
    assert "_created" not in text


def test_prefix_lookups_changed_their_unit_and_their_scope() -> None:
    replica, _ = _busy()
    [rank] = replica.ranks
    assert rank.prefix_requeried > 0
    shown = {
        version: _find(_samples(VllmPage(version).render(replica).decode()), f"vllm:{name}_queries_total")
        for version, name in (
            ("0.8.0", "gpu_prefix_cache"),
            ("0.9.2", "gpu_prefix_cache"),
            ("0.11.0", "prefix_cache"),
            ("0.11.2", "prefix_cache"),
        )
    }
    both = rank.prefix_queried + rank.prefix_requeried
    assert shown == {"0.8.0": both // 16, "0.9.2": both, "0.11.0": both, "0.11.2": rank.prefix_queried}


def test_v0_shows_rates_and_a_hit_ratio() -> None:
    page, replica = VllmPage("0.6.6"), _replica(longest=8192)
    idle = _samples(page.render(replica).decode())
    assert _find(idle, "vllm:gpu_prefix_cache_hit_rate") == -1.0
    for _ in range(2):
        replica.submit(Request(1000, 100, prefix_key=1, prefix_tokens=999))
        replica.advance(replica.now + 5.0)
    samples = _samples(page.render(replica).decode())
    assert _find(samples, "vllm:avg_prompt_throughput_toks_per_s") == 200.0
    assert _find(samples, "vllm:avg_generation_throughput_toks_per_s") == 20.0
    assert _find(samples, "vllm:gpu_prefix_cache_hit_rate") == 896 / 2000
    replica.restart(0.0)
    again = _samples(page.render(replica).decode())
    assert _find(again, "vllm:avg_prompt_throughput_toks_per_s") == 0.0


def test_a_restart_moves_the_start_time_and_resets_the_counters() -> None:
    replica = _replica()
    replica.submit(Request(10, 5))
    replica.advance(100.0)
    before = _samples(VllmPage().render(replica).decode())
    replica.restart(startup=20.0)
    replica.advance(130.0)
    after = _samples(VllmPage().render(replica).decode())
    assert _find(after, "process_start_time_seconds") - _find(before, "process_start_time_seconds") == 100.0
    assert _find(after, "vllm:generation_tokens_created") == 1.796e9 + 120.0
    assert _find(before, "vllm:generation_tokens_total") == 5.0
    assert _find(after, "vllm:generation_tokens_total") == 0.0


def test_an_odd_model_name_comes_back_as_it_was() -> None:
    odd = 'tiny "q" \\b näme\nx'
    for dialect, parse in ((Dialect.PYTHON, parse_text), (Dialect.RUST, parse_openmetrics)):
        replica = _replica(model=odd)
        replica.submit(Request(10, 5))
        replica.advance(1.0)
        samples = _samples(VllmPage(dialect=dialect).render(replica).decode(), parse)
        assert _find(samples, "vllm:generation_tokens_total", model_name=odd) == 5.0


def test_versions_are_read_leniently_and_nonsense_is_refused() -> None:
    assert VllmPage("0.32.0+cpu").render(_replica()) == VllmPage("0.32").render(_replica())
    with pytest.raises(ValueError):
        VllmPage("latest")
