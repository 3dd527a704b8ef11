"""Where the events of an objective are found in a target's block: compiled once for each layout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidecar.schema import Method
from sidecar.schema import Status as Coverage
from sidecar.slo import formulas
from sidecar.slo.account import Status
from sidecar.slo.check import check_against_bounds
from sidecar.slo.objective import AVAILABILITY, BAD_OUTCOMES, GOOD_OUTCOMES, Objective
from sidecar.snapshot import Block, Labels, Layout, Provenance, Series, is_absent

#: Index of "no event of these is good": read as a constant 0.
NOTHING = -1


@dataclass(frozen=True, slots=True)
class Source:
    """Indices of three cumulative numbers: events, those surely good, those perhaps good.

    `part` is the objective's term. `cut` names the bucket bounds; when they change in the life of a runtime,
    old counts and new ones can't be subtracted. With `mean_limit` the second index is the sum of the
    observations instead, and a whole interval is good or bad by its mean.
    """

    part: int
    series: tuple[str, Labels]
    cut: tuple[float, ...]
    events: int
    good_at_least: int
    good_at_most: int
    fraction: float = 0.0
    mean_limit: float | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """How an objective is measured on one model of one layout: by what, or why not."""

    status: Status
    sources: tuple[Source, ...] = ()
    reason: str = ""


def models_of(layout: Layout) -> tuple[str, ...]:
    """Models that a block tells about, in page order; one without a name if no series has one."""
    named = dict.fromkeys(name for one in layout.series if (name := one.label("model_name")))
    return tuple(named) or ("",)


def measure(
    objective: Objective, model: str, block: Block, provenance: dict[str, Provenance] | None = None
) -> Measure:
    """Where the events of an objective and a model are in a block, or why they can't be told."""
    known, layout = provenance or {}, block.layout
    if objective.signal == AVAILABILITY:
        return _availability(model, block, known)
    sources: list[Source] = []
    for part, (signal, threshold) in enumerate(objective.terms):
        series = tuple(_of_model(layout, signal, model))
        if not series:
            return Measure(Status.NOT_MEASURABLE, reason=_absent(signal, known.get(signal)))
        for one in series:
            if why := _unusable(one, block, known):
                return Measure(Status.NOT_MEASURABLE, reason=why)
            found = _latency(objective, part, threshold, one, known.get(signal))
            if isinstance(found, str):
                return Measure(Status.NOT_MEASURABLE, reason=found)
            if found.mean_limit is not None and is_absent(block.values[one.sum_index]):
                return Measure(Status.NOT_MEASURABLE, reason=f"{signal} has no sum that can be used")
            sources.append(found)
    guessed = any(one.mean_limit is not None for one in sources)
    return Measure(Status.ESTIMATED if guessed else Status.OK, tuple(sources))


def _of_model(layout: Layout, signal: str, model: str) -> Iterator[Series]:
    return (one for one in layout.by_signal.get(signal, ()) if one.label("model_name") == model)


def _absent(signal: str, provenance: Provenance | None) -> str:
    reason = f"{signal} is not there"
    if provenance is None:
        return reason
    return f"{reason} ({provenance.status}{': ' + provenance.note if provenance.note else ''})"


def _unusable(series: Series, block: Block, provenance: dict[str, Provenance]) -> str:
    """Why a series that is on the page says nothing at present; empty when it does."""
    signal = series.signal.name
    if not is_absent(block.values[series.count_index if series.bounds else series.start]):
        return ""
    told = (one for one in provenance.values() if one.signal.partition(":")[0] == signal)
    note = next((one.note for one in told if one.status is Coverage.INVALID), None)
    return "" if note is None else f"{signal} is on the page with numbers that can't be ({note})"


def _latency(
    objective: Objective, part: int, threshold: float, series: Series, provenance: Provenance | None
) -> Source | str:
    identity = (series.signal.name, series.labels)
    events = series.count_index
    cut = formulas.split(threshold, series.bounds)
    if cut is not None:
        around = (series.bounds[cut.lower], series.bounds[cut.upper])
        first, last = series.start + cut.lower, series.start + cut.upper
        return Source(part, identity, around, events, first, last, cut.fraction)
    if objective.method == "mean" and len(series.bounds) == 1:
        return Source(part, identity, (), events, series.sum_index, series.sum_index, 0.0, threshold)
    findings = check_against_bounds(objective, series.bounds, signal=series.signal.name)
    note = f" ({provenance.note})" if provenance is not None and provenance.note else ""
    return "; ".join(one.message for one in findings) + note


def _availability(model: str, block: Block, provenance: dict[str, Provenance]) -> Measure:
    sources: list[Source] = []
    outcomes = list(_of_model(block.layout, "requests_total", model))
    for series in outcomes:
        if why := _unusable(series, block, provenance):
            return Measure(Status.NOT_MEASURABLE, reason=why)
        identity, outcome, at = (series.signal.name, series.labels), series.label("outcome"), series.start
        if outcome in GOOD_OUTCOMES:
            sources.append(Source(0, identity, (), at, at, at))
        elif outcome in BAD_OUTCOMES:
            sources.append(Source(0, identity, (), at, NOTHING, NOTHING))
    told = [
        provenance[name]
        for name in ("requests_total", *(f"requests_total:{outcome}" for outcome in BAD_OUTCOMES))
        if name in provenance
    ]
    if not outcomes:
        return Measure(Status.NOT_MEASURABLE, reason=_absent("requests_total", told[0] if told else None))
    cut = next((one for one in told if one.status is Coverage.DROPPED), None)
    if cut is not None:  # perhaps just those that failed
        return Measure(Status.NOT_MEASURABLE, reason=f"an outcome of requests_total is left out: {cut.note}")
    if all(one.good_at_least != NOTHING for one in sources):
        notes = "; ".join(one.note for one in told if one.note)
        reason = "no outcome of requests_total tells of a failure" + (f" ({notes})" if notes else "")
        return Measure(Status.NOT_MEASURABLE, reason=reason)
    guessed = any(one.method is Method.ESTIMATED for one in told)
    return Measure(Status.ESTIMATED if guessed else Status.OK, tuple(sources))
