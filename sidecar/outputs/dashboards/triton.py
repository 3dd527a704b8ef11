"""Models of Triton and of other servers that execute batches: queue, compute, batching."""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import (
    IN_NAMESPACE,
    NAMESPACE,
    OF_RUNTIMES,
    Dashboard,
    Section,
    datasource,
    variable,
)
from sidecar.outputs.dashboards.panels import Query, lines, rising, stat
from sidecar.outputs.dashboards.tables import Column, table

#: All means all that execute batches: language models' engines are left to the other dashboards.
BATCHING = variable("runtime", "Runtime", "inference_model_executions_total", "runtime", IN_NAMESPACE) | {
    "allValue": None
}

_BY = "model_name, model_version"
_NAME = "{{model_name}} {{model_version}}"


def _over(above: str, below: str, by: str = _BY) -> str:
    return f"{q.rate(above, by=by)} / ({q.rate(below, by=by)} > 0)"


MODELS = Section(
    "Models",
    (
        stat(
            "Inferences",
            "ops",
            "Inferences a second, batched ones each.",
            Query(q.rate("model_inferences_total")),
        ),
        stat("Executions", "ops", "Batches a second.", Query(q.rate("model_executions_total"))),
        stat(
            "Batch, mean",
            "none",
            "Inferences an execution: above 1 the batcher works.",
            Query(f"{q.rate('model_inferences_total')} / ({q.rate('model_executions_total')} > 0)"),
            decimals=2,
        ),
        stat(
            "Failed",
            "percentunit",
            "Failed of the requests that were answered.",
            Query(q.failed_share()),
            rising(0.005, 0.02),
            decimals=2,
        ),
        stat(
            "Waiting",
            "none",
            "Requests that wait for an instance.",
            Query(q.total("requests_waiting")),
            rising(5, 50),
        ),
        stat(
            "Queue to compute",
            "none",
            "Time in the queue for each second of compute.",
            Query(f"{q.rate('queue_seconds_total')} / ({q.rate('compute_seconds_total')} > 0)"),
            rising(0.5, 1),
            decimals=2,
        ),
        table(
            "Models and versions",
            "One row a version of a model. Means are of the requests since the last point.",
            {"model_name": "Model", "model_version": "Version"},
            (
                Column("Inferences/s", "ops", q.rate("model_inferences_total", by=_BY), decimals=1),
                Column(
                    "Batch, mean",
                    "none",
                    _over("model_inferences_total", "model_executions_total"),
                    decimals=2,
                ),
                Column("Failed", "percentunit", q.failed_share(_BY), rising(0.005, 0.02), decimals=2),
                Column("Queue, mean", "s", q.mean("request_queue_time_seconds", _BY)),
                Column("Compute, mean", "s", q.mean("request_inference_time_seconds", _BY)),
                Column("Whole, mean", "s", q.mean("e2e_request_latency_seconds", _BY)),
                Column("Waiting", "none", q.total("requests_waiting", by=_BY), rising(5, 50)),
                Column("Load time", "s", q.highest("model_load_seconds", by=_BY)),
            ),
            sort="Inferences/s",
        ),
    ),
)

TIME = Section(
    "Over time",
    (
        lines("Inferences", "ops", "By model.", Query(q.rate("model_inferences_total", by=_BY), _NAME)),
        lines(
            "Batch, mean",
            "none",
            "Inferences an execution.",
            Query(_over("model_inferences_total", "model_executions_total"), _NAME),
        ),
        lines(
            "Waiting",
            "none",
            "Requests that wait for an instance.",
            Query(q.total("requests_waiting", by=_BY), _NAME),
        ),
        lines(
            "Queue time, mean",
            "s",
            "From sums: Triton has no buckets without --metrics-config histogram_latencies.",
            Query(q.mean("request_queue_time_seconds", _BY), _NAME),
        ),
        lines(
            "Compute time, mean",
            "s",
            "Input, inference and output.",
            Query(q.mean("request_inference_time_seconds", _BY), _NAME),
        ),
        lines(
            "Queue to compute",
            "none",
            "Above 1 requests wait longer than they are worked on.",
            Query(_over("queue_seconds_total", "compute_seconds_total", "model_name"), "{{model_name}}"),
            level=1,
        ),
        lines(
            "Requests by outcome",
            "reqps",
            "As the server counts them.",
            Query(q.rate("requests_total", by="outcome"), "{{outcome}}"),
            stack=True,
            width=12,
        ),
        lines(
            "Whole request, mean",
            "s",
            "Arrival to answer.",
            Query(q.mean("e2e_request_latency_seconds", _BY), _NAME),
            width=12,
        ),
    ),
)

TRITON = Dashboard(
    "inference-triton",
    "Inference / Triton models",
    "Queue, compute and batching of each model and version.",
    (MODELS, TIME),
    (datasource(), NAMESPACE, BATCHING, *OF_RUNTIMES[3:]),
)
