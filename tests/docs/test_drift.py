"""Every metric name in dashboards, rules, docs, examples and deployments exists in the schema."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.schema import SIGNALS, Kind

ROOT = Path(__file__).parents[2]
FOLDERS = ("README.md", "CHANGELOG.md", "docs", "dashboards", "alerts", "deploy", "examples")
ENDINGS = {".md", ".json", ".yaml", ".yml", ".txt", ".tpl"}
NAME = re.compile(r"(?<![\w:/.-])inference_[a-z0-9_]*[a-z0-9](?![\w*<{]*\*)")

#: Text that looks like a metric and is none.
OTHERS = {"inference_sidecar"}


def files() -> list[Path]:
    found: list[Path] = []
    for name in FOLDERS:
        path = ROOT / name
        found += [path] if path.is_file() else sorted(path.rglob("*")) if path.is_dir() else []
    return [path for path in found if path.suffix in ENDINGS and "node_modules" not in path.parts]


def known() -> set[str]:
    names = set(OTHERS)
    for signal in SIGNALS.values():
        names.add(signal.family)
        if signal.kind is Kind.HISTOGRAM:
            names |= {signal.family + suffix for suffix in ("_bucket", "_sum", "_count")}
    return names


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_metric_exists(path: Path) -> None:
    unknown = sorted(set(NAME.findall(path.read_text("utf-8"))) - known())
    assert not unknown, f"{path.relative_to(ROOT)} names metrics that the schema doesn't have: {unknown}"


def test_the_check_can_fail() -> None:
    assert set(NAME.findall("sum(inference_requests_runing)")) - known() == {"inference_requests_runing"}
