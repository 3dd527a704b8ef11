"""What is refused, and that the message says how to mend it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from sidecar.config import load
from sidecar.slo import (
    AlertWindow,
    Level,
    Objective,
    Severity,
    check,
    check_against_bounds,
    objectives_from_config,
)
from sidecar.slo.windows import DAY, HOUR, STANDARD

TTFT = Objective("ttft", "time_to_first_token", 0.95, 7 * DAY, threshold=1.0)
BOUNDS = (0.1, 0.5, 0.75, 1.0, 2.5, inf)


def found(objective: Objective) -> list[tuple[str, str]]:
    return [(one.code, one.message) for one in check([objective])]


@pytest.mark.parametrize(
    "objective",
    [
        TTFT,
        replace(TTFT, objective=0.9),
        replace(TTFT, period=30 * DAY),
        Objective("availability", "availability", 0.999, 30 * DAY),
        Objective("queue", "request_queue_time", 0.99, 28 * DAY, threshold=0.3),
        Objective(
            "goodput",
            "goodput",
            0.9,
            7 * DAY,
            limits=(("time_to_first_token", 1.0), ("time_per_output_token", 0.05)),
        ),
    ],
)
def test_good_objectives_pass(objective: Objective) -> None:
    assert found(objective) == []


@pytest.mark.parametrize(
    ("objective", "code", "words"),
    [
        (replace(TTFT, signal="time_to_frist_token"), "unknown_signal", "did you mean time_to_first_token?"),
        (replace(TTFT, signal="smell"), "unknown_signal", "known: "),
        (replace(TTFT, threshold=None), "threshold", "threshold: 1s"),
        (replace(TTFT, threshold=0.0), "threshold", "above 0"),
        (replace(TTFT, objective=95.0), "objective", "99% or 0.99"),
        (replace(TTFT, objective=1.0), "objective", "no share"),
        (replace(TTFT, method="median"), "method", "share and mean"),
        (replace(TTFT, period=0), "period", "7d"),
        (replace(TTFT, period=DAY), "windows", "6h/3d"),
        (Objective("a", "availability", 0.99, threshold=1.0), "threshold", "remove it"),
        (Objective("g", "goodput", 0.9), "thresholds", "two thresholds"),
        (
            Objective("g", "goodput", 0.9, limits=(("inter_token_latency", 0.1), ("e2e_request_latency", 9))),
            "thresholds",
            "time_per_output_token",
        ),
        (
            replace(TTFT, windows=(AlertWindow(Severity.PAGE, 300, HOUR),)),
            "windows",
            "needs a share of the budget or a factor",
        ),
    ],
)
def test_bad_objectives_are_told(objective: Objective, code: str, words: str) -> None:
    assert any(one == code and words in message for one, message in found(objective)), found(objective)


def test_a_dead_alert_is_refused_with_the_factor_that_can() -> None:
    ((code, message),) = found(replace(TTFT, objective=0.9, period=30 * DAY))
    assert code == "dead_alert"
    assert "14.4" in message
    assert "below 10 can" in message
    assert "5 fires when half" in message
    assert "93.06%" in message


def test_the_factor_that_is_proposed_is_accepted() -> None:
    first = AlertWindow(Severity.PAGE, 300, HOUR, fixed_factor=5)
    assert found(replace(TTFT, objective=0.9, period=30 * DAY, windows=(first, *STANDARD[1:]))) == []


def test_names_are_unique() -> None:
    assert [one.code for one in check([TTFT, TTFT])] == ["duplicate_name"]


def test_a_bound_is_exact_however_it_is_computed() -> None:
    assert check_against_bounds(replace(TTFT, threshold=0.25 * 3), BOUNDS) == []


def test_between_two_bounds_is_a_note_and_names_both() -> None:
    (finding,) = check_against_bounds(replace(TTFT, threshold=0.8), BOUNDS)
    assert (finding.level, finding.code) == (Level.NOTE, "threshold_between")
    assert "0.75 s and 1 s" in finding.message


def test_more_than_the_budget_between_two_bounds_is_a_warning() -> None:
    (finding,) = check_against_bounds(replace(TTFT, threshold=2.0), BOUNDS, between=0.3)
    assert (finding.level, finding.code) == (Level.WARNING, "threshold_unresolved")
    assert "1 s and 2.5 s" in finding.message


@pytest.mark.parametrize(("threshold", "nearest"), [(0.05, "0.1 s"), (5.0, "2.5 s")])
def test_outside_of_the_bounds_is_an_error(threshold: float, nearest: str) -> None:
    (finding,) = check_against_bounds(replace(TTFT, threshold=threshold), BOUNDS)
    assert (finding.level, finding.code) == (Level.ERROR, "threshold_outside")
    assert nearest in finding.message


def test_no_buckets_ask_for_the_histogram_or_the_mean() -> None:
    (finding,) = check_against_bounds(TTFT, (inf,))
    assert finding.code == "not_measurable"
    assert "method: mean" in finding.message
    assert check_against_bounds(replace(TTFT, method="mean"), (inf,)) == []


CONFIG = """
slos:
  - {name: ttft, signal: time_to_first_token, threshold: 800ms, objective: 95%, period: 7d, models: ["m-*"]}
  - {name: availability, signal: availability, objective: 99.9%, period: 30d, min_bad_events: 3}
  - name: goodput
    signal: goodput
    thresholds: {time_to_first_token: 1s, e2e_request_latency: 20s}
    objective: 90%
    windows:
      - {severity: page, short: 5m, long: 1h, budget: 5%}
      - {severity: ticket, short: 2h, long: 1d, factor: 2}
"""


def test_objectives_come_from_the_config(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("config") / "config.yaml"
    file.write_text(CONFIG)
    ttft, availability, goodput = objectives_from_config(load(str(file)).slos)
    assert ttft == replace(TTFT, threshold=0.8, models=("m-*",))
    assert availability == Objective("availability", "availability", 0.999, 30 * DAY, min_bad_events=3)
    assert goodput.limits == (("time_to_first_token", 1.0), ("e2e_request_latency", 20.0))
    assert goodput.windows == (
        AlertWindow(Severity.PAGE, 300, HOUR, 0.05),
        AlertWindow(Severity.TICKET, 2 * HOUR, DAY, fixed_factor=2),
    )


def test_objectives_come_from_plain_mappings() -> None:
    (objective,) = objectives_from_config(
        [{"name": "ttft", "signal": "time_to_first_token", "threshold": "1s", "objective": "95%"}]
    )
    assert objective == TTFT
