"""`/v1/signals`: what a publication holds, for programs that read JSON, and one signal as one number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sidecar.outputs.prometheus.text import SeriesKey, number, series_key
from sidecar.schema import Kind
from sidecar.snapshot import Block, Provenance, Publication, Series, Snapshot, is_absent

Json = dict[str, Any]

#: Signals that say of other signals what stands beside each of them here.
_SAID_ELSEWHERE = frozenset({"signal_info"})


def signals(publication: Publication, now: float) -> Json:
    """Everything, per target, and in `shared` what belongs to no single target. `now` is Unix time."""
    return {
        "time": publication.time,
        "targets": [_target(snapshot, now) for snapshot in publication.snapshots],
        "shared": [_present(*row) for row in rows(publication.shared) if is_present(*row)],
    }


def age(snapshot: Snapshot, now: float) -> float | None:
    """Seconds since a scrape of the target was last understood; None when none ever was."""
    last = snapshot.life.get("target_last_success_timestamp_seconds")
    if is_absent(last):
        if not snapshot.up:
            return None
        last = snapshot.time
    return max(0.0, round(now - last, 3))


def json_number(value: float) -> int | float | str:
    """JSON has no infinity: it is written as Prometheus' own API writes it."""
    value = float(value)
    if value.is_integer():
        return int(value)
    return value if value - value == 0.0 else number(value)


def _target(snapshot: Snapshot, now: float) -> Json:
    provenance = {one.signal: one for one in snapshot.provenance}
    present = []
    names = set()
    for series, block in rows(snapshot.blocks):
        name = series.signal.name
        if name not in _SAID_ELSEWHERE and is_present(series, block):
            present.append(_present(series, block) | _origin(provenance.get(name)))
            names.add(name)
    absent = [
        {"name": one.signal, **_origin(one), "note": one.note}
        for one in snapshot.provenance
        if one.signal not in names
    ]
    return {
        "name": snapshot.target,
        "runtime": snapshot.runtime,
        "up": snapshot.up,
        "age_seconds": age(snapshot, now),
        "reasons": snapshot.reasons,
        "signals": [*present, *absent],
    }


def rows(blocks: Iterable[Block], signal: str | None = None) -> Iterator[tuple[Series, Block]]:
    """Each series once, present or not: of the same series in two blocks the first counts, as on the page."""
    seen: set[SeriesKey] = set()
    for block in blocks:
        for series in block.layout.series if signal is None else block.layout.by_signal.get(signal, ()):
            key = series_key(series)
            if key not in seen:
                seen.add(key)
                yield series, block


def is_present(series: Series, block: Block) -> bool:
    """A histogram is present when its count is."""
    index = series.count_index if series.signal.kind is Kind.HISTOGRAM else series.start
    return not is_absent(block.values[index])


def _present(series: Series, block: Block) -> Json:
    signal = series.signal
    row: Json = {"name": signal.name, "type": str(signal.kind), "labels": dict(series.labels)}
    if signal.unit:
        row["unit"] = signal.unit
    if signal.kind is not Kind.HISTOGRAM:
        return row | {"value": json_number(block.values[series.start])}
    row["count"] = json_number(block.values[series.count_index])
    total = block.values[series.sum_index]
    return row if is_absent(total) else row | {"sum": json_number(total)}


def _origin(provenance: Provenance | None) -> Json:
    if provenance is None:
        return {}
    return {
        "status": str(provenance.status),
        "method": str(provenance.method),
        "source": provenance.source,
        "scope": str(provenance.scope),
    }
