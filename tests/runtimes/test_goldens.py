"""Each page in `pages/` beside what the sidecar makes of it; GOLDEN_UPDATE=1 rewrites the goldens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.outputs.prometheus.page import render_blocks
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry

HERE = Path(__file__).parent
#: Moment of the scrape: half a second after the last iteration of the emulated TensorRT-LLM pages.
NOW = 1796033477.3
RUNTIMES = ("triton", "tensorrt_llm", "nim", "dynamo")
PAGES = sorted(
    page
    for runtime in RUNTIMES
    for page in (HERE / runtime / "pages").glob("**/*")
    if page.suffix in (".prom", ".json") and page.parent.name != "endpoints"
)


def golden_of(page: Path) -> Path:
    runtime = page.relative_to(HERE).parts[0]
    return HERE / runtime / "golden" / f"{page.parent.name}__{page.stem}.prom"


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(HERE)) for page in PAGES])
def test_page_becomes_its_golden(page: Path) -> None:
    runtime = page.relative_to(HERE).parts[0]
    line = TargetPipeline(Settings(runtime=runtime), Registry())
    snapshot = line.feed({"metrics": Answer(200, page.read_bytes())}, time=NOW, mono=0.0)
    made = render_blocks([snapshot.data])
    golden = golden_of(page)
    if os.environ.get("GOLDEN_UPDATE"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(made)
    assert made == golden.read_bytes()
    assert snapshot.up, snapshot.reasons


def test_no_golden_is_left_over() -> None:
    goldens = {golden for runtime in RUNTIMES for golden in (HERE / runtime / "golden").glob("*")}
    assert goldens == {golden_of(page) for page in PAGES}
