"""From objectives to groups of rules: a chain of small steps of one signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sidecar.slo.objective import Objective
from sidecar.slo.rules.burning import alert_group
from sidecar.slo.rules.operational import operational_groups
from sidecar.slo.rules.recording import meta_group, sli_groups
from sidecar.slo.rules.rule import Group

RUNBOOK_BASE = "https://github.com/inference-sidecar/inference-sidecar/blob/main/docs/runbooks/"


SERVICE = "inference"


@dataclass(frozen=True, slots=True)
class Options:
    """How rules are made. `by` are the labels that the fleet is not summed over."""

    service: str = SERVICE
    by: tuple[str, ...] = ("model_name",)
    runbook_base: str = RUNBOOK_BASE


Step = Callable[[Objective, Options], list[Group]]

STEPS: tuple[Step, ...] = (
    lambda objective, options: sli_groups(objective, options.service, options.by),
    lambda objective, options: [meta_group(objective, options.service)],
    lambda objective, options: [alert_group(objective, options.service, options.runbook_base)],
)


def slo_groups(objectives: Sequence[Objective], options: Options) -> Iterator[Group]:
    """Recording and alerting rules of the objectives."""
    for objective in objectives:
        for step in STEPS:
            yield from step(objective, options)


def groups(objectives: Sequence[Objective], options: Options | None = None) -> dict[str, list[Group]]:
    """All groups by the file they belong into: `slo` (from the objectives) and `operational`."""
    chosen = options or Options()
    return {
        "slo": list(slo_groups(objectives, chosen)),
        "operational": operational_groups(chosen.runbook_base),
    }
