"""Multi-window, multi-burn-rate alerts of an objective: a page and a ticket."""

from __future__ import annotations

from sidecar.slo import formulas
from sidecar.slo.objective import AVAILABILITY, GOODPUT, Objective
from sidecar.slo.rules.recording import BAD_EVENT_COUNT, ERROR_RATIO, EVENT_COUNT, identity, selector
from sidecar.slo.rules.rule import Alerting, Group, Labels
from sidecar.slo.windows import AlertWindow, Severity, duration_text

NAMES = {
    Severity.PAGE: "InferenceErrorBudgetBurnFast",
    Severity.TICKET: "InferenceErrorBudgetBurnSlow",
}
RUNBOOK = "error-budget-burn.md"


def alert_group(objective: Objective, service: str, runbook_base: str) -> Group:
    """The alerts; no `for`, the windows are what makes them sure."""
    labels = identity(objective, service)
    rules = tuple(
        _alert(objective, severity, labels, runbook_base)
        for severity in Severity
        if any(one.severity is severity for one in objective.windows)
    )
    return Group(f"sloth-slo-alerts-{labels['sloth_id']}", rules)


def _alert(objective: Objective, severity: Severity, labels: Labels, runbook_base: str) -> Alerting:
    chosen = selector(labels)
    windows = [one for one in objective.windows if one.severity is severity]
    return Alerting(
        NAMES[severity],
        "\nor\n".join(_condition(objective, window, chosen) for window in windows),
        {**labels, "severity": severity.value, "sloth_severity": severity.value},
        {
            "summary": f"{objective.name} of {{{{ $labels.model_name }}}} burns its error budget "
            + ("fast" if severity is Severity.PAGE else "slowly but surely"),
            "description": f"{{{{ $value | humanizePercentage }}}} of the events of "
            f"{{{{ $labels.model_name }}}} were bad in the last {_shorts(windows)}. "
            f"{in_words(objective)}, so {objective.budget * 100:.4g}% may be bad.",
            "title": f"({severity.value}) {{{{ $labels.sloth_service }}}} {{{{ $labels.sloth_slo }}}} "
            "SLO error budget burn rate is too fast.",
            "runbook_url": runbook_base + RUNBOOK,
        },
    )


def _condition(objective: Objective, window: AlertWindow, chosen: str) -> str:
    factor, budget = window.factor(objective.period), objective.budget
    short, long = duration_text(window.short), duration_text(window.long)
    limit = f"({factor:.10g} * {budget:.10g})"
    fewest = formulas.fewest_events(objective.min_bad_events, factor, budget)
    parts = (
        f"{ERROR_RATIO}{short}{chosen} > {limit}",
        f"{ERROR_RATIO}{long}{chosen} > {limit}",
        f"{BAD_EVENT_COUNT}{long}{chosen} >= {objective.min_bad_events}",
        f"{EVENT_COUNT}{long}{chosen} >= {fewest}",
    )
    inner = "\n  and\n".join(f"  max without (sloth_window) ({part})" for part in parts)
    return f"(\n{inner}\n)"


def _shorts(windows: list[AlertWindow]) -> str:
    return " or ".join(duration_text(one.short) for one in windows)


def in_words(objective: Objective) -> str:
    """An objective as a sentence without its full stop: `95% of time_to_first_token are to stay …`."""
    share, period = f"{objective.objective * 100:.6g}%", duration_text(objective.period)
    if objective.signal == AVAILABILITY:
        return f"{share} of the requests are to succeed over {period}"
    if objective.signal == GOODPUT:
        limits = " and ".join(f"{signal} within {limit:g} s" for signal, limit in objective.limits)
        return f"{share} of the requests are to keep {limits} over {period}"
    return f"{share} of {objective.signal} are to stay within {objective.threshold:g} s over {period}"
