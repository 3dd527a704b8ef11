"""Objectives: what is promised, how fast budgets burn, what is left, who was told."""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import OF_RUNTIMES, SLO, Dashboard, Section
from sidecar.outputs.dashboards.panels import (
    GOOD,
    WARN,
    Query,
    bars,
    falling,
    lines,
    rising,
    stat,
    thresholds,
)
from sidecar.outputs.dashboards.tables import Column, facts, table

_BY = "slo, model_name"
_ALERTS = 'ALERTS{alertname=~"InferenceErrorBudget.*|InferenceSlo.*", alertstate="firing"}'
_EVENTS = q.of("slo_events_total", "", q.OBJECTIVE)
_BAD = q.of("slo_bad_events_total", q.BAD, q.OBJECTIVE)
_STRICT = q.of("slo_bad_events_total", 'bound="strict"', q.OBJECTIVE)

NOW = Section(
    "Now",
    (
        table(
            "Objectives",
            "One row an objective and model, over the fleet, in the time shown. Bad events are those that "
            "surely missed it.",
            {"slo": "Objective", "model_name": "Model"},
            (
                Column("Met", "percentunit", f"1 - ({q.ratio_over('$__range')})", decimals=2),
                Column("Burn rate", "none", q.burn(), rising(1, 6), decimals=1),
                Column("Budget left", "percentunit", q.budget(), falling(0.1, 0.5), decimals=0),
                Column("Events", "none", f"sum by ({_BY}) (increase({_EVENTS}[$__range]))", decimals=0),
                Column("Bad events", "none", f"sum by ({_BY}) (increase({_BAD}[$__range]))", decimals=0),
            ),
            width=12,
            sort="Burn rate",
        ),
        bars(
            "Budget left",
            "percentunit",
            (
                "Over the objective's period; over the fleet where the generated rules run, else of the worst "
                "replica."
            ),
            Query(q.budget(), "{{slo}} {{model_name}}", instant=True),
            steps=falling(0.1, 0.5),
            width=6,
            high=1,
        ),
        stat(
            "Alerts firing",
            "none",
            "Alerts of the generated rules on these objectives.",
            Query(f"count ({_ALERTS}) or vector(0)"),
            rising(1, 1),
            width=3,
            height=8,
        ),
        stat(
            "Not measurable",
            "none",
            "Objectives for which the runtime shows too little (`doctor` names the flag), and models that are "
            "too many to be judged.",
            Query(
                f"(count ({q.of('slo_info', q.NOT_MEASURABLE, q.OBJECTIVE)}) or vector(0))"
                f" + (sum ({q.of('slo_accounts_refused', where=q.TARGET)}) or vector(0))"
            ),
            thresholds((None, GOOD), (1, WARN)),
            width=3,
            height=8,
        ),
    ),
)

BURN = Section(
    "Burn rate by window",
    (
        lines(
            "Burn rate, each window",
            "none",
            "The worst replica's, each window once 90 % of it has been seen. Short and long windows above their "
            "factor together make an alert.",
            Query(f"max by (slo, window) ({q.of('slo_burn_rate', '', q.OBJECTIVE)})", "{{slo}} {{window}}"),
            level=1,
            width=12,
        ),
        lines(
            "Fleet's error ratio",
            "percentunit",
            "Share of bad events of the last 5 minutes and the last hour, over all replicas.",
            Query(q.ratio_over("5m"), "{{slo}} {{model_name}} 5m"),
            Query(q.ratio_over("1h"), "{{slo}} {{model_name}} 1h"),
            width=12,
        ),
        lines(
            "Budget left",
            "percentunit",
            "Below 0 the objective is missed for its period.",
            Query(q.budget(), "{{slo}} {{model_name}}"),
            width=12,
            low=None,
        ),
        lines(
            "Events and bad events",
            "ops",
            "Events a second that objectives judge, and those that surely missed.",
            Query(q.rate("slo_events_total", by="slo", where=q.OBJECTIVE), "{{slo}}"),
            Query(q.rate("slo_bad_events_total", q.BAD, "slo", q.OBJECTIVE), "{{slo}} bad"),
            width=12,
        ),
    ),
)

TRUST = Section(
    "How far they can be trusted",
    (
        lines(
            "Events that can't be told apart",
            "percentunit",
            "The threshold lies between two buckets: these events may be good or bad. If it exceeds the budget, "
            "move the threshold to a bucket's bound.",
            Query(
                f"(sum by ({_BY}) (increase({_STRICT}[$__range])) - sum by ({_BY}) (increase({_BAD}[$__range])))"
                f" / (sum by ({_BY}) (increase({_EVENTS}[$__range])) > 0)",
                "{{slo}} {{model_name}}",
            ),
            high=1,
        ),
        lines(
            "Window seen",
            "percentunit",
            "Share of each window that the sidecars have seen, the least of the objectives and replicas.",
            Query(
                f"min by (window) ({q.of('slo_window_coverage_ratio', '', q.OBJECTIVE)})",
                "{{window}}",
            ),
            high=1,
        ),
        lines(
            "Accepted tokens",
            "none",
            (
                "Tokens generated while every objective held, beside all: the rest is work nobody should be "
                "charged for."
            ),
            Query(q.rate("generation_tokens_total"), "all"),
            Query(q.rate("accepted_generation_tokens_total"), "accepted"),
        ),
        facts(
            "As configured",
            "What each objective promises, and whether it can be measured.",
            (
                "max by (slo, model_name, signal, threshold, objective, period, status, method) "
                f"({q.of('slo_info', '', q.OBJECTIVE)})"
            ),
            {
                "slo": "Objective",
                "model_name": "Model",
                "signal": "Signal",
                "threshold": "Threshold",
                "objective": "Share",
                "period": "Period",
                "status": "Status",
                "method": "Method",
            },
            width=24,
        ),
        facts(
            "Alerts",
            "What fires now.",
            (
                'max by (alertname, severity, sloth_slo, model_name) (ALERTS{alertname=~"Inference.*", '
                'alertstate="firing"})'
            ),
            {"alertname": "Alert", "severity": "Severity", "sloth_slo": "Objective", "model_name": "Model"},
            width=24,
            height=6,
        ),
    ),
)

OBJECTIVES = Dashboard(
    "inference-slo",
    "Inference / Objectives",
    "Error budgets and how fast they burn. Ratios are made from counters of the whole fleet, never averaged.",
    (NOW, BURN, TRUST),
    (*OF_RUNTIMES, SLO),
    span="now-6h",
)
