"""Every native family is mapped, or deferred with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from sidecar.runtimes.adapter import builtin_mapping

NAMES = (Path(__file__).parent / "native_metrics.txt").read_text().split()


@pytest.mark.parametrize("name", NAMES)
def test_a_native_family_is_mapped_or_deferred(name: str) -> None:
    mapping = builtin_mapping("triton")
    mapped = any(name + suffix in mapping.names for suffix in ("", "_total", "_sum"))
    assert mapped or mapping.is_quiet(name)
    assert all(len(reason) > 8 for reason in mapping.deferred.values())


def test_an_unknown_family_is_neither() -> None:
    mapping = builtin_mapping("triton")
    assert not mapping.is_quiet("input_byte_size_counter")
