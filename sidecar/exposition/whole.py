"""A page read once, for slow paths: offline commands, detection, pages of GPU exporters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sidecar.exposition.errors import BadLine
from sidecar.exposition.reader import PageReader

_TYPE_LINES = re.compile(rb"^# TYPE (\S+) (\S+)[ \t\r]*$", re.MULTILINE)
_SAMPLE_NAMES = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)[{ \t]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReadSample:
    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class ReadPage:
    samples: list[ReadSample]
    types: dict[str, str]
    bad_lines: tuple[BadLine, ...]


def read_page(body: bytes, *, whole: bool = True) -> ReadPage:
    """Every sample of a page. Raises PageError."""
    reading = PageReader().read(body, whole=whole)
    samples = [
        ReadSample(sample.name, dict(sample.labels), value)
        for sample, value in zip(reading.shape.samples, reading.values, strict=True)
    ]
    return ReadPage(samples, dict(reading.shape.families), reading.shape.bad_lines)


def peek_families(body: bytes) -> dict[str, str]:
    """Family names with their types (empty where none is declared), by a glance: nothing is validated."""
    families = {name.decode(): "" for name in dict.fromkeys(_SAMPLE_NAMES.findall(body))}
    families |= {
        name.decode("utf-8", "replace"): kind.decode("utf-8", "replace")
        for name, kind in _TYPE_LINES.findall(body)
    }
    return families
