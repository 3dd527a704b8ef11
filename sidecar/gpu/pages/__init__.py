"""Pages of GPU exporters: dcgm-exporter, AMD device-metrics-exporter, Intel xpumd, Triton's and NIM's own."""

from __future__ import annotations

import re

from sidecar.exposition import BadLine, ReadPage, peek_families, read_page
from sidecar.gpu.collection import Blocks
from sidecar.gpu.pages.adapt import Adapted, adapt
from sidecar.gpu.pages.dcgm import DCGM
from sidecar.gpu.pages.others import AMD, INTEL, NIM, TRITON
from sidecar.gpu.pages.table import Table
from sidecar.gpu.reading import GpuNote
from sidecar.snapshot import Block

#: In the order in which a page is tried.
TABLES: tuple[Table, ...] = (DCGM, INTEL, TRITON, NIM, AMD)
BY_SOURCE = {table.source: table for table in TABLES}

_HELP = re.compile(rb"^# HELP (\S+) (.*)$", re.MULTILINE)


def detect(body: bytes) -> Table | None:
    """Which exporter's page it is, by families that only that one has."""
    families = peek_families(body)
    return next((table for table in TABLES if any(name.startswith(table.detect) for name in families)), None)


def read(body: bytes) -> Block:
    """The GPU series of a page, whoever's GPUs they are; empty when it is none of a GPU. Raises PageError."""
    table = detect(body)
    return Blocks().block(read_with(body, table).rows if table is not None else ())


def read_with(body: bytes, table: Table, pod: tuple[str, str] | None = None) -> Adapted:
    """Read a page by a table. Raises PageError.

    dcgm-exporter doesn't escape label values: a line that can't be read costs that line, not its family,
    since the other lines of the family are other GPUs.
    """
    page, bad = _read_around(body)
    helps = {
        name.decode("utf-8", "replace"): text.decode("utf-8", "replace") for name, text in _HELP.findall(body)
    }
    found = adapt(page, table, helps, pod)
    for line in bad:
        found.notes.append(GpuNote("", line.family, "parse", f"line {line.number}: {line.reason}"))
    return found


def _read_around(body: bytes) -> tuple[ReadPage, tuple[BadLine, ...]]:
    page = read_page(body)
    if not page.bad_lines:
        return page, ()
    bad = page.bad_lines
    lines = body.split(b"\n")
    for line in bad:
        lines[line.number - 1] = b""
    return read_page(b"\n".join(lines)), bad
