"""Numbers of blocks by name, and how a sentence writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidecar.outputs.signals_json import is_present, rows
from sidecar.snapshot import ABSENT, Block, is_absent

Row = tuple[dict[str, str], float]


def numbers(blocks: Iterable[Block], signal: str) -> list[Row]:
    """Labels and value of each present series of a gauge or counter."""
    return [
        (dict(series.labels), float(block.values[series.start]))
        for series, block in rows(blocks, signal)
        if is_present(series, block)
    ]


def first(blocks: Iterable[Block], signal: str) -> float:
    """The value of a signal that has one series; NaN without it."""
    return next((value for _, value in numbers(blocks, signal)), ABSENT)


def total(blocks: Iterable[Block], signal: str) -> float:
    """The sum over the models; NaN when no series is present."""
    found = numbers(blocks, signal)
    return sum(value for _, value in found) if found else ABSENT


def highest(blocks: Iterable[Block], signal: str) -> float:
    return max((value for _, value in numbers(blocks, signal)), default=ABSENT)


def some(value: float) -> float | None:
    """A number as JSON has it, five digits of it; None when absent or infinite."""
    if value - value != 0.0:
        return None
    rounded = float(f"{value:.5g}")
    return int(rounded) if rounded.is_integer() else rounded


def plain(value: float) -> str:
    """A number in a sentence: 0.42, 6.2, 148, 12k."""
    if is_absent(value):
        return "?"
    if abs(value) >= 10_000:
        return f"{value / 1000:.0f}k"
    if abs(value) >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def percent(ratio: float) -> str:
    return "?" if is_absent(ratio) else f"{ratio * 100:.0f} %"


def seconds(value: float) -> str:
    """A duration in a sentence: 12 ms, 1.4 s, 3 min, 5 h, 2 d."""
    if is_absent(value):
        return "?"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    for unit, size, least in (("d", 86_400.0, 2.0), ("h", 3600.0, 2.0), ("min", 60.0, 2.0)):
        if value >= size * least:
            return f"{value / size:.0f} {unit}"
    return f"{value:.1f} s" if value < 10 and value != int(value) else f"{value:.0f} s"


def and_more(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 2 more`."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
