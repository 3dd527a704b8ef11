"""What every runtime's page is made of: the protocol that a page fulfils, and its lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from prometheus_client.utils import floatToGoString

from sidecar.simulator.replica import Replica
from sidecar.simulator.telemetry import Histogram


class Page(Protocol):
    """Renders a replica as one runtime shows itself. It may keep notes of its own (rates over its last
    seconds), but never changes the replica."""

    @property
    def content_type(self) -> str: ...

    def render(self, replica: Replica) -> bytes: ...


def escaped(value: str) -> str:
    """A label value as both formats want it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def label_text(labels: Mapping[str, str]) -> str:
    """`{a="b"}`, in the order given; empty for no labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}"


def python_number(value: float) -> str:
    """As prometheus_client's Python library writes it: always a float, an exponent from 1e6 on."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def rust_number(value: float) -> str:
    """As the Rust library writes it: counts and whole gauges without a point."""
    return str(value)


class Lines:
    """A page under construction."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(self, name: str, kind: str, text: str) -> None:
        self._lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")

    def sample(self, name: str, labels: Mapping[str, str], number: str) -> None:
        self._lines.append(f"{name}{label_text(labels)} {number}")

    def add(self, *lines: str) -> None:
        self._lines += lines

    def text(self) -> bytes:
        return ("\n".join(self._lines) + "\n").encode()


def buckets(histogram: Histogram, bounds: Iterable[float]) -> list[tuple[str, int]]:
    """(`le`, cumulative count) of a histogram, +Inf last."""
    edges = tuple(bounds)
    counts = histogram.cumulative(edges)
    return [*zip(map(python_number, edges), counts, strict=True), ("+Inf", histogram.count)]


def one_two_five(longest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, … up to `longest`: the bounds that vLLM and others make from the model's length."""
    bounds = [float(m * 10**e) for e in range(len(str(longest))) for m in (1, 2, 5)]
    return tuple(bound for bound in bounds if bound <= longest)
