"""What a source remembers between collections: GPUs it knows, errors, age. Pure: clocks come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sidecar.gpu.reading import REASONS, GpuNote, GpuReading, Row, row
from sidecar.schema import SIGNALS
from sidecar.snapshot import EMPTY_LAYOUT, Block, Layout, LayoutBuilder

_ORDER = {name: i for i, name in enumerate(SIGNALS)}


class Blocks:
    """Rows → blocks; the layout stays the same object while the series do, so that outputs keep theirs."""

    def __init__(self) -> None:
        self._key: tuple[tuple[str, Any], ...] = ()
        self._layout: Layout = EMPTY_LAYOUT

    def block(self, rows: Iterable[Row]) -> Block:
        ordered = sorted(rows, key=lambda one: (_ORDER[one[0]], one[1]))
        key = tuple((signal, labels) for signal, labels, _ in ordered)
        if key != self._key:
            builder = LayoutBuilder()
            for signal, labels in key:
                builder.add(signal, labels)
            self._key, self._layout = key, builder.build()
        return Block(self._layout, tuple(value for _, _, value in ordered))


class Collection:
    """Turns good and bad collections of one source into readings. `max_age` in seconds: three intervals."""

    def __init__(self, source: str, max_age: float) -> None:
        self.source = source
        self._max_age = max_age
        self._blocks = Blocks()
        self._errors: Counter[str] = Counter(dict.fromkeys(REASONS, 0))
        self._refused: set[tuple[str, str]] = set()
        self._known: dict[str, None] = {}
        self._rows: list[Row] = []
        self._good_time = 0.0
        self._good_mono = 0.0
        self._notes: tuple[GpuNote, ...] = ()

    def good(
        self,
        rows: Iterable[Row],
        notes: Iterable[GpuNote] = (),
        *,
        time: float,
        mono: float,
        took: float,
        up: Mapping[str, bool] | None = None,
    ) -> GpuReading:
        """A collection that succeeded. With `up`, a GPU that was there once and isn't any more is down."""
        self._good_time, self._good_mono = time, mono
        self._notes = tuple(notes)
        self._count(self._notes)
        self._rows = [*rows, *self._up(up)]
        return self._reading(self._rows, True, took)

    def bad(
        self,
        reason: str,
        detail: str,
        *,
        mono: float,
        took: float,
        keep: bool = False,
        rows: Iterable[Row] = (),
        up: Mapping[str, bool] | None = None,
        notes: Iterable[GpuNote] = (),
    ) -> GpuReading:
        """A collection that failed. `keep` shows the last good one until it is too old: nobody has answered.

        Without `keep` the answer itself was that there is nothing; `rows` are what is left to show.
        """
        self._errors[reason] += 1
        self._notes = (GpuNote("", "collection", reason, detail), *notes)
        if not keep:
            self._rows = [*rows, *self._up(up)]
        elif mono - self._good_mono > self._max_age:
            self._rows = []
        return self._reading(self._rows, False, took)

    def known(self) -> tuple[str, ...]:
        return tuple(self._known)

    def _up(self, up: Mapping[str, bool] | None) -> list[Row]:
        if up is None:
            return []
        self._known |= dict.fromkeys(up)
        return [row("gpu_up", float(up.get(uuid, False)), gpu_uuid=uuid) for uuid in self._known]

    def _count(self, notes: Iterable[GpuNote]) -> None:
        """Permission is refused once and then remembered; the others are counted each time."""
        for note in notes:
            if note.reason not in self._errors:
                continue
            if note.reason == "permission":
                if (note.gpu, note.what) in self._refused:
                    continue
                self._refused.add((note.gpu, note.what))
            self._errors[note.reason] += 1

    def _reading(self, rows: list[Row], ok: bool, took: float) -> GpuReading:
        source = self.source
        health = [
            row("gpu_collect_success", float(ok), source=source),
            row("gpu_collect_duration_seconds", took, source=source),
            *(
                row("gpu_collect_errors_total", float(number), source=source, reason=reason)
                for reason, number in self._errors.items()
            ),
        ]
        if self._good_time:
            health.append(row("gpu_collect_timestamp_seconds", self._good_time, source=source))
        return GpuReading(self._blocks.block([*rows, *health]), ok, source, self._good_time, self._notes)
