"""Model and replica detail: phases, batch, tokens, cache, start-up, and where each number comes from."""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import OF_RUNTIMES, Dashboard, Section
from sidecar.outputs.dashboards.panels import (
    BAD,
    GOOD,
    WARN,
    Query,
    bars,
    dashed,
    falling,
    lines,
    rising,
    stat,
    states,
)
from sidecar.outputs.dashboards.probe import PROBE
from sidecar.outputs.dashboards.tables import Column, facts, table

_AGE = f"time() - {q.of('target_last_success_timestamp_seconds', where=q.TARGET)}"
_COVERED = f"count ({q.of('signal_info', q.OK, q.TARGET)})"
_RESTARTS = q.of("target_restarts_total", where=q.TARGET)

STATE = Section(
    "State",
    (
        table(
            "Replicas",
            "One row a target: is it there, how fresh are its numbers, how loaded is it.",
            {"target": "Target", "runtime": "Runtime"},
            (
                Column(
                    "Up",
                    "none",
                    q.highest("target_up", by="target, runtime", where=q.TARGET),
                    words={"1": ("up", GOOD), "0": ("down", BAD)},
                ),
                Column(
                    "Ready",
                    "none",
                    q.highest("target_ready", by="target, runtime", where=q.TARGET),
                    words={"1": ("ready", GOOD), "0": ("no", WARN)},
                ),
                Column(
                    "Age",
                    "s",
                    f"max by (target, runtime) ({_AGE})",
                    rising(10, 30),
                    decimals=0,
                ),
                Column(
                    "Restarts",
                    "none",
                    f"sum by (target, runtime) (increase({_RESTARTS}[$__range]))",
                    decimals=0,
                ),
                Column("Requests/s", "reqps", q.rate("requests_total", by="target, runtime"), decimals=1),
                Column("Running", "none", q.total("requests_running", by="target, runtime")),
                Column("Waiting", "none", q.total("requests_waiting", by="target, runtime"), rising(5, 50)),
                Column("KV cache", "percentunit", q.kv("target, runtime"), rising(0.8, 0.95), decimals=0),
                Column(
                    "TTFT p95",
                    "s",
                    q.quantile(0.95, "time_to_first_token_seconds", "target, runtime"),
                    decimals=2,
                ),
                Column("Needs", "none", q.total("replica_demand", by="target, runtime"), decimals=1),
            ),
            height=7,
            sort="Waiting",
        ),
        states(
            "Up and ready",
            "Whether the last scrape was understood, and what the readiness endpoint says.",
            Query(q.highest("target_up", by="target", where=q.TARGET), "{{target}} up"),
            Query(q.highest("target_ready", by="target", where=q.TARGET), "{{target}} ready"),
            words={"1": ("yes", GOOD), "0": ("no", BAD)},
            width=12,
        ),
        lines(
            "No progress for",
            "s",
            "While work is in flight: time since any progress counter moved. A line that climbs is a "
            "stuck engine.",
            Query(q.highest("progress_age_seconds", by="target", where=q.TARGET), "{{target}}"),
            width=6,
            height=6,
        ),
        stat(
            "Wedged",
            "none",
            "Targets with work in flight that have not progressed for longer than wedged_after.",
            Query(f"sum ({q.of('target_wedged', where=q.TARGET)})"),
            rising(1, 1),
            width=6,
            height=6,
        ),
    ),
)

PHASES = Section(
    "Where the time goes",
    (
        lines(
            "Phases of a request, mean",
            "s",
            "Queue, prefill and decode of the requests that ended, one on the other. Means add up, "
            "quantiles don't.",
            Query(q.mean("request_queue_time_seconds"), "queue"),
            Query(q.mean("request_prefill_time_seconds"), "prefill"),
            Query(q.mean("request_decode_time_seconds"), "decode"),
            stack=True,
        ),
        lines(
            "Time to first token by target",
            "s",
            "p95 of each replica: one that stands out is ill, or gets other work.",
            Query(q.quantile(0.95, "time_to_first_token_seconds", "target"), "{{target}}"),
        ),
        lines(
            "Gaps between tokens",
            "s",
            "p50 and p95 of the gaps, and the gap of a lone request: what lies between is the price of "
            "the batch.",
            Query(q.quantile(0.5, "inter_token_latency_seconds"), "{{runtime}} p50"),
            Query(q.quantile(0.95, "inter_token_latency_seconds"), "{{runtime}} p95"),
            Query(f"min ({q.of('idle_inter_token_latency_seconds')})", "alone"),
        ),
        lines(
            "Queue time",
            "s",
            "How long requests waited before they were scheduled.",
            Query(q.quantile(0.5, "request_queue_time_seconds"), "{{runtime}} p50"),
            Query(q.quantile(0.95, "request_queue_time_seconds"), "{{runtime}} p95"),
        ),
        lines(
            "Whole request",
            "s",
            "Arrival to last token.",
            Query(q.quantile(0.5, "e2e_request_latency_seconds"), "{{runtime}} p50"),
            Query(q.quantile(0.95, "e2e_request_latency_seconds"), "{{runtime}} p95"),
        ),
        lines(
            "Queue to compute",
            "none",
            "Request-seconds spent waiting for each request-second of work. It leads the queue-time histogram.",
            Query(
                f"{q.rate('queue_seconds_total', by='target')} / "
                f"({q.rate('compute_seconds_total', by='target')} > 0)",
                "{{target}}",
            ),
        ),
    ),
)

BATCH = Section(
    "Batch, tokens and cache",
    (
        lines(
            "Batch",
            "none",
            "Requests in the batch, waiting ones and their peak, and the slots that there are.",
            Query(q.total("requests_running"), "running"),
            Query(q.total("requests_waiting"), "waiting"),
            Query(q.total("requests_waiting_peak"), "waiting, peak"),
            Query(q.total("requests_running_peak"), "running, peak"),
            Query(q.total("request_slots"), "slots"),
            overrides=(dashed("slots", BAD),),
        ),
        lines(
            "Size of an iteration, mean",
            "none",
            "Requests or tokens that an iteration of the engine executed, as the runtime counts them.",
            Query(q.mean("batch_size", "target"), "{{target}}"),
        ),
        lines(
            "Preemptions",
            "ops",
            "Requests that were evicted from the batch to free KV cache: their work is done twice.",
            Query(q.rate("preemptions_total", by="target"), "{{target}}"),
        ),
        lines(
            "KV cache",
            "percentunit",
            "In use now, and the peak of the last 60 s.",
            Query(q.kv("target"), "{{target}}"),
            Query(q.highest("kv_cache_usage_peak_ratio", by="target"), "{{target}}, peak"),
            high=1,
            level=0.95,
        ),
        lines(
            "Prefix cache hits",
            "percentunit",
            "Hits over look-ups, in the runtime's own unit (tokens or blocks).",
            Query(
                f"{q.rate('prefix_cache_hits_total', by='target')} / "
                f"({q.rate('prefix_cache_queries_total', by='target')} > 0)",
                "{{target}}",
            ),
            high=1,
        ),
        lines(
            "Tokens",
            "none",
            "Tokens a second.",
            Query(q.rate("prompt_tokens_total"), "prompt"),
            Query(q.rate("generation_tokens_total"), "generated"),
        ),
        lines(
            "Tokens of a request",
            "none",
            "p95 of what requests bring and take. A change of shape changes every latency.",
            Query(q.quantile(0.95, "request_prompt_tokens"), "{{runtime}} prompt"),
            Query(q.quantile(0.95, "request_generation_tokens"), "{{runtime}} generated"),
        ),
        lines(
            "How answers end",
            "reqps",
            "Successes by finish reason: many `length` may mean that answers are cut.",
            Query(q.rate("requests_finished_total", by="reason"), "{{reason}}"),
            stack=True,
        ),
        bars(
            "KV cache capacity",
            "none",
            "Tokens that fit.",
            Query(q.total("kv_cache_capacity_tokens", by="target"), "{{target}}", instant=True),
        ),
    ),
)

START = Section(
    "Start-up",
    (
        bars(
            "Cold start by phase",
            "s",
            "Seconds from the process's start to port, healthy, ready and first token, each after the one "
            "before.",
            Query(
                f"max by (target, phase) ({q.of('startup_phase_seconds', where=q.TARGET)})",
                "{{target}} {{phase}}",
                instant=True,
            ),
            width=12,
        ),
        lines(
            "Restarts",
            "none",
            "Restarts that the sidecar has seen since the point before.",
            Query(
                f"max by (target) (increase({q.of('target_restarts_total', where=q.TARGET)}[$__rate_interval]))",
                "{{target}}",
            ),
            width=12,
        ),
    ),
)

ORIGIN = Section(
    "What runs, and where each number comes from",
    (
        facts(
            "Runtimes",
            "What runs.",
            f"max by (target, runtime, version, engine, engine_version) ({q.of('runtime_info', where=q.TARGET)})",
            {
                "target": "Target",
                "runtime": "Runtime",
                "version": "Version",
                "engine": "Engine",
                "engine_version": "Engine version",
            },
            width=8,
        ),
        facts(
            "Models",
            "What is served.",
            f"max by (target, model_name, quantization, max_context_tokens) ({q.of('model_info')})",
            {
                "target": "Target",
                "model_name": "Model",
                "quantization": "Quantization",
                "max_context_tokens": "Context",
            },
            width=8,
        ),
        stat(
            "Signals covered",
            "percentunit",
            "Signals of the schema that are there, of all that the runtime could have.",
            Query(f"{_COVERED} / count ({q.of('signal_info', where=q.TARGET)})"),
            falling(0.3, 0.6),
            width=4,
            height=8,
            decimals=0,
        ),
        stat(
            "Families not mapped",
            "none",
            "On the runtime's page and unknown to this sidecar: `doctor` lists them.",
            Query(f"sum ({q.of('unmapped_families', where=q.TARGET)})"),
            width=4,
            height=8,
        ),
        facts(
            "Signals",
            "Each signal of the schema: there or why not, how it was obtained, from which native metric, "
            "and where "
            "the clock of it sits.",
            f"max by (target, signal, status, method, source, scope) ({q.of('signal_info', where=q.TARGET)})",
            {
                "target": "Target",
                "signal": "Signal",
                "status": "Status",
                "method": "Method",
                "source": "Source",
                "scope": "Measured in",
            },
            height=14,
        ),
    ),
    closed=True,
)

_OWNER = (
    "max by (namespace, job, instance, gpu_uuid, target) "
    '(inference_gpu_allocation_info{namespace=~"$namespace", target=~"$target"})'
)


def _own(signal: str, more: str = "") -> str:
    chosen = q.of(signal, more, 'namespace=~"$namespace"')
    return f"{chosen} * on (namespace, job, instance, gpu_uuid) group_left (target) {_OWNER}"


GPUS = Section(
    "Its GPUs",
    (
        lines(
            "Busy",
            "percentunit",
            "Share of the time in which a kernel ran. It says little of how much of the GPU it used.",
            Query(_own("gpu_utilization_ratio"), "{{target}} {{gpu_uuid}}"),
            high=1,
        ),
        lines(
            "Memory in use",
            "percentunit",
            "Engines reserve nearly all of it at the start: the KV cache's usage tells more.",
            Query(
                f"({_own('gpu_memory_used_bytes')}) / on (namespace, job, instance, gpu_uuid, "
                f"gpu_instance) {q.of('gpu_memory_total_bytes', '', q.GPU.split(',')[0])}",
                "{{target}} {{gpu_uuid}}",
            ),
            high=1,
        ),
        lines(
            "Power", "watt", "Draw of each board.", Query(_own("gpu_power_watts"), "{{target}} {{gpu_uuid}}")
        ),
    ),
    closed=True,
)

REPLICA = Dashboard(
    "inference-replica",
    "Inference / Model and replica",
    "Where the time of requests goes, how full batch and cache are, and how far the numbers can be trusted.",
    (STATE, PHASES, BATCH, START, PROBE, ORIGIN, GPUS),
    OF_RUNTIMES,
)
