"""Offered load: how many requests would execute at once if none had to wait."""

from __future__ import annotations

from sidecar.schema import Method
from sidecar.signals.formula import Formula, Way

OFFERED_LOAD = Formula(
    "offered_load_requests",
    (
        Way(
            ("compute_seconds_total", "queue_seconds_total", "service_time_seconds"),
            "mean of what runs, and what comes beyond what finishes",
        ),
        Way(
            ("compute_seconds_total", "service_time_seconds"),
            "mean of what runs; what waits is not known",
            Method.ESTIMATED,
        ),
        Way(("compute_seconds_total",), "what runs; no service time is known", Method.ESTIMATED),
    ),
)


def offered_load(computed: float, in_flight_change: float, seconds: float, service_time: float) -> float:
    """L = ∫running ÷ w + Δ(running + waiting) ÷ w · min(W, w), of one window of `seconds`; never negative.

    What runs, plus what arrives beyond what finishes, as long as it would execute within the window.
    """
    beyond = in_flight_change / seconds * min(service_time, seconds)
    return max(computed / seconds + beyond, 0.0)
