"""NVML as a source: asks the child, starts a new one where that helps, backs off where it doesn't."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sidecar.gpu.collection import Collection
from sidecar.gpu.nvml.binding import NoBinding, find_binding
from sidecar.gpu.nvml.codes import XIDS, XIDS_FROM_START, explain
from sidecar.gpu.nvml.convert import Converted, convert
from sidecar.gpu.nvml.process import Child, ChildFailed
from sidecar.gpu.owners import Owners
from sidecar.gpu.reading import GpuNote, GpuReading, Row, row

log = logging.getLogger(__name__)

START_DEADLINE = 15.0  # the first call wakes each GPU where persistence mode is off
RECYCLE_AFTER = 86_400.0
RECYCLE_RSS = 64 << 20
LOOK_AGAIN_AFTER = 300.0  # a GPU that was reset is seen by a new child only
RETRY_FIRST, RETRY_LAST = 60.0, 900.0
UNINITIALIZED = 1
LOST_CODES = frozenset((15, 16, 28, 999))


class NvmlSource:
    """GPUs by NVML. `read` never blocks the loop and never outlasts its deadline by more than a kill."""

    def __init__(
        self,
        owners: Owners,
        *,
        interval: float = 10.0,
        optional: Iterable[str] = (),
        gpm: bool = True,
        asked_for: bool = True,
        retry: float = RETRY_FIRST,
        start_deadline: float = START_DEADLINE,
        environ: Mapping[str, str] | None = None,
        wall: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._owners = owners
        self._optional = frozenset(optional)
        self._options = {"optional": sorted(self._optional), "gpm": gpm}
        self._collection = Collection("nvml", 3 * interval)
        self._interval = interval
        self._start_deadline = start_deadline
        # Where nobody asked for NVML by name, a machine without it is no news.
        self._level = logging.WARNING if asked_for else logging.DEBUG
        self._retry = self._retry_in = retry
        self._environ = environ
        self._wall, self._mono = wall, mono
        self._child: Child | None = None
        self._born = 0.0
        self._down_since: float | None = None
        self._failures = 0
        self._not_before = 0.0
        self._refusal: tuple[str, str] | None = None
        self._refused_up: dict[str, bool] | None = None
        self._xids: Counter[tuple[str, str]] = Counter()
        self._last_xid: dict[str, tuple[int, float]] = {}

    @property
    def child_pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    async def read(self, deadline: float) -> GpuReading:
        """One pass over the GPUs. A child that has yet to start is given `start_deadline` instead."""
        began = self._mono()
        if self._refusal is not None and began < self._not_before:
            keep, up = self._failures > 0, self._refused_up
            return self._collection.bad(*self._refusal, mono=began, took=0.0, keep=keep, up=up)
        try:
            if self._child is None:
                self._child = await self._start()
                deadline = max(deadline, self._start_deadline)
            answer = await self._child.ask(deadline)
        except NoBinding as error:
            return self._refuse("library", str(error), began)
        except TimeoutError:
            return self._no_answer("timeout", f"the driver did not answer within {deadline:g} s", began)
        except (ChildFailed, OSError) as error:
            return self._no_answer("unknown", str(error), began)
        try:
            return await self._take(answer, began)
        except Exception as error:  # an answer of a shape that nobody thought of must not end the loop
            log.exception("an answer of the NVML child makes no sense")
            await self.close()
            return self._no_answer("parse", f"{type(error).__name__}: {error}", began)

    async def _start(self) -> Child:
        child = await Child.start({**self._options, "binding": find_binding()}, self._environ)
        self._born = self._mono()
        return child

    def _no_answer(self, reason: str, detail: str, began: float) -> GpuReading:
        """The child is gone. The first time the next one is tried at once, then ever later."""
        self._child = None
        if self._failures:
            self._not_before = self._mono() + min(self._retry, self._interval * 2.0**self._failures)
        self._failures += 1
        if self._refusal != (reason, detail):
            log.warning("GPU collection failed: %s", detail)
        self._refusal = reason, detail
        return self._collection.bad(reason, detail, mono=self._mono(), took=self._mono() - began, keep=True)

    def _refuse(
        self, reason: str, detail: str, began: float, up: dict[str, bool] | None = None
    ) -> GpuReading:
        """NVML itself is not to be had, for now; asked again later, by a new child with a fresh library."""
        now = self._mono()
        if self._refusal != (reason, detail):
            log.log(self._level, "no GPU data from NVML: %s", detail)
            self._retry_in = self._retry
        else:
            self._retry_in = min(2 * self._retry_in, max(RETRY_LAST, self._retry))
        self._failures = 0
        self._refusal, self._refused_up = (reason, detail), up
        self._not_before = now + (self._retry if reason == "mismatch" else self._retry_in)
        return self._collection.bad(reason, detail, mono=now, took=now - began, up=up)

    async def _take(self, answer: dict[str, Any], began: float) -> GpuReading:
        code = answer.get("init", answer.get("count"))
        if code is not None:
            await self.close()
            reason, words = explain(code)
            # 999 from the whole library: every GPU that was known is out of reach.
            up = dict.fromkeys(self._collection.known(), False) if code in (999, 15, 16) else None
            return self._refuse(reason, words, began, up)
        found = convert(answer, self._optional)
        self._failures, self._refusal = 0, None
        reading = await self._reading(answer, found, began)
        await self._recycle(answer, found)
        return reading

    async def _reading(self, answer: dict[str, Any], found: Converted, began: float) -> GpuReading:
        devices = row("gpu_devices", float(answer["devices"]))
        allocation = await self._owners.allocation(found.leaves)
        rows = self._owners.shown([*found.rows, devices], allocation) + self._xid_rows(answer)
        up = dict.fromkeys(self._owners.expected, False)
        up |= {uuid: is_up for uuid, is_up in found.up.items() if self._owners.concerns(uuid)}
        notes: list[GpuNote] = [*found.notes]
        if allocation.note:
            notes.append(GpuNote("", "gpu_allocation_info", "unknown_owner", allocation.note))
        now = self._mono()
        if found.read:
            return self._collection.good(rows, notes, time=self._wall(), mono=now, took=now - began, up=up)
        if not answer["devices"]:
            reason, detail = "unsupported", "NVML is there and shows no GPU"
        elif any(found.up.values()):
            reason, detail = "unsupported", "NVML is there and gives none of its readings for these GPUs"
        else:
            codes = found.shut or [999]
            reason, detail = explain(codes[0]) if found.shut else ("lifecycle", "every GPU is lost")
        return self._collection.bad(reason, detail, mono=now, took=now - began, rows=rows, up=up, notes=notes)

    def _xid_rows(self, answer: dict[str, Any]) -> list[Row]:
        """Events since the sidecar started, of a lost GPU too: they say why. A GPU that can't be watched has
        no counter, not one of 0."""
        for uuid, code, when in answer.get("xids", ()):
            self._xids[uuid, str(code) if code in XIDS else "other"] += 1
            self._last_xid[uuid] = code, when
        for uuid in answer.get("watched", ()):
            for label in (*map(str, XIDS_FROM_START), "other"):
                self._xids[uuid, label] += 0
        rows = [
            row("gpu_xid_errors_total", float(number), gpu_uuid=uuid, xid=label)
            for (uuid, label), number in self._xids.items()
            if self._owners.concerns(uuid)
        ]
        for uuid, (code, when) in self._last_xid.items():
            if self._owners.concerns(uuid):
                rows.append(row("gpu_xid_last", float(code), gpu_uuid=uuid))
                rows.append(row("gpu_xid_last_timestamp_seconds", when, gpu_uuid=uuid))
        return rows

    async def _recycle(self, answer: dict[str, Any], found: Converted) -> None:
        """Let a child go that is old, has grown, has lost its driver, or may not see that a GPU came back."""
        now = self._mono()
        whole = not LOST_CODES.intersection(found.shut) and all(found.up.values()) and bool(found.up)
        if whole:
            self._down_since = None
        elif self._down_since is None:
            self._down_since = now
        waited = self._down_since is not None and now - self._down_since > LOOK_AGAIN_AFTER
        grown = answer.get("rss", 0) > RECYCLE_RSS
        unloaded = any(UNINITIALIZED in gpu.get("codes", {}).values() for gpu in answer["gpus"])
        if waited or grown or unloaded or now - self._born > RECYCLE_AFTER:
            self._down_since = None
            await self.close()

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.end()
