"""A page of a GPU exporter as a source."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable

from sidecar.exposition import PageError
from sidecar.gpu.collection import Collection
from sidecar.gpu.owners import Owners
from sidecar.gpu.pages import BY_SOURCE, detect, read_with
from sidecar.gpu.pages.adapt import Adapted
from sidecar.gpu.reading import OPTIONAL, GpuNote, GpuReading, Row, row

log = logging.getLogger(__name__)

#: GET of a URL within that many seconds.
Fetch = Callable[[str, float], Awaitable[bytes]]

#: An exporter that hangs goes on serving its last values. Its energy counters must move while power flows;
#: dcgm-exporter asks every 30 s by default, so three of our scrapes alone say nothing.
FROZEN_SCRAPES = 3
FROZEN_SECONDS = 90.0
FROZEN_POWER = 5.0


class Frozen:
    """Tells a page that answers and no longer moves."""

    def __init__(self) -> None:
        self._energy: dict[str, float] = {}
        self._moved = 0.0
        self._still = 0

    def is_frozen(self, rows: Iterable[Row], mono: float) -> bool:
        energy: dict[str, float] = {}
        power = 0.0
        for signal, labels, value in rows:
            if signal == "gpu_energy_joules_total":
                energy[dict(labels)["gpu_uuid"]] = value
            elif signal == "gpu_power_watts":
                power = max(power, value)
        if not energy or power < FROZEN_POWER or energy != self._energy:
            self._energy, self._moved, self._still = energy, mono, 0
            return False
        self._still += 1
        return self._still >= FROZEN_SCRAPES and mono - self._moved >= FROZEN_SECONDS


class PageSource:
    """GPUs from an exporter's page at `url`. `source` names the exporter; `auto` tells it by the page."""

    def __init__(
        self,
        fetch: Fetch,
        url: str,
        owners: Owners,
        *,
        source: str = "auto",
        interval: float = 10.0,
        optional: Iterable[str] = (),
        wall: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch = fetch
        self._url = url
        self._owners = owners
        self._table = BY_SOURCE.get(source)
        self._collection = Collection(source if self._table else "page", 3 * interval)
        self._left_out = OPTIONAL - frozenset(optional)
        self._frozen = Frozen()
        self._unmapped = ""
        self._wall, self._mono = wall, mono

    async def read(self, deadline: float) -> GpuReading:
        """One fetch. Raises nothing but CancelledError."""
        began = self._mono()
        try:
            body = await self._fetch(self._url, deadline)
        except Exception as error:  # the transport is handed in: whatever it raises is a failed fetch
            return self._bad("fetch", str(error) or type(error).__name__, began, keep=True)
        table = self._table or detect(body)
        if table is None:
            return self._bad("parse", f"{self._url} is no page of a GPU exporter that is known", began)
        self._collection.source = table.source
        rule = self._owners.rule
        try:
            page = read_with(body, table, (rule.pod, rule.namespace) if rule.pod else None)
        except PageError as error:
            return self._bad("parse", str(error), began)
        return await self._reading(page, began)

    async def _reading(self, page: Adapted, began: float) -> GpuReading:
        now = self._mono()
        if self._frozen.is_frozen(page.rows, now):
            detail = "the page answers with the same energy while power flows: its exporter hangs"
            return self._bad("stale", detail, began, page.notes)
        if not page.rows:
            if page.named and self._owners.rule.pod:
                detail = "no row names this pod: the page may be another node's (a Service without "
                detail += "internalTrafficPolicy: Local)"
            else:
                detail = "the page holds no GPU"
            return self._bad("unsupported", detail, began, page.notes)
        allocation = await self._owners.allocation(page.leaves, page.claims)
        rows = [one for one in page.rows if one[0] not in self._left_out]
        rows.append(row("gpu_devices", float(page.devices)))
        notes = list(page.notes)
        self._tell_unmapped(notes)
        if allocation.note:
            notes.append(GpuNote("", "gpu_allocation_info", "unknown_owner", allocation.note))
        return self._collection.good(
            self._owners.shown(rows, allocation), notes, time=self._wall(), mono=now, took=now - began
        )

    def _tell_unmapped(self, notes: Iterable[GpuNote]) -> None:
        for note in notes:
            if note.reason == "unmapped" and note.detail != self._unmapped:
                self._unmapped = note.detail
                log.info("%s: families that are not mapped: %s", self._url, note.detail)

    def _bad(
        self, reason: str, detail: str, began: float, notes: Iterable[GpuNote] = (), *, keep: bool = False
    ) -> GpuReading:
        now = self._mono()
        return self._collection.bad(reason, detail, mono=now, took=now - began, keep=keep, notes=notes)

    async def close(self) -> None:
        """Nothing is held: the transport is its owner's."""
