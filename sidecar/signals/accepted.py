"""Work inside the objectives: tokens and requests of intervals in which every objective of the model held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidecar.signals.formula import Formula, Way
from sidecar.snapshot import EMPTY_LAYOUT, Block, Layout

ACCEPTED_TOKENS = Formula(
    "accepted_generation_tokens_total",
    (Way(("generation_tokens_total", "slo_burn_rate"), "generation_tokens_total while slo_burn_rate ≤ 1"),),
)
ACCEPTED_REQUESTS = Formula(
    "accepted_requests_total",
    (Way(("requests_total", "slo_burn_rate"), "successful requests_total while slo_burn_rate ≤ 1"),),
)

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


class Objectives:
    """The shortest burn rate of each objective of each model, in the block that the same tick has made."""

    __slots__ = ("_layout", "_places", "_values")

    def __init__(self) -> None:
        self._layout: Layout = EMPTY_LAYOUT
        self._places: dict[str, tuple[int, ...]] = {}
        self._values: Sequence[float] = ()

    def read(self, blocks: Iterable[Block]) -> bool:
        """Find the burn rates; True when there are others than at the last call."""
        for block in blocks:
            if "slo_burn_rate" in block.layout.by_signal:
                self._values = block.values
                if block.layout is self._layout:
                    return False
                self._layout = block.layout
                self._places = _shortest(block.layout)
                return True
        changed = bool(self._places)
        self._layout, self._places, self._values = EMPTY_LAYOUT, {}, ()
        return changed

    def judge(self, model: str) -> bool:
        """Whether the model has any objective."""
        return bool(self._of(model))

    def held(self, model: str) -> bool:
        """Whether all of the model's objectives hold. A burn rate that isn't known yet holds nothing."""
        values = self._values
        return all(values[place] <= 1.0 for place in self._of(model))

    def _of(self, model: str) -> tuple[int, ...]:
        return self._places.get(model) or self._places.get("", ())


def _shortest(layout: Layout) -> dict[str, tuple[int, ...]]:
    """Model → places of its objectives' shortest windows; an objective of no model belongs to all."""
    found: dict[tuple[str, str], tuple[float, int]] = {}
    for series in layout.by_signal["slo_burn_rate"]:
        key = (series.label("model_name"), series.label("slo"))
        window = _seconds(series.label("window"))
        if key not in found or window < found[key][0]:
            found[key] = (window, series.start)
    shared = [place for (model, _), (_, place) in found.items() if not model]
    places = {model: list(shared) for model, _ in found}
    for (model, _), (_, place) in found.items():
        if model:
            places[model].append(place)
    return {model: tuple(of) for model, of in places.items()}


def _seconds(window: str) -> float:
    number = window.rstrip("msdhw")
    return float(number) * _UNITS[window[len(number) :]]
