"""Every family that vLLM ever had is mapped, or deferred with a reason; the mapping names no other."""

from __future__ import annotations

import re

import pytest

from sidecar.runtimes.adapter import builtin_mapping
from tests.runtimes.vllm.captured import HERE

NATIVE = dict(line.split() for line in (HERE / "native_metrics.txt").read_text().splitlines())
MAPPING = builtin_mapping("vllm")
RULES = {rule.metric: rule for rules in MAPPING.signals.values() for rule in rules}
#: Families of the HTTP server and of the process beside vLLM's own.
OTHERS = {"http_requests_total", "process_start_time_seconds"}


@pytest.mark.parametrize("family", NATIVE)
def test_a_family_is_mapped_or_deferred(family: str) -> None:
    read = {family, f"{family}_count"} & MAPPING.names
    assert read or family in RULES or MAPPING.is_quiet(family)


@pytest.mark.parametrize("metric", RULES)
def test_a_rule_has_the_type_of_its_family(metric: str) -> None:
    assert NATIVE[metric] == RULES[metric].type


def test_the_mapping_reads_nothing_that_vllm_never_had() -> None:
    named = {metric for rule in RULES.values() for metric in (rule.metric, *rule.plus)} | set(MAPPING.reads)
    assert {name.removesuffix("_count") for name in named} - set(NATIVE) == OTHERS


@pytest.mark.parametrize("pattern", MAPPING.deferred)
def test_a_deferral_is_of_something_and_says_why(pattern: str) -> None:
    assert any(re.fullmatch(pattern, family) for family in NATIVE)
    assert len(MAPPING.deferred[pattern]) > 8


def test_nothing_unheard_of_is_quiet() -> None:
    assert not MAPPING.is_quiet("vllm:a_family_of_tomorrow")


def test_each_absence_is_explained() -> None:
    assert all(absent.note for absent in MAPPING.absent.values())
