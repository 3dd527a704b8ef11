"""A recording as a scene: the arrivals and lengths that a real replica's pages told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp

from sidecar.autoscale.objectives import USUAL, Objectives
from sidecar.autoscale.oracle import sustained_rate
from sidecar.autoscale.traffics import ENGINE, Kind, Scene
from sidecar.simulator.traffic import Lengths, Shape, Steps

_SPREAD = 0.6
_BUCKET = 30.0


@dataclass(frozen=True, slots=True)
class Moment:
    """Counters of one page; `second` counts from the first."""

    second: float
    arrivals: float
    finished: float
    prompt_tokens: float
    generation_tokens: float


class RecordingError(Exception):
    """A recording that tells no traffic."""


def scene_of(
    name: str,
    moments: Sequence[Moment],
    *,
    times: float = 1.0,
    cold_start: float = 120.0,
    objectives: Objectives = USUAL,
) -> Scene:
    """`times` as many requests as were recorded, of the recorded mean lengths, on the built-in engine. Raises
    RecordingError."""
    if len(moments) < 2 or moments[-1].second - moments[0].second < 2 * _BUCKET:
        raise RecordingError(f"a traffic needs pages of {2 * _BUCKET:.0f} s or more")
    first, last = moments[0], moments[-1]
    finished = _grown([one.finished for one in moments])
    if finished < 1 or last.arrivals <= first.arrivals:
        raise RecordingError("no request came or none finished in the recording")
    prompt = _grown([one.prompt_tokens for one in moments]) / finished
    output = _grown([one.generation_tokens for one in moments]) / finished
    shape = Shape(prompt=_lengths(prompt), output=_lengths(output), max_tokens=None)
    kind = Kind(shape, sustained_rate(Kind(shape, 1.0), objectives, replicas=2, seconds=600.0, within=0.03))
    if kind.sustained <= 0:
        raise RecordingError("one replica of the built-in engine can't keep the objectives for such requests")
    load = Steps(tuple((second, rate * times / kind.sustained) for second, rate in _rates(moments)))
    return Scene(
        name,
        f"recorded, ×{times:g}: prompts of {prompt:.0f} tokens, answers of {output:.0f}",
        load,
        kind,
        seconds=last.second - first.second,
        start=max(1, round(load.points[0][1] + 0.5)),
        cold_start=cold_start,
    )


def _lengths(mean: float) -> Lengths:
    """Log-normal with that mean."""
    return Lengths(max(mean, 1.0) / exp(_SPREAD**2 / 2), _SPREAD, high=ENGINE.max_model_len // 4)


def _rates(moments: Sequence[Moment]) -> list[tuple[float, float]]:
    """Requests a second in steps of half a minute or longer."""
    points: list[tuple[float, float]] = []
    since = moments[0]
    for one in moments[1:]:
        span = one.second - since.second
        if span >= _BUCKET:
            rate = max(one.arrivals - since.arrivals, 0.0) / span
            start = since.second - moments[0].second
            points += [(start, rate), (start + span, rate)]
            since = one
    return points


def _grown(values: Sequence[float]) -> float:
    """Increase of a counter that may have begun anew."""
    total = 0.0
    for before, after in pairwise(values):
        total += after - before if after >= before else after
    return total
