"""The page of all alerts, `docs/alerts.md`, from the same data as the rules."""

from __future__ import annotations

from sidecar.slo.objective import MIN_BAD_EVENTS
from sidecar.slo.rules.burning import NAMES, RUNBOOK
from sidecar.slo.rules.operational import OPERATIONAL
from sidecar.slo.windows import DAY, STANDARD, duration_text

_HEAD = """# Alerts

`inference-sidecar rules --config FILE` writes these alerts; ready-made ones for the objectives in
`alerts/config.yaml` are in `alerts/`, an example for Alertmanager in `alerts/alertmanager.yaml`. A page wakes
somebody: users suffer now. A ticket waits for the morning. Each alert carries `severity` and `runbook_url`.

This page is generated from the rules; `tests/slo` holds the two equal.

## Objectives

One pair for each objective in the config, over all replicas and runtimes of a model. An alert fires while
both windows of one of its rows burn faster than the factor, and the long one holds at least
{least} bad events and as many events as {least} bad ones need to be below the limit.

| alert | severity | short | long | budget spent | factor 7d | factor 28d | factor 30d |
|---|---|---|---|---|---|---|---|
"""

_GROUPS = {
    "target": "Targets",
    "load": "Load",
    "gpu": "GPUs",
    "sidecar": "The sidecar itself",
}


def reference() -> str:
    """The page in Markdown."""
    lines = [_HEAD.format(least=MIN_BAD_EVENTS)]
    for window in STANDARD:
        factors = " | ".join(f"{window.factor(days * DAY):.4g}" for days in (7, 28, 30))
        name = f"[{NAMES[window.severity]}](runbooks/{RUNBOOK})"
        pair = f"{duration_text(window.short)} | {duration_text(window.long)}"
        lines.append(f"| {name} | {window.severity} | {pair} | {window.share:.0%} | {factors} |\n")
    for group, title in _GROUPS.items():
        lines.append(f"\n## {title}\n\n| alert | severity | after | says |\n|---|---|---|---|\n")
        for one in OPERATIONAL:
            if one.group == group:
                name = f"[{one.name}](runbooks/{one.runbook})"
                lines.append(
                    f"| {name} | {one.severity} | {one.lasting or 'at once'} | {_plain(one.summary)} |\n"
                )
    return "".join(lines)


def _plain(template: str) -> str:
    """A template for a reader: `{{ $labels.model_name }}` is `model_name`."""
    return template.replace("{{ $labels.", "`").replace(" }}", "`")


if __name__ == "__main__":
    print(reference(), end="")
