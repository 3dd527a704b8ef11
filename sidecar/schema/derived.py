"""Signals that the sidecar derives, and its objectives' counters."""

from __future__ import annotations

from sidecar.schema.model import Agg, Signal, counter, gauge

S, REQ, TOK, RATIO = "seconds", "requests", "tokens", "ratio"
SUM = Agg.SUM

DERIVED: tuple[Signal, ...] = (
    gauge("requests_waiting_peak", "Highest requests_waiting of the polls of the last 60 s.", unit=REQ),
    gauge("requests_running_peak", "Highest requests_running of the polls of the last 60 s.", unit=REQ),
    gauge("kv_cache_usage_peak_ratio", "Highest kv_cache_usage_max_ratio of the last 60 s.", unit=RATIO),
    counter("queue_seconds_total", "Request-seconds spent waiting.", unit=S, agg=SUM),
    counter("compute_seconds_total", "Request-seconds spent executing.", unit=S, agg=SUM),
    gauge(
        "queue_to_compute_ratio",
        "Request-seconds waiting over request-seconds executing, of the window; idle is 0.",
        unit=RATIO,
        labels=("window",),
    ),
    counter("arrivals_total", "Requests that have come, finished or not.", unit=REQ, agg=SUM),
    gauge("service_time_seconds", "Mean time that a request executes, of late.", unit=S),
    gauge("idle_inter_token_latency_seconds", "Gap between two tokens of a lone request.", unit=S),
    gauge(
        "offered_load_requests",
        "Requests that would execute at once if none had to wait: what runs, and what comes beyond that.",
        unit=REQ,
        agg=SUM,
    ),
    gauge(
        "capacity_requests",
        "Requests that one replica can execute at once; the smallest limit counts.",
        unit=REQ,
        labels=("limit",),
    ),
    gauge(
        "saturation_ratio",
        "Use of a resource over its limit; may exceed 1. `max` is the largest.",
        unit=RATIO,
        labels=("resource",),
    ),
    gauge(
        "replica_demand",
        "Replicas that the present traffic of this replica needs; the sum over replicas is the fleet's size.",
        unit="replicas",
        agg=SUM,
    ),
    gauge(
        "replica_demand_info",
        "Which limit and which term have decided the demand.",
        labels=("limit", "reason"),
    ),
    gauge("queued_gpu_seconds", "GPU time that the queue stands for.", unit=S, agg=SUM),
    counter(
        "accepted_generation_tokens_total",
        "Tokens generated while every objective of the model held.",
        unit=TOK,
        agg=SUM,
    ),
    counter(
        "accepted_requests_total",
        "Requests that succeeded while every objective of the model held.",
        unit=REQ,
        agg=SUM,
    ),
    counter(
        "energy_joules_total", "Energy of the replica's GPUs, seen by the sidecar.", unit="joules", agg=SUM
    ),
    counter("cost_total", "GPU-hours times their price, seen by the sidecar.", labels=("currency",), agg=SUM),
    gauge("safe_to_remove", "1 when nothing runs and nothing waits."),
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
    gauge(
        "slo_accounts_refused",
        "Pairs of an objective and a model of the target that nobody judges: there are too many of them.",
    ),
)
