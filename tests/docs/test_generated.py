"""Docs that are generated from the code are what the code says now. GOLDEN_UPDATE=1 writes them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.runtimes.reference import coverage_markdown
from sidecar.schema.reference import reference_markdown

ROOT = Path(__file__).parents[2]

GENERATED: dict[str, Callable[[], str]] = {
    "docs/metrics.md": reference_markdown,
    "docs/runtimes/README.md": coverage_markdown,
}


@pytest.mark.parametrize("name", GENERATED)
def test_the_document_is_what_the_code_says(name: str) -> None:
    path = ROOT / name
    text = GENERATED[name]()
    if os.environ.get("GOLDEN_UPDATE"):
        path.write_text(text)
    assert path.read_text() == text, f"{name} is old: GOLDEN_UPDATE=1 make test writes it anew"
