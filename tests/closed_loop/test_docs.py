"""docs/autoscaling.md: every test that it names exists, every case has its line, its YAML is what it says."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "autoscaling.md").read_text("utf-8")


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE))
    assert len(named) > 15
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text("utf-8"), f"{path}::{name}"


def test_each_of_the_21_cases_has_its_line() -> None:
    rows = re.findall(
        r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", PAGE.split("## The public cases")[1], re.MULTILINE
    )
    assert [int(number) for number, _, _ in rows] == list(range(1, 22))
    assert all(answer.strip() for _, _, answer in rows)


def test_files_that_are_linked_exist() -> None:
    for link in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link


def test_the_adapters_query_is_that_of_the_shipped_object() -> None:
    adapter, hpa = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    (rule,) = adapter["externalRules"]
    shipped = yaml.safe_load((ROOT / "deploy" / "keda" / "prometheus.yaml").read_text("utf-8"))
    query = shipped["spec"]["triggers"][0]["metadata"]["query"]
    labels = 'namespace="models", pod=~"vllm-.*"'
    assert rule["metricsQuery"].replace("<<.LabelMatchers>>", labels) == query
    (metric,) = hpa["spec"]["metrics"]
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]
    assert metric["external"]["target"] == {"type": "AverageValue", "averageValue": "1"}
    behavior = shipped["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert hpa["spec"]["behavior"] == behavior
