"""Recording rules of an objective: the fleet's error ratios, budgets and burn rates, under Sloth's names.

Every ratio is made once, from counters summed over replicas and runtimes: ratios are never averaged, so a
busy hour weighs what it served. A denominator of 0 leaves no sample, not NaN.
"""

from __future__ import annotations

from sidecar import __version__
from sidecar.schema import SIGNALS
from sidecar.slo.objective import Objective
from sidecar.slo.rules.rule import Group, Labels, Recording
from sidecar.slo.windows import DAY, duration_text

EVENTS = SIGNALS["slo_events_total"].family
BAD_EVENTS = SIGNALS["slo_bad_events_total"].family

ERROR_RATIO = "slo:sli_error:ratio_rate"
EVENT_COUNT = "slo:sli_events:increase"
BAD_EVENT_COUNT = "slo:sli_bad_events:increase"

#: Windows from here on move slowly and read much: they are evaluated less often.
SLOW_FROM = DAY
SLOW_INTERVAL = "2m"


def identity(objective: Objective, service: str) -> Labels:
    """The labels that name an objective in every rule."""
    return {
        "sloth_id": f"{service}-{objective.name}",
        "sloth_service": service,
        "sloth_slo": objective.name,
    }


def selector(labels: Labels) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def increases(objective: Objective, window: str, by: tuple[str, ...]) -> tuple[str, str]:
    """Expressions of the surely bad events and of all events in a window, over the fleet.

    The lenient bound is taken: a page must not rest on events that may have been good.
    """
    grouping = f"sum by ({', '.join(by)}) " if by else "sum "
    bad = f'{grouping}(increase({BAD_EVENTS}{{slo="{objective.name}", bound="lenient"}}[{window}]))'
    events = f'{grouping}(increase({EVENTS}{{slo="{objective.name}"}}[{window}]))'
    return bad, events


def ratio(bad: str, events: str) -> str:
    return f"{bad}\n/\n({events} > 0)"


def sli_groups(objective: Objective, service: str, by: tuple[str, ...]) -> list[Group]:
    """Error ratios of all windows and of the period, and the counts that guard against low traffic."""
    labels = identity(objective, service)
    longs = {one.long for one in objective.windows}
    quick: list[Recording] = []
    slow: list[Recording] = []
    for span in dict.fromkeys((*objective.spans, objective.period)):
        window = duration_text(span)
        marked = {**labels, "sloth_window": window}
        bad, events = increases(objective, window, by)
        rules = slow if span >= SLOW_FROM else quick
        rules.append(Recording(ERROR_RATIO + window, ratio(bad, events), marked))
        if span in longs:
            rules.append(Recording(BAD_EVENT_COUNT + window, bad, marked))
            rules.append(Recording(EVENT_COUNT + window, events, marked))
    name = f"sloth-slo-sli-recordings-{labels['sloth_id']}"
    groups = [Group(name, tuple(quick)), Group(f"{name}-slow", tuple(slow), SLOW_INTERVAL)]
    return [group for group in groups if group.rules]


def meta_group(objective: Objective, service: str) -> Group:
    """The objective itself as series, its current burn rate, and what is left of the period's budget."""
    labels = identity(objective, service)
    chosen, shortest = selector(labels), duration_text(objective.spans[0])
    period = duration_text(objective.period)
    info = {
        "sloth_mode": "inference-sidecar",
        "sloth_objective": f"{objective.objective * 100:.10g}",
        "sloth_spec": "inference-sidecar/v1",
        "sloth_version": __version__,
    }
    budget = f"/ on (sloth_id, sloth_slo, sloth_service) group_left\nslo:error_budget:ratio{chosen}"
    rules = (
        Recording("slo:objective:ratio", f"vector({objective.objective:.12g})", labels),
        Recording("slo:error_budget:ratio", f"vector({objective.budget:.12g})", labels),
        Recording("slo:time_period:days", f"vector({objective.period / DAY:.10g})", labels),
        Recording("slo:current_burn_rate:ratio", f"{ERROR_RATIO}{shortest}{chosen}\n{budget}", labels),
        Recording("slo:period_burn_rate:ratio", f"{ERROR_RATIO}{period}{chosen}\n{budget}", labels),
        Recording(
            "slo:period_error_budget_remaining:ratio", f"1 - slo:period_burn_rate:ratio{chosen}", labels
        ),
        Recording("sloth_slo_info", "vector(1)", {**labels, **info}),
    )
    return Group(f"sloth-slo-meta-recordings-{labels['sloth_id']}", rules)
