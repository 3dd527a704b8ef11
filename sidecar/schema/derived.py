"""Signals that the sidecar derives, and its objectives' counters."""

from __future__ import annotations

from sidecar.schema.model import Agg, Signal, counter, gauge

S, REQ, RATIO = "seconds", "requests", "ratio"

DERIVED: tuple[Signal, ...] = (
    gauge("requests_waiting_peak", "Highest requests_waiting of the polls of the last 60 s.", unit=REQ),
    gauge("requests_running_peak", "Highest requests_running of the polls of the last 60 s.", unit=REQ),
    gauge("kv_cache_usage_peak_ratio", "Highest kv_cache_usage_max_ratio of the last 60 s.", unit=RATIO),
)

SLO: tuple[Signal, ...] = (
    counter("slo_events_total", "Events that an objective judges.", labels=("slo",), agg=Agg.SUM),
    counter(
        "slo_bad_events_total",
        "Events that missed the objective; bounds differ where the threshold lies between buckets.",
        labels=("slo", "bound"),
        agg=Agg.SUM,
    ),
    gauge("slo_burn_rate", "Error ratio of the window over the error budget.", labels=("slo", "window")),
    gauge(
        "slo_window_coverage_ratio",
        "Share of the window that the sidecar has seen.",
        unit=RATIO,
        labels=("slo", "window"),
    ),
    gauge(
        "slo_error_budget_remaining_ratio",
        "Error budget left over the period, as far as the sidecar has seen it.",
        unit=RATIO,
        labels=("slo",),
    ),
    gauge(
        "slo_info",
        "The objectives, as configured, and whether they can be measured.",
        labels=("slo", "signal", "threshold", "objective", "period", "status", "method"),
    ),
)
