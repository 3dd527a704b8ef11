from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.quantities import (
    parse_duration,
    parse_share,
    parse_size,
    write_duration,
    write_share,
    write_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("800ms", 0.8),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
        ("2", 2.0),
        ("0.25", 0.25),
        ("7d", 604_800.0),
        ("1w", 604_800.0),
        ("9.3ms", 0.0093),
        ("50us", 0.00005),
        ("1d2h3m4s5ms", 93_784.005),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5 m", "5M", "-5s", "m", "5m1h", "5s5s", "1e3", "inf", "nan", "٣s", "5sm", "1_0s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.8, "800ms"),
        (5400.0, "1h30m"),
        (0.05, "50ms"),
        (1.5, "1.5s"),
        (604_800.0, "7d"),
        (0.0, "0s"),
        (2.0, "2s"),
    ],
)
def test_durations_are_written_as_people_write_them(seconds: float, text: str) -> None:
    assert write_duration(seconds) == text


@given(st.floats(1e-6, 1e7))
def test_a_duration_reads_back_as_the_same_number(seconds: float) -> None:
    assert parse_duration(write_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("32MiB", 32 << 20),
        ("64kB", 64_000),
        ("64KB", 64_000),
        ("1Gi", 1 << 30),
        ("1.5KiB", 1536),
        ("2M", 2_000_000),
        ("17", 17),
        ("17 B", 17),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1.5B", "3 apples", "-1", "1mb", "1PiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="not a"):
        parse_size(text)


@given(st.integers(0, 2**45))
def test_a_size_reads_back(size: int) -> None:
    assert parse_size(write_size(size)) == size


@pytest.mark.parametrize(
    ("text", "ratio"), [("99.9%", 0.999), ("95 %", 0.95), ("0.999", 0.999), ("100%", 1.0), ("0%", 0.0)]
)
def test_shares(text: str, ratio: float) -> None:
    assert parse_share(text) == ratio


@given(st.floats(1e-4, 1))
def test_a_share_reads_back(ratio: float) -> None:
    assert parse_share(write_share(ratio)) == ratio


def test_shares_are_written_as_percentages() -> None:
    assert write_share(0.999) == "99.9%"
    assert write_share(1.0) == "100%"
