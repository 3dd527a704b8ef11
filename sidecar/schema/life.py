"""Life of a target: is it there, is it ready, what runs, how fresh and how complete are its numbers."""

from __future__ import annotations

from sidecar.schema.model import Signal, counter, gauge, histogram

S = "seconds"

#: Classes of a scrape's result: the label `result` of `target_scrapes_total`.
SCRAPE_RESULTS: tuple[str, ...] = (
    "ok",
    "refused",
    "timeout",
    "dns",
    "tls",
    "unauthorized",
    "not_found",
    "http_error",
    "not_metrics",
    "too_large",
    "parse_error",
)

STARTUP_PHASES: tuple[str, ...] = ("to_port", "to_healthy", "to_ready", "to_first_token")

LIFE: tuple[Signal, ...] = (
    gauge("target_up", "1 when the last scrape was understood."),
    gauge("target_ready", "1 when the runtime's own readiness endpoint says so."),
    gauge("target_live", "1 when the runtime's own liveness endpoint says so."),
    gauge("target_last_success_timestamp_seconds", "When a scrape was last understood.", unit=S),
    histogram("target_scrape_duration_seconds", "Fetch, parse and map of one scrape.", unit=S),
    counter("target_scrapes_total", "Scrapes by result.", labels=("result",)),
    counter("target_restarts_total", "Restarts seen: counters fell or the start time moved."),
    gauge("target_start_timestamp_seconds", "Process start of the runtime, where known.", unit=S),
    gauge(
        "startup_phase_seconds",
        "Consecutive phases of the cold start; they sum to it.",
        unit=S,
        labels=("phase",),
    ),
    gauge(
        "progress_age_seconds",
        "While work is in flight: time since any progress counter moved. Absent when idle.",
        unit=S,
    ),
    gauge("target_wedged", "1 when work is in flight and nothing has progressed for wedged_after."),
    gauge(
        "runtime_info",
        "What runs.",
        labels=("version", "engine", "engine_version", "image", "image_digest", "profile"),
    ),
    gauge(
        "model_info",
        "What is served.",
        labels=(
            "model_root",
            "model_digest",
            "quantization",
            "max_context_tokens",
            "tensor_parallel",
            "pipeline_parallel",
            "data_parallel",
        ),
    ),
    gauge(
        "signal_info",
        "Coverage and provenance of each signal of the schema.",
        labels=("signal", "status", "method", "source", "scope"),
    ),
    gauge("unmapped_families", "Native families seen and not mapped; doctor lists them."),
)
