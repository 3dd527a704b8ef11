"""What the sidecar's own completions show, timed on the client: the same definition for every runtime."""

from __future__ import annotations

from sidecar.schema.model import Agg, Signal, counter, gauge, histogram

S, REQ, TOK = "seconds", "requests", "tokens"

#: How a probe ended: the label `result` of `probe_requests_total`.
PROBE_RESULTS: tuple[str, ...] = (
    "ok",
    "refused",
    "timeout",
    "dns",
    "tls",
    "unauthorized",
    "not_found",
    "bad_request",
    "rejected",
    "http_error",
    "not_a_stream",
    "failed",
    "empty",
    "cut",
    "too_large",
)

PROBE: tuple[Signal, ...] = (
    gauge(
        "probe_success", "1 when the last probe was answered to its end. Absent when there was none of late."
    ),
    histogram(
        "probe_time_to_first_token_seconds",
        "From the request's being sent to its first token, as a client sees it.",
        unit=S,
        agg=Agg.SUM,
    ),
    histogram(
        "probe_inter_token_latency_seconds",
        "Gap between two tokens as a client sees it, one observation a gap.",
        unit=S,
        agg=Agg.SUM,
    ),
    counter("probe_requests_total", "Probes by result.", unit=REQ, labels=("result",), agg=Agg.SUM),
    counter("probe_prompt_tokens_total", "Prompt tokens of probes.", unit=TOK, agg=Agg.SUM),
    counter("probe_generation_tokens_total", "Tokens generated for probes.", unit=TOK, agg=Agg.SUM),
)
