"""Queue seconds and compute seconds: request-seconds spent waiting and executing, as counters.

By Little's law the integrals of the gauges equal, in a steady state, the sums of queue time and inference
time over the requests. They lead these: a runtime observes a request's times when it is scheduled or when it
ends, its gauges move at once.
"""

from __future__ import annotations

from sidecar.signals.formula import Formula, Way

QUEUE_SECONDS = Formula(
    "queue_seconds_total",
    (
        Way(("requests_waiting", "requests_running"), "integral of requests_waiting"),
        Way(
            ("request_queue_time_seconds", "request_inference_time_seconds"),
            "sum of request_queue_time_seconds",
        ),
        Way(("requests_waiting",), "integral of requests_waiting"),
        Way(("request_queue_time_seconds",), "sum of request_queue_time_seconds"),
    ),
)
COMPUTE_SECONDS = Formula(
    "compute_seconds_total",
    (
        Way(("requests_running",), "integral of requests_running"),
        Way(("request_inference_time_seconds",), "sum of request_inference_time_seconds"),
    ),
)


def trapezoid(before: float, after: float, seconds: float) -> float:
    """∫ of a gauge between two polls."""
    return 0.5 * (before + after) * seconds


def mean_level(increase: float, seconds: float) -> float:
    """How many requests were at it on average, where only their time is counted."""
    return increase / seconds if seconds > 0 else 0.0
