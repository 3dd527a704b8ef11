"""The table in docs/runtimes/vllm.md is the mapping; GOLDEN_UPDATE=1 rewrites it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sidecar.runtimes.adapter import builtin_mapping
from sidecar.runtimes.mapping import Rule
from sidecar.schema import SIGNALS

PAGE = Path(__file__).parents[3] / "docs" / "runtimes" / "vllm.md"
MARKS = re.compile(r"(<!-- from the mapping:.*?-->\n)(.*)(<!-- end -->\n)", re.DOTALL)


def table() -> str:
    lines = ["| signal | native family, newest name first | remarks |", "|---|---|---|"]
    for name, rules in builtin_mapping("vllm").signals.items():
        for labels, group in _aliases(rules).items():
            families = dict.fromkeys(f"`{' + '.join((rule.metric, *rule.plus))}`" for rule in group)
            notes = dict.fromkeys(rule.note for rule in group if rule.note)
            shown = f"`{SIGNALS[name].family}{labels}`"
            lines.append(f"| {shown} | {', '.join(families)} | {'; '.join(notes)} |")
    return "\n".join(lines) + "\n"


def _aliases(rules: list[Rule]) -> dict[str, list[Rule]]:
    groups: dict[str, list[Rule]] = {}
    for rule in rules:
        labels = ",".join(f'{key}="{value}"' for key, value in rule.labels.items())
        groups.setdefault(f"{{{labels}}}" if labels else "", []).append(rule)
    return groups


def test_the_table_is_the_mapping() -> None:
    text = PAGE.read_text("utf-8")
    made = MARKS.sub(lambda match: match[1] + table() + match[3], text)
    if os.environ.get("GOLDEN_UPDATE"):
        PAGE.write_text(made, "utf-8")
    assert made == PAGE.read_text("utf-8")


def test_each_case_says_how_it_is_tested() -> None:
    text = PAGE.read_text("utf-8")
    cases = re.split(r"(?m)^\d+\. ", text.partition("## Cases")[2])[1:]
    assert len(cases) == 22
    for number, case in enumerate(cases, 1):
        named = re.findall(r"`(test_\w+)`", case)
        assert named or "ested: `tests/targets`" in case or "Not tested" in case, number
        for name in named:
            assert (Path(__file__).parent / f"{name}.py").exists(), name
