"""On each page `doctor` says something that an operator can act on: a flag, a version, a port, a setting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.pipeline.diagnose import Level, diagnose
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Status

HERE = Path(__file__).parent
PAGES = sorted(
    page
    for runtime in ("triton", "tensorrt_llm", "nim", "dynamo")
    for page in (HERE / runtime / "pages").glob("**/*")
    if page.suffix in (".prom", ".json") and page.parent.name != "endpoints"
)
ACTIONABLE = re.compile(r"--[a-z-]+|[a-z]+_[a-z_]+|\d+\.\d+|80\d\d|needs|set `")


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(HERE)) for page in PAGES])
def test_each_page_gets_advice(page: Path) -> None:
    runtime = page.relative_to(HERE).parts[0]
    line = TargetPipeline(Settings(runtime=runtime), Registry())
    snapshot = line.feed({"metrics": Answer(200, page.read_bytes())}, time=1796033477.3, mono=0.0)
    told = diagnose(line, snapshot)
    assert told.runtime == runtime
    advice = [f"{finding.what} {finding.mend}" for finding in told.findings]
    advice += [record.note for record in told.signals if record.status is not Status.OK]
    assert any(ACTIONABLE.search(text) for text in advice)
    silent = {record.signal for record in told.signals if record.status is not Status.OK and not record.note}
    assert not silent or line.facts.engine == "vllm"


def test_the_flag_that_is_off_is_named() -> None:
    for runtime, page, flag in (
        ("tensorrt_llm", "cases/02_empty.json", "enable_iter_perf_stats"),
        ("tensorrt_llm", "samples/metrics_v12_loaded.json", "return_perf_metrics"),
        ("triton", "captures/option_counter_off_1_after.prom", "counter_latencies=true"),
        ("triton", "captures/load_00_idle.prom", "8000"),
        ("nim", "samples/nim_embedding_v1metrics_port8000.prom", "8002"),
    ):
        line = TargetPipeline(Settings(runtime=runtime), Registry())
        body = (HERE / runtime / "pages" / page).read_bytes()
        told = diagnose(line, line.feed({"metrics": Answer(200, body)}, time=0.0, mono=0.0))
        said = " ".join(
            [f"{finding.what} {finding.mend}" for finding in told.findings]
            + [record.note for record in told.signals]
        )
        assert flag in said, (page, told.findings)


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (r"(vllm:time_to_first_token_seconds_bucket\{[^}]*\+Inf[^}]*\}) \S+", r"\1 0"),
        (r"(vllm:generation_tokens_total\{[^}]*\}) \S+", r"\1 NaN"),
    ],
)
def test_counts_that_make_no_sense_are_a_problem(was: str, becomes: str) -> None:
    body = (Path(__file__).parent / "vllm" / "pages" / "v0.11.2.txt").read_text()
    for text, broken in ((body, False), (re.sub(was, becomes, body), True)):
        line = TargetPipeline(Settings(), Registry())
        snapshot = line.feed({"metrics": Answer(200, text.encode())}, time=1.7e9, mono=0.0)
        found = [one for one in diagnose(line, snapshot).findings if "can't be used" in one.what]
        assert bool(found) is broken
        assert all(one.level is Level.PROBLEM for one in found)
