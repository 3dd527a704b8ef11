"""Autoscaling: what the load needs, what there is, which limit decides, what the scaler makes of it."""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import OF_RUNTIMES, Dashboard, Section
from sidecar.outputs.dashboards.panels import BAD, Query, dashed, lines, rising, stat

_READY = q.total("target_ready", where=q.TARGET)
HPA = 'namespace=~"$namespace"'
_KEDA = 'exported_namespace=~"$namespace"'
_RATIO = f"{q.rate('queue_seconds_total')} / ({q.rate('compute_seconds_total')} > 0)"

DEMAND = Section(
    "Demand against replicas",
    (
        stat(
            "Replicas needed",
            "none",
            "The sum of the replicas' demand: what a ScaledObject scales on, with a target of 1.",
            Query(q.total("replica_demand")),
            decimals=2,
        ),
        stat("Replicas ready", "none", "Targets whose readiness endpoint says so.", Query(_READY)),
        stat(
            "Load over capacity",
            "percentunit",
            "Replicas needed for each that is ready. Above 100 % the queue grows.",
            Query(f"{q.total('replica_demand')} / ({_READY} > 0)"),
            rising(0.9, 1.1),
            decimals=0,
        ),
        stat(
            "Queue to compute",
            "none",
            "Request-seconds waiting for each request-second of work, over the fleet.",
            Query(_RATIO),
            rising(0.1, 0.5),
            decimals=2,
        ),
        stat(
            "Queued GPU time",
            "s",
            "GPU-seconds that the queue stands for.",
            Query(q.total("queued_gpu_seconds")),
        ),
        stat(
            "Safe to remove",
            "none",
            "Replicas with nothing running and nothing waiting.",
            Query(q.total("safe_to_remove", where=q.TARGET)),
        ),
        lines(
            "Needed and ready",
            "none",
            "Demand adds up over replicas, so it is compared with their number.",
            Query(q.total("replica_demand"), "needed"),
            Query(_READY, "ready"),
            width=12,
        ),
        lines(
            "Needed, by what decides",
            "none",
            "Demand by the limit that binds (slots, KV cache, latency objective, observed) and the term "
            "that decided.",
            Query(
                f"sum by (limit, reason) ({q.of('replica_demand')} * on (namespace, job, instance, target, "
                "model_name) "
                f"group_left (limit, reason) {q.of('replica_demand_info')})",
                "{{limit}}: {{reason}}",
            ),
            stack=True,
            width=12,
        ),
    ),
)

WHY = Section(
    "Why",
    (
        lines(
            "Load and capacity",
            "none",
            "Requests that would run at once, and how many can, by limit, summed over replicas. The "
            "lowest limit counts.",
            Query(q.total("offered_load_requests"), "load"),
            Query(q.total("capacity_requests", by="limit"), "capacity: {{limit}}"),
        ),
        lines(
            "Saturation",
            "percentunit",
            "Use of slots, KV cache and memory over their limits, the fullest replica.",
            Query(q.highest("saturation_ratio", q.RESOURCES, "resource"), "{{resource}}"),
            level=1,
        ),
        lines(
            "Queue to compute",
            "none",
            "From counters over the fleet, and each replica's own over 60 s.",
            Query(_RATIO, "fleet"),
            Query(q.highest("queue_to_compute_ratio", "", "target, window"), "{{target}} {{window}}"),
        ),
        lines(
            "Arrivals and completions",
            "reqps",
            "While more come than finish, the queue grows.",
            Query(q.rate("arrivals_total"), "arrive"),
            Query(q.rate("requests_total"), "finish"),
        ),
        lines(
            "Service time",
            "s",
            "Mean time that a request executes. It grows with the batch.",
            Query(q.highest("service_time_seconds", "", "model_name"), "{{model_name}}"),
        ),
        lines(
            "Cold start",
            "s",
            "What a new replica takes: the phases of the last start, the slowest target.",
            Query(f"max by (phase) ({q.of('startup_phase_seconds', where=q.TARGET)})", "{{phase}}"),
            stack=True,
        ),
    ),
)

SCALER = Section(
    "What the scaler does (kube-state-metrics and KEDA, where they are)",
    (
        lines(
            "Horizontal Pod Autoscaler",
            "none",
            "Replicas wanted and present, within the bounds.",
            Query(
                "sum by (horizontalpodautoscaler) "
                f"(kube_horizontalpodautoscaler_status_desired_replicas{{{HPA}}})",
                "{{horizontalpodautoscaler}} wanted",
            ),
            Query(
                "sum by (horizontalpodautoscaler) "
                f"(kube_horizontalpodautoscaler_status_current_replicas{{{HPA}}})",
                "{{horizontalpodautoscaler}} present",
            ),
            Query(
                f"sum by (horizontalpodautoscaler) (kube_horizontalpodautoscaler_spec_max_replicas{{{HPA}}})",
                "most",
            ),
            overrides=(dashed("most", BAD),),
        ),
        lines(
            "KEDA: value of the triggers",
            "none",
            "What KEDA last read. It stands still while a trigger fails: look at the errors beside it.",
            Query(
                f"max by (scaledObject, metric) (keda_scaler_metrics_value{{{_KEDA}}})",
                "{{scaledObject}} {{metric}}",
            ),
        ),
        lines(
            "KEDA: errors",
            "ops",
            "Errors of triggers. A scaler that can't read must hold, never scale to 0.",
            Query(
                f"sum by (scaledObject) (rate(keda_scaler_detail_errors_total{{{_KEDA}}}[$__rate_interval]))"
                f" or sum by (scaledObject) (rate(keda_scaler_errors{{{_KEDA}}}[$__rate_interval]))",
                "{{scaledObject}}",
            ),
        ),
    ),
)

AUTOSCALING = Dashboard(
    "inference-autoscaling",
    "Inference / Autoscaling",
    "How many replicas the load needs, why, and what the scaler makes of it.",
    (DEMAND, WHY, SCALER),
    OF_RUNTIMES,
    span="now-3h",
)
