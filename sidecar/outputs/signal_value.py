"""`/v1/signals/{name}`: one signal as one number, for scalers.

No number is better than a wrong one: what can't be told is a reason, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite
from statistics import fmean

from sidecar.outputs.signals_json import Json, age, is_present, json_number, rows
from sidecar.schema import PREFIX, SIGNALS, Agg, Kind, Signal, Status
from sidecar.snapshot import Publication, Series, Snapshot

_JOIN: dict[str, Callable[[Sequence[float]], float]] = {
    Agg.SUM: sum,
    Agg.MAX: max,
    Agg.MIN: min,
    Agg.MEAN: fmean,
}

#: Why a target's part of the number can't be told, the gravest first.
_REASONS = ("stale", "blind", "absent")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and a JSON body."""

    status: int
    body: Json


@dataclass(frozen=True, slots=True)
class _Part:
    """What one target adds. Neither values nor a reason: it doesn't have the signal, and needn't."""

    target: str
    values: tuple[float, ...] = ()
    age: float | None = None
    reason: str = ""


def signal_value(
    publication: Publication, name: str, query: Mapping[str, str], now: float, stale_after: float
) -> Answer:
    """The signal over all series whose labels are as `query` says (`target`, `model_name`, …).

    Series are joined as the schema joins ranks: counts are summed, of maxima the highest counts, ratios are
    never added up; `aggregate=sum|max|min|mean` in the query asks for another way.

    200: `value`. 400: a histogram, or an unknown aggregate. 404: no such signal. 503 with `reason`: `stale`
    (a target's last scrape is more than `stale_after` seconds ago), `blind` (a target is down: the others'
    sum would be a part only), `absent` (there is no value now).
    """
    signal = SIGNALS.get(name) or SIGNALS.get(name.removeprefix(PREFIX))
    if signal is None:
        near = get_close_matches(name.removeprefix(PREFIX)[:100], SIGNALS, n=1, cutoff=0.0)[0]
        detail = f"there is no signal {name[:100]}; the nearest is {near}"
        return Answer(404, {"reason": "unknown", "detail": detail, "nearest": near})
    labels = {label: value for label, value in query.items() if label != "aggregate"}
    aggregate = query.get("aggregate", _aggregate(signal))
    fault = _fault(signal, aggregate)
    if fault:
        return Answer(400, {"name": signal.name, "reason": "bad_request", "detail": fault})
    if any(signal.name in block.layout.by_signal for block in publication.shared):
        parts = [_shared_part(publication, signal, labels, now, stale_after)]
    else:
        parts = [
            _part(snapshot, signal, labels, now, stale_after)
            for snapshot in publication.snapshots
            if labels.get("target", snapshot.target) == snapshot.target
        ]
    return _answer(signal, aggregate, labels, parts)


def _aggregate(signal: Signal) -> str:
    if signal.agg is Agg.NONE:
        return Agg.MAX if signal.unit == "ratio" else Agg.SUM
    return signal.agg


def _fault(signal: Signal, aggregate: str) -> str:
    if signal.kind is Kind.HISTOGRAM:
        return "a histogram is no single number: /v1/signals has its count and sum, /metrics its buckets"
    if aggregate not in _JOIN:
        return f"aggregate can be {', '.join(_JOIN)}"
    return ""


def _part(
    snapshot: Snapshot, signal: Signal, labels: Mapping[str, str], now: float, stale_after: float
) -> _Part:
    if now - snapshot.time > stale_after:
        return _Part(snapshot.target, reason="stale")
    declared = [row for row in rows(snapshot.blocks, signal.name) if _has(row[0], labels)]
    values = tuple(
        float(block.values[series.start]) for series, block in declared if is_present(series, block)
    )
    told = {one.status for one in snapshot.provenance if one.signal.partition(":")[0] == signal.name}
    cut = Status.DROPPED in told or (Status.INVALID in told and len(values) < len(declared))
    if cut and snapshot.data.layout.series:
        return _Part(snapshot.target, reason="absent")  # the others' sum would be a part only
    if values:
        return _Part(snapshot.target, values, age(snapshot, now))
    if not snapshot.up or not snapshot.data.layout.series:
        return _Part(snapshot.target, reason="blind")
    there = Status.OK in told or not told
    return _Part(snapshot.target, reason="absent" if declared and there else "")


def _shared_part(
    publication: Publication, signal: Signal, labels: Mapping[str, str], now: float, stale_after: float
) -> _Part:
    """A signal of no single target, e.g. of GPUs: whether a runtime is down doesn't matter to it."""
    values = tuple(
        float(block.values[series.start])
        for series, block in rows(publication.shared, signal.name)
        if _has(series, labels) and is_present(series, block)
    )
    if values and now - publication.time > stale_after:
        return _Part("shared", reason="stale")
    return _Part("shared", values, max(0.0, round(now - publication.time, 3)))


def _has(series: Series, labels: Mapping[str, str]) -> bool:
    return all(series.label(name) == value for name, value in labels.items())


def _answer(signal: Signal, aggregate: str, labels: Mapping[str, str], parts: Sequence[_Part]) -> Answer:
    for reason in _REASONS:
        targets = [part.target for part in parts if part.reason == reason]
        if targets:
            return _no_answer(signal, reason, targets, f"{', '.join(targets)}: {reason}")
    values = [value for part in parts for value in part.values]
    if not values:
        wanted = ", ".join(f"{label}={value}" for label, value in labels.items())
        detail = f"no series with {wanted}" if wanted else "no target has it; /v1/signals says why"
        return _no_answer(signal, "absent", [], detail)
    value = _JOIN[aggregate](values)
    if not isfinite(value):
        return _no_answer(signal, "absent", [], "the value is infinite")
    ages = [part.age for part in parts if part.values and part.age is not None]
    body: Json = {
        "name": signal.name,
        "value": json_number(value),
        "unit": signal.unit,
        "aggregate": str(aggregate),
        "series": len(values),
        "targets": [part.target for part in parts if part.values],
        "age_seconds": max(ages, default=None),
    }
    return Answer(200, body)


def _no_answer(signal: Signal, reason: str, targets: list[str], detail: str) -> Answer:
    return Answer(503, {"name": signal.name, "reason": reason, "detail": detail, "targets": targets})
