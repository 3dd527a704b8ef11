"""Every native family that a runtime ever had is mapped, or deferred with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.runtimes.adapter import builtin_mapping

HERE = Path(__file__).parent
RUNTIMES = ("triton", "tensorrt_llm", "nim", "dynamo")
NATIVE = [
    (runtime, name)
    for runtime in RUNTIMES
    for name in (HERE / runtime / "native_metrics.txt").read_text().split()
]


@pytest.mark.parametrize(("runtime", "name"), NATIVE)
def test_a_native_family_is_mapped_or_deferred(runtime: str, name: str) -> None:
    mapping = builtin_mapping(runtime)
    mapped = any(name + suffix in mapping.names for suffix in ("", "_total", "_sum"))
    assert mapped or mapping.is_quiet(name)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_each_deferral_says_why(runtime: str) -> None:
    mapping = builtin_mapping(runtime)
    assert all(len(reason) > 8 for reason in mapping.deferred.values())
    assert not mapping.is_quiet("a_family_that_nobody_knows")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_each_absence_is_explained(runtime: str) -> None:
    mapping = builtin_mapping(runtime)
    assert all(absent.note for absent in mapping.absent.values())
