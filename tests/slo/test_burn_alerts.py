"""The burn-rate alerts in Prometheus' rule tester: fire, resolve; idle, blind, few events, resets."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.slo import Objective
from sidecar.slo.rules import Options, plain
from sidecar.slo.rules.burning import NAMES
from sidecar.slo.rules.generate import slo_groups
from sidecar.slo.windows import DAY, STANDARD, Severity
from tests.integration.real_servers import program
from tests.slo.stories import case, notation

TTFT = Objective("ttft", "time_to_first_token", 0.95, 7 * DAY, threshold=1.0)
PAGES = replace(TTFT, windows=STANDARD[:2])
PAGE, TICKET = NAMES[Severity.PAGE], NAMES[Severity.TICKET]
NEVER = dict.fromkeys(range(0, 200, 20), 0)

#: (minutes, events a minute, bad events a minute); None instead of the two is no sample, "reset" restarts.
Course = Iterable[tuple[int, float, float] | tuple[int, None, None] | str]


def series(course: Course, replica: str = "a", model: str = "m", slo: str = "ttft") -> list[dict[str, str]]:
    """The two counters of one replica, minute by minute, from 0."""
    total, bad = 0.0, 0.0
    values: list[tuple[float | None, float | None]] = [(0.0, 0.0)]
    for step in course:
        if isinstance(step, str):
            total = bad = 0.0
            continue
        minutes, events, misses = step
        for _ in range(minutes):
            if events is None or misses is None:
                values.append((None, None))
            else:
                total, bad = total + events, bad + misses
                values.append((total, bad))
    labels = f'instance="{replica}", model_name="{model}", slo="{slo}"'
    return [
        {"series": f"inference_slo_events_total{{{labels}}}", "values": notation(one for one, _ in values)},
        {
            "series": f'inference_slo_bad_events_total{{{labels}, bound="lenient"}}',
            "values": notation(one for _, one in values),
        },
        {  # a bound that no alert may look at
            "series": f'inference_slo_bad_events_total{{{labels}, bound="strict"}}',
            "values": notation(one for one, _ in values),
        },
    ]


def promtool(
    folder: Path, tests: list[dict[str, Any]], *, objective: Objective = PAGES, evaluation: str = "1m"
) -> None:
    groups = list(slo_groups([objective], Options()))
    (folder / "rules.yaml").write_text(plain(groups))
    suite = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": evaluation,
        "group_eval_order": [group.name for group in groups],
        "tests": tests,
    }
    (folder / "tests.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    done = subprocess.run(
        [program("promtool"), "test", "rules", "tests.yaml"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_page_fires_when_the_budget_goes_and_resolves(tmp_path: Path) -> None:
    """Half of the events are bad from minute 60 to 90: 16.8 % of an hour after 20 minutes of it."""
    course = series([(60, 100, 0), (30, 100, 50), (60, 100, 0)])
    expected = {30: 0, 60: 0, 66: 0, 84: 1, 90: 1, 130: 0, 145: 0}
    promtool(tmp_path, [case("page", PAGE, course, expected)])


def test_a_slow_burn_is_a_ticket_and_no_page(tmp_path: Path) -> None:
    """6 % bad, where 5 % may be: the page's slow pair asks for 7 %."""
    course = series([(13 * 10, 1000, 0), (20 * 10, 1000, 60), (40, 1000, 0)])
    expected = {120: 0, 320: 1, 369: 0}
    ticket = case("ticket", TICKET, course, expected, minutes=10)
    ticket["promql_expr_test"] += case("", PAGE, course, dict.fromkeys(expected, 0), minutes=10)[
        "promql_expr_test"
    ]
    promtool(tmp_path, [ticket], objective=TTFT, evaluation="10m")


@pytest.mark.parametrize(
    ("name", "course"),
    [
        ("within the budget", [(200, 100, 4)]),
        ("idle", [(60, 100, 0), (140, 0, 0)]),
        ("never an event", [(200, 0, 0)]),
        ("four bad events are too few", [(100, 0, 0), (4, 1, 1), (96, 0, 0)]),
        ("ten events are too few, were all bad", [(100, 0, 0), (10, 1, 1), (90, 0, 0)]),
        ("a restart while all is well", [(100, 100, 0), "reset", (100, 100, 0)]),
        ("nothing seen", [(200, None, None)]),
    ],
)
def test_nothing_fires(tmp_path: Path, name: str, course: Course) -> None:
    told = series(course)
    both = {**case(name, PAGE, told, NEVER)}
    both["promql_expr_test"] += case(name, TICKET, told, NEVER)["promql_expr_test"]
    promtool(tmp_path, [both], objective=TTFT, evaluation="2m")


def test_it_resolves_when_nothing_is_seen_any_more(tmp_path: Path) -> None:
    """Blind is not good; it is the blind target's own alert that tells of it."""
    course = series([(60, 100, 0), (30, 100, 50), (80, None, None)])
    promtool(tmp_path, [case("blind", PAGE, course, {88: 1, 125: 0, 165: 0})])


def test_it_resolves_when_no_event_comes_any_more(tmp_path: Path) -> None:
    course = series([(60, 100, 0), (30, 100, 50), (80, 0, 0)])
    promtool(tmp_path, [case("idle", PAGE, course, {88: 1, 125: 0, 165: 0})])


def test_a_restart_does_not_end_a_page(tmp_path: Path) -> None:
    course = series([(60, 100, 0), (27, 100, 50), "reset", (30, 100, 50), (60, 100, 0)])
    promtool(tmp_path, [case("reset", PAGE, course, {66: 0, 86: 1, 90: 1, 100: 1, 117: 1, 165: 0})])


def test_a_fleet_is_summed_and_not_averaged(tmp_path: Path) -> None:
    """One small replica that fails does not page; its model's other replica serves the many."""
    small = series([(60, 1, 0), (60, 1, 1)], replica="a")
    large = series([(120, 1000, 0)], replica="b")
    promtool(tmp_path, [case("one of many", PAGE, [*small, *large], {119: 0})])


def test_models_are_apart(tmp_path: Path) -> None:
    ill = series([(60, 100, 0), (60, 100, 60)], model="ill")
    well = series([(120, 10000, 0)], model="well")
    tests = [case("ill", PAGE, [*ill, *well], {60: 0, 115: 1})]
    tests[0]["promql_expr_test"].append(
        {
            "expr": f'count(ALERTS{{alertname="{PAGE}", model_name="well"}}) or vector(0)',
            "eval_time": "115m",
            "exp_samples": [{"labels": "{}", "value": 0}],
        }
    )
    promtool(tmp_path, tests)


@pytest.mark.parametrize(
    ("objective", "bad"),
    [
        (Objective("ttft", "availability", 0.999, 30 * DAY), 5.0),
        (Objective("ttft", "availability", 0.99, 28 * DAY), 40.0),
        (replace(TTFT, objective=0.9), 80.0),
    ],
)
def test_every_kind_of_objective_pages(tmp_path: Path, objective: Objective, bad: float) -> None:
    course = series([(60, 100, 0), (60, 100, bad), (60, 100, 0)])
    promtool(tmp_path, [case(objective.signal, PAGE, course, {59: 0, 119: 1, 179: 0})], objective=objective)


def test_what_the_page_says(tmp_path: Path) -> None:
    course = series([(60, 100, 0), (60, 100, 50)])
    test = case("says", PAGE, course, {})
    identity = {"sloth_id": "inference-ttft", "sloth_service": "inference", "sloth_slo": "ttft"}
    test["alert_rule_test"] = [
        {
            "alertname": PAGE,
            "eval_time": "110m",
            "exp_alerts": [
                {
                    "exp_labels": {
                        **identity,
                        "model_name": "m",
                        "severity": "page",
                        "sloth_severity": "page",
                    },
                    "exp_annotations": {
                        "summary": "ttft of m burns its error budget fast",
                        "description": "50% of the events of m were bad in the last 5m or 30m. 95% of "
                        "time_to_first_token are to stay within 1 s over 7d, so 5% may be bad.",
                        "title": "(page) inference ttft SLO error budget burn rate is too fast.",
                        "runbook_url": "https://github.com/inference-sidecar/inference-sidecar/blob/main/"
                        "docs/runbooks/error-budget-burn.md",
                    },
                }
            ],
        }
    ]
    promtool(tmp_path, [test])


def test_a_zero_denominator_leaves_no_sample(tmp_path: Path) -> None:
    test = case("absent", PAGE, series([(60, 0, 0)]), {})
    test["promql_expr_test"] = [
        {"expr": "slo:sli_error:ratio_rate5m", "eval_time": "50m", "exp_samples": []},
        {"expr": "slo:current_burn_rate:ratio", "eval_time": "50m", "exp_samples": []},
        {
            "expr": "slo:error_budget:ratio",
            "eval_time": "50m",
            "exp_samples": [
                {
                    "labels": 'slo:error_budget:ratio{sloth_id="inference-ttft", '
                    'sloth_service="inference", sloth_slo="ttft"}',
                    "value": 0.05,
                }
            ],
        },
    ]
    promtool(tmp_path, [test])
