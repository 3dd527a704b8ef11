"""The fleet role: what it sees of the sidecars, what it makes of that, what it tells KEDA.

Several roles run side by side and say the same of the fleet: of them the highest counts, never their sum. What
each of them does itself (reads, answers) is added up.
"""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.autoscaling import HPA, SCALER
from sidecar.outputs.dashboards.dashboard import IN_NAMESPACE, Dashboard, Section, datasource, variable
from sidecar.outputs.dashboards.panels import (
    BAD,
    CALM,
    GOOD,
    WARN,
    Query,
    falling,
    lines,
    rising,
    stat,
    states,
)

_ROLE = 'namespace=~"$namespace", job=~"$fleet"'
_MODEL = f'{_ROLE}, model_name=~"$model"'
_LISTED, _READY, _ANSWERING = (f'state="{state}"' for state in ("listed", "ready", "answering"))


def _said(signal: str, more: str = "", by: str = "", where: str = _MODEL) -> str:
    """A gauge: once a fleet and model, then summed."""
    return f"{q.summed(by)} ({_once(q.of(f'fleet_{signal}', more, where), by)})"


def _highest(signal: str, more: str = "", by: str = "", where: str = _MODEL) -> str:
    return q.highest(f"fleet_{signal}", more, by, where)


def _grows(signal: str, more: str = "", by: str = "") -> str:
    """A counter of the replicas' work: what the role that saw most of it has seen, a second."""
    rate = f"rate({q.of(f'fleet_{signal}', more, _MODEL)}[$__rate_interval])"
    return f"{q.summed(by)} ({_once(rate, by)})"


def _does(signal: str, more: str = "", by: str = "") -> str:
    """A counter of the roles' own work."""
    return q.rate(f"fleet_{signal}", more, by, _ROLE)


def _once(expr: str, by: str) -> str:
    labels = dict.fromkeys(["namespace", "job", "model_name", *filter(None, by.split(", "))])
    return f"max by ({', '.join(labels)}) ({expr})"


def _replicas(state: str) -> str:
    return _said("replicas", state, where=_ROLE)


def _by_fleet(state: str) -> str:
    return _highest("replicas", state, "namespace, job", _ROLE)


#: 0: nobody answers; 1: some do; 2: all do; 3: there is nobody.
_SIGHT = (
    f"({_by_fleet(_ANSWERING)} > bool 0) * (1 + ({_by_fleet(_ANSWERING)} >= bool on (namespace, job) "
    f"{_by_fleet(_READY)})) + 3 * ({_by_fleet(_LISTED)} == bool 0)"
)
#: Of the roles' processes alone.
_EACH = f"on (namespace, job, instance) inference_fleet_replicas{{{_ROLE}, {_LISTED}}}"
_OK = 'code="OK"'
_UNARY = 'method!="StreamIsActive"'
_OK_SHARE = f"{_does('scaler_answers_total', _OK)} / ({_does('scaler_answers_total')} > 0)"
#: What has not happened yet has no series.
_NONE = f"{_replicas(_LISTED)} * 0"
_FAIL = f"{_said('failing_sidecars', '', 'result', _ROLE)} > 0"
_FAILING = f'{_FAIL} or (label_replace({_NONE}, "result", "none", "", "") unless on () ({_FAIL}))'

SIGHT = Section(
    "What it sees",
    (
        stat(
            "Replicas needed",
            "none",
            "What KEDA is told: the sum over those that answer, for all that are ready. "
            "Absent while nobody answers.",
            Query(_said("replica_demand")),
            width=3,
            decimals=2,
        ),
        stat("Ready", "none", "Replicas that are taken to serve.", Query(_replicas(_READY)), width=3),
        stat(
            "Answering",
            "percentunit",
            "Replicas with fresh numbers, of those that are ready. The others are taken to need what these need.",
            Query(f"{_replicas(_ANSWERING)} / ({_replicas(_READY)} > 0)"),
            falling(0.5, 0.95),
            width=3,
            decimals=0,
        ),
        stat(
            "Failing",
            "none",
            "Listed sidecars whose last reading failed. /v1/fleet of the role names each, with its cause.",
            Query(f"{_said('failing_sidecars', where=_ROLE)} or {_NONE}"),
            rising(1, 5),
            width=3,
        ),
        stat(
            "List of replicas",
            "none",
            "Whether the last look for replicas succeeded; else the last list holds.",
            Query(f"min (inference_fleet_discovery_success{{{_ROLE}}})"),
            words={"1": ("fresh", GOOD), "0": ("an old one", BAD)},
            width=3,
            graph=False,
        ),
        stat(
            "Router",
            "none",
            "Whether the router's page is understood: without it nobody wakes a fleet of none. "
            "No data where no router is set.",
            Query(f"min (inference_fleet_router_up{{{_ROLE}}})"),
            words={"1": ("read", GOOD), "0": ("silent", BAD)},
            width=3,
            graph=False,
        ),
        stat(
            "Answers to KEDA",
            "percentunit",
            "Answers that are a value. The others say why there is none, and KEDA holds the size.",
            Query(_OK_SHARE),
            falling(0.5, 0.99),
            width=3,
            decimals=0,
        ),
        stat(
            "Roles",
            "none",
            "Processes of the role. Two, so that KEDA is never without an answer.",
            Query(f"count (inference_fleet_replicas{{{_ROLE}, {_LISTED}}})"),
            falling(1, 2),
            width=3,
        ),
        lines(
            "Needed, there, wanted",
            "none",
            "The demand beside the replicas that are ready and what the Horizontal Pod Autoscaler wants. While "
            "nobody answers there is no demand, and the size is held.",
            Query(_said("replica_demand"), "needed"),
            Query(_replicas(_READY), "ready"),
            Query(_replicas(_ANSWERING), "answering"),
            Query(
                "sum by (horizontalpodautoscaler) "
                f"(kube_horizontalpodautoscaler_status_desired_replicas{{{HPA}}})",
                "{{horizontalpodautoscaler}} wants",
            ),
            width=12,
        ),
        lines(
            "Failing now, by cause",
            "none",
            "Sidecars whose last reading failed, by how. /v1/fleet of the role names each.",
            Query(_FAILING, "{{result}}"),
            stack=True,
            width=12,
        ),
        states(
            "Sight",
            "Green: every sidecar that should answer does. Orange: some are blind, the others stand for them. "
            "Red: nobody answers. Blue: there is no replica.",
            Query(_SIGHT, "{{job}}"),
            words={
                "2": ("all answer", GOOD),
                "1": ("some are blind", WARN),
                "0": ("nobody answers", BAD),
                "3": ("no replica", CALM),
            },
            height=3,
        ),
    ),
)

LOAD = Section(
    "What the load needs, and why",
    (
        lines(
            "Load",
            "none",
            "Requests that would run at once, that run, that wait; in flight as the router tells.",
            Query(_said("offered_load_requests"), "offered"),
            Query(_said("requests_running"), "running"),
            Query(_said("requests_waiting"), "waiting"),
            Query(_said("router_in_flight_requests", where=_ROLE), "at the router"),
        ),
        lines(
            "Replicas by what limits them",
            "none",
            "Answering replicas by the limit that binds (slots, KV cache, latency objective, observed) and the "
            "term that decides.",
            Query(_said("decided_replicas", "", "limit, reason"), "{{limit}}: {{reason}}"),
            stack=True,
        ),
        lines(
            "Saturation",
            "percentunit",
            "Use of slots, KV cache and memory over their limits, the fullest replica.",
            Query(_highest("saturation_ratio", q.RESOURCES, "resource"), "{{resource}}"),
            level=1,
        ),
        lines(
            "Capacity of a replica",
            "none",
            "Requests that it can execute at once, the median; the last one while none is told.",
            Query(_highest("capacity_requests", "", "model_name"), "{{model_name}}"),
        ),
        lines(
            "Service time",
            "s",
            "Mean time that a request executes, the median of the replicas; the last one while none is told.",
            Query(_highest("service_time_seconds", "", "model_name"), "{{model_name}}"),
        ),
        lines(
            "Idle gap",
            "s",
            "Gap between tokens of a lone request, the median of the replicas: capacity under a latency "
            "objective is reckoned from it.",
            Query(_highest("idle_inter_token_latency_seconds", "", "model_name"), "{{model_name}}"),
        ),
        lines(
            "Queue to compute",
            "none",
            "Request-seconds waiting for each request-second of work, over the fleet and a minute.",
            Query(_highest("queue_to_compute_ratio", "", "model_name, window"), "{{model_name}} {{window}}"),
        ),
        lines(
            "Queued GPU time",
            "s",
            "GPU-seconds that the queues stand for.",
            Query(_said("queued_gpu_seconds", "", "model_name"), "{{model_name}}"),
        ),
        lines(
            "KV cache",
            "percentunit",
            "Share of all KV caches in use, weighted by their size.",
            Query(_highest("kv_cache_usage_ratio", "", "model_name"), "{{model_name}}"),
            high=1,
        ),
    ),
)

READING = Section(
    "What it does",
    (
        lines(
            "Readings of sidecars",
            "ops",
            "By result, over all roles.",
            Query(_does("reads_total", "", "result"), "{{result}}"),
            stack=True,
        ),
        lines(
            "Answers to KEDA",
            "ops",
            "By method and gRPC status, over all roles. UNAVAILABLE: nobody can see; INVALID_ARGUMENT: the "
            "trigger's metadata can't be used.",
            Query(_does("scaler_answers_total", "", "method, code"), "{{method}} {{code}}"),
        ),
        lines(
            "Time of an answer",
            "s",
            "Mean, by method. Answers come from memory: microseconds, unless the process has no core.",
            Query(
                f"{_does('scaler_answer_seconds_total', '', 'method')} / "
                f"({_does('scaler_answers_total', _UNARY, 'method')} > 0)",
                "{{method}}",
            ),
        ),
        lines(
            "Processor",
            "percentunit",
            "Share of a core, each role.",
            Query(
                f"rate(process_cpu_seconds_total{{{_ROLE}}}[$__rate_interval]) and {_EACH}",
                "{{instance}}",
            ),
        ),
        lines(
            "Memory",
            "bytes",
            "Resident memory, each role.",
            Query(
                f"process_resident_memory_bytes{{{_ROLE}}} and {_EACH}",
                "{{instance}}",
            ),
        ),
        lines(
            "Loop lag",
            "s",
            "How late the event loop ran a timer, each role.",
            Query(
                f"inference_sidecar_loop_lag_seconds{{{_ROLE}}} and {_EACH}",
                "{{instance}}",
            ),
        ),
    ),
)

WORK = Section(
    "What the replicas did, as this role saw it",
    (
        lines(
            "Arrivals and completions",
            "reqps",
            "Requests that come, and that finish by outcome.",
            Query(_grows("arrivals_total"), "arrive"),
            Query(_grows("requests_total", "", "outcome"), "{{outcome}}"),
        ),
        lines(
            "Tokens",
            "none",
            "A second: prompts, answers, and answers while every objective held.",
            Query(_grows("prompt_tokens_total"), "prompt"),
            Query(_grows("generation_tokens_total"), "generated"),
            Query(_grows("accepted_generation_tokens_total"), "accepted"),
        ),
        lines(
            "Objectives missed",
            "percentunit",
            "Share of the events that surely missed.",
            Query(
                f"{_grows('slo_bad_events_total', q.BAD, 'slo')} / ({_grows('slo_events_total', '', 'slo')} > 0)",
                "{{slo}}",
            ),
        ),
        lines(
            "Accepted requests",
            "reqps",
            "Requests that succeeded while every objective held.",
            Query(_grows("accepted_requests_total", "", "model_name"), "{{model_name}}"),
        ),
        lines(
            "Request-seconds",
            "none",
            "A second: how many requests wait and how many execute, on average.",
            Query(_grows("queue_seconds_total"), "waiting"),
            Query(_grows("compute_seconds_total"), "executing"),
        ),
        lines(
            "Power",
            "watt",
            "Of the replicas' GPUs, from their energy.",
            Query(_grows("energy_joules_total"), "power"),
        ),
        lines(
            "Cost an hour",
            "none",
            "GPU-hours times their price, by currency.",
            Query(f"{_grows('cost_total', '', 'currency')} * 3600", "{{currency}}"),
        ),
    ),
    closed=True,
)

_OF_ROLE = (
    datasource(),
    variable("namespace", "Namespace", "inference_fleet_replicas", "namespace"),
    variable("fleet", "Fleet", "inference_fleet_replicas", "job", IN_NAMESPACE),
    variable("model", "Model", "inference_fleet_requests_running", "model_name", _ROLE),
)

ROLE = Dashboard(
    "inference-fleet-role",
    "Inference / Fleet role",
    "Whether the fleet role sees its sidecars, how many replicas the load needs and why, what KEDA is told.",
    (SIGHT, LOAD, SCALER, READING, WORK),
    _OF_ROLE,
    span="now-3h",
)
