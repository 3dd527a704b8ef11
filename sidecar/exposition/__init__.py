"""Prometheus text 0.0.4 and OpenMetrics, in: bytes become samples; what a metric means is not known here."""

from __future__ import annotations

from sidecar.exposition.errors import BadLine, PageError
from sidecar.exposition.reader import PageReader, Reading, Sample, Shape
from sidecar.exposition.whole import ReadPage, ReadSample, peek_families, read_page

__all__ = [
    "BadLine",
    "PageError",
    "PageReader",
    "ReadPage",
    "ReadSample",
    "Reading",
    "Sample",
    "Shape",
    "peek_families",
    "read_page",
]
