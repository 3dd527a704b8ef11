"""What a derived signal is made of, as data: which inputs, in which order of preference, and how.

The same data decides what is computed for a model, what `signal_info` says of it, and what its page in
`docs/signals/` must name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.schema import Method, Scope, Status
from sidecar.snapshot import Provenance


@dataclass(frozen=True, slots=True)
class Way:
    """One way to a signal. `needs` are signals of the schema, all of which must be there; `source` says how
    the value comes out of them."""

    needs: tuple[str, ...]
    source: str
    method: Method = Method.DERIVED


@dataclass(frozen=True, slots=True)
class Formula:
    """A derived signal and its ways, best first."""

    signal: str
    ways: tuple[Way, ...]

    def way(self, available: Iterable[str]) -> Way | None:
        """The first way whose inputs are all there; None: there is no value."""
        there = frozenset(available)
        return next((way for way in self.ways if there.issuperset(way.needs)), None)


def choose(formulas: Iterable[Formula], available: Iterable[str]) -> dict[str, Way]:
    """The way of each formula that has one. Formulas come in an order in which inputs are made before they
    are used, so one derived signal may need another."""
    there = set(available)
    chosen: dict[str, Way] = {}
    for formula in formulas:
        way = formula.way(there)
        if way is not None:
            chosen[formula.signal] = way
            there.add(formula.signal)
    return chosen


def provenance(formula: Formula, way: Way | None) -> Provenance:
    """What `signal_info` says of a formula's signal."""
    if way is not None:
        return Provenance(formula.signal, Status.OK, way.method, way.source, Scope.ENGINE)
    return Provenance(formula.signal, Status.NOT_EXPOSED, Method.DERIVED, note=f"needs {_wanted(formula)}")


def unusable(formula: Formula) -> Provenance:
    """What is said of a formula's signal whose inputs are there with numbers that can't be."""
    note = f"needs {_wanted(formula)}: can't be used now"
    return Provenance(formula.signal, Status.INVALID, Method.DERIVED, note=note)


def _wanted(formula: Formula) -> str:
    return " or ".join(" and ".join(way.needs) for way in formula.ways)
