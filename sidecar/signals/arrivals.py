"""Arrivals: what has come, told from what has finished and what is in flight."""

from __future__ import annotations

from sidecar.schema import Method
from sidecar.signals.formula import Formula, Way

ARRIVALS = Formula(
    "arrivals_total",
    (
        Way(
            ("requests_total", "requests_running", "requests_waiting"),
            "increase of requests_total and change of what is in flight",
        ),
        Way(
            ("requests_total",),
            "increase of requests_total and change of what is known to be in flight",
            Method.ESTIMATED,
        ),
    ),
)


class Arrivals:
    """`total` grows by Δfinished + Δin flight, never falls.

    A page may tell a request's end a moment before its gauges do: a poll that seems to lose arrivals is held
    against the next one, and only that one, for a request that is counted nowhere (a cancelled one, say) must
    not hide later ones for ever.
    """

    __slots__ = ("_lost", "total")

    def __init__(self) -> None:
        self.total = 0.0
        self._lost = 0.0

    def add(self, finished: float, in_flight_change: float) -> None:
        came = finished + in_flight_change
        self.total += max(came + self._lost, 0.0)
        self._lost = min(came, 0.0)
