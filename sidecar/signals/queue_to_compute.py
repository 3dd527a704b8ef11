"""Queue-to-compute ratio: how much longer requests wait than they execute."""

from __future__ import annotations

from math import nan

from sidecar.signals.formula import Formula, Way

#: Windows in seconds by the label's value.
WINDOWS = {"1m": 60.0, "5m": 300.0}

QUEUE_TO_COMPUTE = Formula(
    "queue_to_compute_ratio",
    (
        Way(
            ("queue_seconds_total", "compute_seconds_total"),
            "increase of queue_seconds_total over increase of compute_seconds_total",
        ),
    ),
)


def queue_to_compute(queued: float, computed: float, seconds: float) -> float:
    """Δqueue ÷ Δcompute over a window of so many seconds.

    Idle is 0. If work waits and nothing computes, the denominator is one request over the window, so that
    the ratio is finite and grows with the queue.
    """
    if not queued > 0.0:
        return nan if queued != queued else 0.0
    return queued / (computed if computed > 0.0 else seconds)
