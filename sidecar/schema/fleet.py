"""What the role `fleet` serves: sums over sidecars, and how many of them it hears.

Every name begins with `fleet_`: who scrapes the sidecars and the fleet role never adds both up.
"""

from __future__ import annotations

from sidecar.schema.model import Signal, counter, gauge

S, REQ, TOK, RATIO = "seconds", "requests", "tokens", "ratio"

FLEET: tuple[Signal, ...] = (
    gauge(
        "fleet_replicas",
        "Replicas, one a target of a sidecar: listed, taken to serve, answering with fresh numbers.",
        unit="replicas",
        labels=("state",),
    ),
    gauge(
        "fleet_replica_demand",
        "Replicas that the present traffic needs; absent while no replica answers.",
        unit="replicas",
    ),
    gauge(
        "fleet_offered_load_requests", "Requests that would execute at once if none had to wait.", unit=REQ
    ),
    gauge("fleet_requests_running", "Requests in execution batches.", unit=REQ),
    gauge("fleet_requests_waiting", "Requests accepted and not yet executing.", unit=REQ),
    gauge("fleet_queued_gpu_seconds", "GPU time that the queues stand for.", unit=S),
    gauge(
        "fleet_queue_to_compute_ratio",
        "Request-seconds waiting over request-seconds executing, of all replicas; idle is 0.",
        unit=RATIO,
        labels=("window",),
    ),
    gauge("fleet_kv_cache_usage_ratio", "Share of all KV caches in use, weighted by size.", unit=RATIO),
    gauge("fleet_service_time_seconds", "Median service time; the last one while none is told.", unit=S),
    gauge(
        "fleet_idle_inter_token_latency_seconds",
        "Median gap between tokens of a lone request; the last one while none is told.",
        unit=S,
    ),
    gauge(
        "fleet_capacity_requests",
        "Median of the requests that a replica can execute at once; the last one while none is told.",
        unit=REQ,
    ),
    gauge(
        "fleet_decided_replicas",
        "Answering replicas by the limit and the term that decide their demand.",
        unit="replicas",
        labels=("limit", "reason"),
    ),
    gauge(
        "fleet_saturation_ratio",
        "Use of a resource over its limit, of the fullest replica.",
        unit=RATIO,
        labels=("resource",),
    ),
    gauge("fleet_router_in_flight_requests", "Requests in flight, as the router tells.", unit=REQ),
    gauge("fleet_router_up", "1 while the router's page is understood, else 0; absent without a router."),
    counter("fleet_queue_seconds_total", "Request-seconds spent waiting, seen by this process.", unit=S),
    counter("fleet_compute_seconds_total", "Request-seconds spent executing, seen by this process.", unit=S),
    counter("fleet_arrivals_total", "Requests that have come, seen by this process.", unit=REQ),
    counter("fleet_requests_total", "Requests finished, by outcome.", unit=REQ, labels=("outcome",)),
    counter("fleet_prompt_tokens_total", "Prompt tokens processed.", unit=TOK),
    counter("fleet_generation_tokens_total", "Tokens generated.", unit=TOK),
    counter(
        "fleet_accepted_generation_tokens_total", "Tokens generated while every objective held.", unit=TOK
    ),
    counter("fleet_accepted_requests_total", "Requests that succeeded while every objective held.", unit=REQ),
    counter("fleet_slo_events_total", "Events that an objective judges.", labels=("slo",)),
    counter("fleet_slo_bad_events_total", "Events that missed the objective.", labels=("slo", "bound")),
    counter("fleet_energy_joules_total", "Energy of the replicas' GPUs.", unit="joules"),
    counter("fleet_cost_total", "GPU-hours times their price.", labels=("currency",)),
    gauge(
        "fleet_discovery_success", "1 when the last look for replicas succeeded; else the last list holds."
    ),
    counter("fleet_reads_total", "Readings of sidecars by result.", labels=("result",)),
    gauge(
        "fleet_failing_sidecars",
        "Listed sidecars by how their last reading failed.",
        unit="sidecars",
        labels=("result",),
    ),
    counter(
        "fleet_scaler_answers_total",
        "Answers to KEDA by method and gRPC status.",
        labels=("method", "code"),
    ),
    counter(
        "fleet_scaler_answer_seconds_total",
        "Time that answers to KEDA took; over their number it is the mean.",
        unit=S,
        labels=("method",),
    ),
)
