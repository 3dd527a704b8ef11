"""What is wrong with an objective, in words that say how to mend it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from sidecar.slo import formulas
from sidecar.slo.objective import AVAILABILITY, GOODPUT, LATENCIES, PROBED, Objective
from sidecar.slo.windows import duration_text


class Level(StrEnum):
    ERROR = "error"  # the objective can't be used
    WARNING = "warning"  # it can, and its figures are rougher than they look
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found, about what (an objective, a rule), under a code that doesn't change."""

    level: Level
    subject: str
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.level}: {self.subject}: {self.message} [{self.code}]"


def check(objectives: Sequence[Objective]) -> list[Finding]:
    """Everything that can be told before a runtime is seen."""
    findings = [
        Finding(Level.ERROR, name, "duplicate_name", f"{count} objectives have this name")
        for name, count in Counter(one.name for one in objectives).items()
        if count > 1
    ]
    for objective in objectives:
        findings += (
            Finding(Level.ERROR, objective.name, code, message) for code, message in _errors(objective)
        )
    return findings


def _errors(objective: Objective) -> Iterator[tuple[str, str]]:
    yield from _signal_errors(objective)
    if not 0 < objective.objective < 1:
        yield "objective", f"{objective.objective:g} is no share of good events: write one like 99% or 0.99"
        return
    if objective.method not in ("share", "mean"):
        yield "method", f"{objective.method!r}: share and mean are the methods"
    yield from _window_errors(objective)


def _signal_errors(objective: Objective) -> Iterator[tuple[str, str]]:
    signal, known = objective.signal, (*LATENCIES, AVAILABILITY, GOODPUT)
    if signal not in known:
        near = get_close_matches(signal, known, 1)
        hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)
        yield "unknown_signal", f"no objective can be set on {signal!r}; {hint}"
    elif signal == GOODPUT:
        yield from _limit_errors(objective)
    elif signal == AVAILABILITY:
        if objective.threshold is not None:
            yield "threshold", "availability has no threshold: remove it"
    elif objective.threshold is None or objective.threshold <= 0:
        yield "threshold", f"{signal} needs a threshold above 0, e.g. threshold: 1s"


def _limit_errors(objective: Objective) -> Iterator[tuple[str, str]]:
    if len(objective.limits) < 2:
        yield (
            "thresholds",
            "goodput needs two thresholds or more, like {time_to_first_token: 1s, e2e_request_latency: 20s}",
        )
    for signal, limit in objective.limits:
        if signal == "inter_token_latency":
            yield (
                "thresholds",
                "inter_token_latency has one observation a gap, not one a request: use time_per_output_token",
            )
        elif signal in PROBED:
            yield "thresholds", f"goodput judges requests, and {signal} is of the sidecar's own probes"
        elif signal not in LATENCIES:
            yield "unknown_signal", f"goodput can't limit {signal!r}; known: {', '.join(LATENCIES)}"
        if limit <= 0:
            yield "thresholds", f"the limit of {signal} must be above 0"


def _window_errors(objective: Objective) -> Iterator[tuple[str, str]]:
    if objective.period <= 0:
        yield "period", "the period must be above 0, e.g. 7d"
        return
    for window in objective.windows:
        pair = f"{window.severity} window {duration_text(window.short)}/{duration_text(window.long)}"
        if not 0 < window.short < window.long <= objective.period:
            yield "windows", f"{pair}: short < long <= period ({duration_text(objective.period)}) must hold"
            continue
        if window.share <= 0 and window.fixed_factor <= 0:
            yield "windows", f"{pair} needs a share of the budget or a factor"
            continue
        factor, budget = window.factor(objective.period), objective.budget
        if factor * budget >= 1:
            yield (
                "dead_alert",
                f"{pair} can never fire: a factor of {factor:g} asks for {factor * budget:.0%} bad events. "
                f"A factor below {1 / budget:.4g} can ({0.5 / budget:.4g} fires when half of the events are "
                f"bad); so can a shorter period or an objective above {1 - 1 / factor:.2%}",
            )


def check_against_bounds(
    objective: Objective, bounds: Sequence[float], *, signal: str = "", between: float | None = None
) -> list[Finding]:
    """What a runtime's bucket bounds (ascending, +Inf last) do to a latency objective.

    `signal` (a name of the schema) picks the limit of a goodput. `between` is the share of events between
    the two bounds around the threshold, where it is known.
    """
    findings = []
    for name, threshold in objective.terms:
        if signal in ("", name):
            found = _bound_finding(objective, name, threshold, bounds, between)
            findings += [found] if found else []
    return findings


def _bound_finding(
    objective: Objective, signal: str, threshold: float, bounds: Sequence[float], between: float | None
) -> Finding | None:
    cut = formulas.split(threshold, bounds)
    nearest = " and ".join(f"{one:g} s" for one in formulas.nearest_bounds(threshold, bounds))
    if cut is None:
        if not nearest:
            if objective.method == "mean":
                return None
            return Finding(
                Level.ERROR,
                objective.name,
                "not_measurable",
                f"{signal} has no buckets, so no share of events can be told: switch the runtime's histogram "
                "on, or write method: mean to judge each interval by its mean",
            )
        return Finding(
            Level.ERROR,
            objective.name,
            "threshold_outside",
            f"{threshold:g} s lies outside of the finite buckets of {signal}; "
            f"the nearest threshold that can be judged is {nearest}",
        )
    if cut.exact:
        return None
    if between is not None and between > objective.budget:
        return Finding(
            Level.WARNING,
            objective.name,
            "threshold_unresolved",
            f"{between:.1%} of {signal} lie in the same bucket as {threshold:g} s, more than the budget of "
            f"{objective.budget:.2%}: good and bad can't be told apart. Exact thresholds near by: {nearest}",
        )
    return Finding(
        Level.NOTE,
        objective.name,
        "threshold_between",
        f"{threshold:g} s lies between two buckets of {signal}: bad events are known within bounds only. "
        f"Exact thresholds near by: {nearest}",
    )


def errors(findings: Iterable[Finding]) -> list[Finding]:
    return [one for one in findings if one.level is Level.ERROR]
