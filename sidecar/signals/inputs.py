"""What one model's signals read from a block: bound once per layout, copied on each poll."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from operator import itemgetter

from sidecar.signals.formula import Way
from sidecar.signals.service_time import FROM_INFERENCE, FROM_LATENCY
from sidecar.signals.settings import GapObjective
from sidecar.snapshot import Layout, Series

# Places of a poll.
(
    RUNNING,
    WAITING,
    KV_USAGE,
    SLOTS,
    FINISHED,
    SUCCEEDED,
    TOKENS,
    QUEUED,
    EXECUTED,
    SERVED_SECONDS,
    SERVED,
    GAP_SECONDS,
    GAPS,
    GOOD_GAPS,
) = range(14)
COUNTERS = range(FINISHED, GOOD_GAPS + 1)

Fold = Callable[[Sequence[float]], float]


def models_of(layout: Layout) -> dict[str, tuple[Series, ...]]:
    """The series of each model. What names none belongs to the only model, else to one without a name."""
    named = dict.fromkeys(name for series in layout.series if (name := series.label("model_name")))
    nameless = next(iter(named)) if len(named) == 1 else ""
    models: dict[str, list[Series]] = {name: [] for name in named}
    for series in layout.series:
        models.setdefault(series.label("model_name") or nameless, []).append(series)
    return {name: tuple(series) for name, series in models.items()}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where a model's numbers are. `good` are the upper bounds of the gaps that count as good ones."""

    signals: frozenset[str]
    pick: Callable[[Sequence[float]], tuple[float, ...]]
    absent: tuple[int, ...]
    folded: tuple[tuple[int, tuple[int, ...], Fold], ...]
    good: tuple[float, ...]

    def read(self, values: Sequence[float]) -> list[float]:
        """One poll; NaN for what isn't there."""
        poll = list(self.pick(values))
        for place in self.absent:
            poll[place] = nan
        for place, indices, fold in self.folded:
            poll[place] = fold([values[index] for index in indices])
        return poll


def bind(series: Iterable[Series], ways: Mapping[str, Way], objective: GapObjective | None) -> Inputs:
    """Bind a model's series, in the ways that its formulas take."""
    by_signal: dict[str, list[Series]] = {}
    for one in series:
        by_signal.setdefault(one.signal.name, []).append(one)
    for name, several in by_signal.items():
        by_signal[name] = [one for one in several if not one.label("rank")] or several

    def starts(signal: str, **labels: str) -> tuple[int, ...]:
        return tuple(
            one.start
            for one in by_signal.get(signal, ())
            if all(one.label(name) == value for name, value in labels.items())
        )

    def sums(signal: str) -> tuple[int, ...]:
        return tuple(one.sum_index for one in by_signal.get(signal, ()))

    def counts(signal: str) -> tuple[int, ...]:
        return tuple(one.count_index for one in by_signal.get(signal, ()))

    gaps = by_signal.get("inter_token_latency_seconds", ())
    places: dict[int, tuple[int, ...]] = {
        RUNNING: starts("requests_running"),
        WAITING: starts("requests_waiting"),
        KV_USAGE: starts("kv_cache_usage_max_ratio"),
        SLOTS: starts("request_slots"),
        FINISHED: starts("requests_total"),
        SUCCEEDED: starts("requests_total", outcome="success"),
        TOKENS: starts("generation_tokens_total"),
        QUEUED: sums("request_queue_time_seconds"),
        EXECUTED: sums("request_inference_time_seconds"),
        GAP_SECONDS: sums("inter_token_latency_seconds"),
        GAPS: counts("inter_token_latency_seconds"),
        GOOD_GAPS: tuple(_good(one, objective) for one in gaps),
    }
    folds: dict[int, Fold] = {KV_USAGE: max}
    way = ways.get("service_time_seconds")
    if way is FROM_INFERENCE:
        places[SERVED_SECONDS] = places[EXECUTED]
        places[SERVED] = counts("request_inference_time_seconds")
    elif way is FROM_LATENCY:
        whole, queued = sums("e2e_request_latency_seconds"), places[QUEUED]
        places[SERVED_SECONDS] = whole + queued
        folds[SERVED_SECONDS] = lambda values: total(values[: len(whole)]) - total(values[len(whole) :])
        places[SERVED] = counts("e2e_request_latency_seconds")
    found = [places.get(place, ()) for place in range(GOOD_GAPS + 1)]
    return Inputs(
        frozenset(by_signal),
        itemgetter(*(indices[0] if indices else 0 for indices in found)),
        tuple(place for place, indices in enumerate(found) if not indices),
        tuple(
            (place, indices, folds.get(place, total))
            for place, indices in enumerate(found)
            if len(indices) > 1
        ),
        tuple(one.bounds[_good(one, objective) - one.start] for one in gaps),
    )


def total(values: Sequence[float]) -> float:
    """The sum of what is there; NaN when nothing is."""
    there = [value for value in values if value == value]
    return sum(there) if there else nan


def _good(gaps: Series, objective: GapObjective | None) -> int:
    """The strict bucket of an objective: gaps that surely kept it. Where no bound lies below the threshold
    there is no telling, and all gaps are taken for good."""
    below = [
        place
        for place, bound in enumerate(gaps.bounds)
        if objective is None or bound <= objective.threshold * (1 + 1e-9)
    ]
    return gaps.start + below[-1] if below and objective is not None else gaps.count_index
