"""Each page in `pages/` beside what the sidecar makes of it; GOLDEN_UPDATE=1 rewrites the goldens."""

from __future__ import annotations

import os

import pytest

from sidecar.outputs.prometheus.page import render_blocks
from tests.runtimes.vllm.captured import GOLDEN, PAGES, captured

NAMES = sorted(file.stem for file in PAGES.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_page_becomes_its_golden(name: str) -> None:
    made = render_blocks([captured(name).data])
    golden = GOLDEN / f"{name}.prom"
    if os.environ.get("GOLDEN_UPDATE"):
        GOLDEN.mkdir(exist_ok=True)
        golden.write_bytes(made)
    assert made == golden.read_bytes()


def test_no_golden_is_left_over() -> None:
    assert sorted(file.stem for file in GOLDEN.glob("*.prom")) == NAMES
