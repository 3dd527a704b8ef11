"""Fleet overview: do users suffer, why, what next; one row a model."""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import OF_RUNTIMES, SLO, Dashboard, Section
from sidecar.outputs.dashboards.panels import Query, falling, heatmap, lines, rising, stat
from sidecar.outputs.dashboards.tables import Column, table

TO_REPLICA = "/d/inference-replica?${__url_time_range}&${datasource:queryparam}&${namespace:queryparam}"
TO_MODEL = TO_REPLICA + "&var-model=${__data.fields.Model}"

_MISSED = f"sum (increase({q.of('slo_bad_events_total', q.BAD, q.OBJECTIVE)}[$__range]))"
_JUDGED = f"sum (increase({q.of('slo_events_total', '', q.OBJECTIVE)}[$__range]))"
_SERVING = (
    f"count by (model_name) ({q.rate('requests_total', by='namespace, job, instance, target, model_name')})"
)
_BUDGET = f"min by (model_name) ({q.budget()})"
_SCARCEST = q.highest("saturation_ratio", q.RESOURCES, "model_name")
_READY = q.total("target_ready", where=q.TARGET)
_DEMAND = q.total("replica_demand")

USERS = Section(
    "Do users suffer?",
    (
        stat(
            "Objectives met",
            "percentunit",
            "Share of the events in the time shown that met their objective, all objectives together.",
            Query(f"1 - {_MISSED} / ({_JUDGED} > 0)", instant=True),
            falling(0.9, 0.95),
            decimals=2,
        ),
        stat(
            "Worst burn rate",
            "none",
            "How many times too fast the worst objective uses up its error budget. 1 is just sustainable.",
            Query(f"max ({q.burn()})"),
            rising(1, 6),
            decimals=1,
        ),
        stat(
            "Least budget left",
            "percentunit",
            "Of the objective that is worst off, over its period. Below 0 the objective is missed.",
            Query(f"min ({q.budget()})"),
            falling(0.1, 0.5),
            decimals=0,
        ),
        stat(
            "Failed requests",
            "percentunit",
            "Errors, timeouts and rejections among the requests that were answered.",
            Query(q.failed_share()),
            rising(0.005, 0.02),
            decimals=2,
        ),
        stat(
            "Time to first token, p95",
            "s",
            "Arrival to first token, the worst runtime. Runtimes without this histogram are not in it.",
            Query(q.worst_quantile(0.95, "time_to_first_token_seconds")),
            decimals=2,
        ),
        stat(
            "Inter-token latency, p95",
            "s",
            "The gap between two tokens of an answer, the worst runtime.",
            Query(q.worst_quantile(0.95, "inter_token_latency_seconds")),
            decimals=1,
        ),
    ),
)

WHY = Section(
    "Why, and what next?",
    (
        stat(
            "Waiting",
            "none",
            "Requests that were accepted and don't execute yet, over all replicas.",
            Query(q.total("requests_waiting")),
            rising(5, 50),
        ),
        stat(
            "Fullest KV cache",
            "percentunit",
            "Of the fullest replica. A full cache makes requests wait, or lose their place and start anew.",
            Query(q.kv()),
            rising(0.8, 0.95),
            decimals=0,
        ),
        stat(
            "Scarcest resource",
            "percentunit",
            "Use of slots, KV cache or memory over its limit, of the fullest replica.",
            Query(q.highest("saturation_ratio", q.RESOURCES)),
            rising(0.8, 1),
            decimals=0,
        ),
        stat(
            "Replicas needed",
            "none",
            "What the present load needs, over all models. It is a sum: a fleet's demand adds up.",
            Query(_DEMAND),
            decimals=1,
        ),
        stat(
            "Replicas ready",
            "none",
            "Targets whose own readiness endpoint says so.",
            Query(_READY),
        ),
        stat(
            "Targets down",
            "none",
            "Targets whose last scrape wasn't understood.",
            Query(
                f"count ({q.of('target_up', where=q.TARGET)} == 0) or count "
                f"({q.of('target_up', where=q.TARGET)}) * 0"
            ),
            rising(1, 1),
        ),
    ),
)

MODELS = Section(
    "Models",
    (
        table(
            "Models",
            "One row a model, over its replicas: latencies of the worst runtime, what is left of the budget, the "
            "scarcest resource, replicas needed. The name leads to the replicas' details.",
            {"model_name": "Model"},
            (
                Column("Burn rate", "none", f"max by (model_name) ({q.burn()})", rising(1, 6), decimals=1),
                Column("Budget", "percentunit", _BUDGET, falling(0.1, 0.5), decimals=0),
                Column(
                    "Failed", "percentunit", q.failed_share("model_name"), rising(0.005, 0.02), decimals=1
                ),
                Column("TTFT p95", "s", q.quantile(0.95, "time_to_first_token_seconds", "model_name")),
                Column("ITL p95", "s", q.quantile(0.95, "inter_token_latency_seconds", "model_name")),
                Column("E2E p95", "s", q.quantile(0.95, "e2e_request_latency_seconds", "model_name")),
                Column("Waiting", "none", q.total("requests_waiting", by="model_name"), rising(5, 50)),
                Column("Running", "none", q.total("requests_running", by="model_name")),
                Column("KV cache", "percentunit", q.kv("model_name"), rising(0.8, 0.95), decimals=0),
                Column("Scarcest", "percentunit", _SCARCEST, rising(0.8, 1), decimals=0),
                Column("Needed", "none", q.total("replica_demand", by="model_name"), decimals=1),
                Column("Replicas", "none", _SERVING),
                Column("Req/s", "none", q.rate("requests_total", by="model_name"), decimals=1),
                Column("Tokens/s", "none", q.rate("generation_tokens_total", by="model_name"), decimals=0),
            ),
            links={"model_name": ("Replicas of this model", TO_MODEL)},
            sort="Burn rate",
        ),
    ),
)


def _latency(what: str, signal: str, says: str) -> tuple[Query, ...]:
    return tuple(
        Query(q.quantile(share, signal), f"{{{{runtime}}}} p{share * 100:g}") for share in (0.5, 0.95, 0.99)
    )


LATENCY = Section(
    "Latency",
    tuple(
        lines(f"{name}, quantiles", "s", says, *_latency(name, signal, says))
        for name, signal, says in (
            (
                "Time to first token",
                "time_to_first_token_seconds",
                "Arrival to first token, over all replicas.",
            ),
            (
                "Inter-token latency",
                "inter_token_latency_seconds",
                "The gap between two tokens, over all replicas.",
            ),
            ("Whole request", "e2e_request_latency_seconds", "Arrival to last token, over all replicas."),
        )
    )
    + tuple(
        heatmap(f"{name}, distribution", "s", says, q.buckets(signal))
        for name, signal, says in (
            (
                "Time to first token",
                "time_to_first_token_seconds",
                "How many requests fell into which bucket.",
            ),
            ("Inter-token latency", "inter_token_latency_seconds", "How many gaps fell into which bucket."),
            ("Whole request", "e2e_request_latency_seconds", "How many requests fell into which bucket."),
        )
    ),
)

TRAFFIC = Section(
    "Traffic and load",
    (
        lines(
            "Requests by outcome",
            "reqps",
            "Requests finished. Cancelled ones are those whose client went away.",
            Query(q.rate("requests_total", by="outcome"), "{{outcome}}"),
            stack=True,
        ),
        lines(
            "Arrivals and completions",
            "reqps",
            "While more come than finish, the queue grows.",
            Query(q.rate("arrivals_total"), "arrive"),
            Query(q.rate("requests_total"), "finish"),
        ),
        lines(
            "Tokens",
            "none",
            "Tokens a second: read (prompt), of them found in the cache, and generated.",
            Query(q.rate("prompt_tokens_total"), "prompt"),
            Query(q.rate("cached_prompt_tokens_total"), "prompt, cached"),
            Query(q.rate("generation_tokens_total"), "generated"),
        ),
        lines(
            "Running and waiting",
            "none",
            "Over all replicas. The peak is of the sidecar's own polls, which a scrape every 30 s would miss.",
            Query(q.total("requests_running"), "running"),
            Query(q.total("requests_waiting"), "waiting"),
            Query(q.total("requests_waiting_peak"), "waiting, peak of 60 s"),
        ),
        lines(
            "KV cache by model",
            "percentunit",
            "The fullest replica of each model.",
            Query(q.kv("model_name"), "{{model_name}}"),
            high=1,
            level=0.95,
        ),
        lines(
            "Saturation by resource",
            "percentunit",
            "The fullest replica. At 100 % something waits for it.",
            Query(q.highest("saturation_ratio", q.RESOURCES, "resource"), "{{resource}}"),
            level=1,
        ),
    ),
)

PROMISES = Section(
    "Objectives and replicas",
    (
        lines(
            "Burn rate by objective",
            "none",
            (
                "1 is just sustainable. Recorded over the fleet where the generated rules run, else the worst "
                "replica."
            ),
            Query(q.burn(), "{{slo}} {{model_name}}"),
            level=1,
            width=12,
        ),
        lines(
            "Replicas",
            "none",
            "Needed by the load, scraped with success, and ready.",
            Query(_DEMAND, "needed"),
            Query(q.total("target_up", where=q.TARGET), "up"),
            Query(_READY, "ready"),
            width=12,
        ),
    ),
)

FLEET = Dashboard(
    "inference-fleet",
    "Inference / Fleet overview",
    "Do users suffer, why, and what is about to break, over all models, replicas and runtimes.",
    (USERS, WHY, MODELS, LATENCY, TRAFFIC, PROMISES),
    (*OF_RUNTIMES, SLO),
)
