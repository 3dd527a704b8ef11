"""Each runtime's page: its table is the mapping (GOLDEN_UPDATE=1 writes it), its cases have a test or reason."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sidecar.runtimes.adapter import builtin_mapping
from sidecar.runtimes.reference import sources_markdown

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "runtimes"
MARKS = re.compile(r"(<!-- from the mapping -->\n)(.*)(<!-- end -->\n)", re.DOTALL)
CASES = {"triton": 16, "tensorrt_llm": 24, "nim": 7, "dynamo": 5}


@pytest.mark.parametrize("runtime", CASES)
def test_the_table_is_the_mapping(runtime: str) -> None:
    page = DOCS / f"{runtime}.md"
    text = page.read_text("utf-8")
    made = MARKS.sub(lambda match: match[1] + sources_markdown(builtin_mapping(runtime)) + match[3], text)
    if os.environ.get("GOLDEN_UPDATE"):
        page.write_text(made, "utf-8")
    assert made == page.read_text("utf-8")


@pytest.mark.parametrize("runtime", CASES)
def test_each_case_is_tested_or_says_why_not(runtime: str) -> None:
    text = (DOCS / f"{runtime}.md").read_text("utf-8").partition("## Cases")[2]
    cases = re.split(r"(?m)^\d+\. ", text)[1:]
    assert len(cases) == CASES[runtime]
    tests = "\n".join(path.read_text() for path in (HERE / runtime).glob("test_*.py"))
    for number, case in enumerate(cases, 1):
        numbered = f"def test_{number:02}_" in tests
        named = [name for name in re.findall(r"`(test_\w+)`", case) if f"def {name}(" in tests]
        assert numbered or named or "Not tested" in case, f"{runtime}: case {number}"
