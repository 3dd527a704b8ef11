"""An objective that is edited: its counters begin at 0, which Prometheus takes for what it is, a reset."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from sidecar.slo import Objective, SloEngine
from sidecar.slo.windows import DAY, STANDARD
from sidecar.snapshot import Block
from tests.slo.stories import notation
from tests.slo.test_burn_alerts import promtool
from tests.slo.worlds import Runtime

BEFORE = Objective(
    "ttft", "time_to_first_token", 0.9, 7 * DAY, threshold=1.0, models=("m",), windows=STANDARD[:2]
)
MINUTES = 60
Served = Callable[[Runtime], None]


def exported(after: Objective, first: Served, then: Served) -> tuple[list[tuple[float, float]], Block]:
    """(events, surely bad) on the page each minute: an hour, the edit, half an hour; and the last block."""
    runtime, engine = Runtime(), SloEngine([BEFORE])
    shown, block = [], engine.feed(runtime.snapshot(0))
    for minute in range(1, MINUTES + MINUTES // 2 + 1):
        if minute == MINUTES + 1:
            engine = SloEngine([after], engine.saved())  # what a reload does, and a restart with a state file
            engine.feed(runtime.snapshot(MINUTES * 60))
        (first if minute <= MINUTES else then)(runtime)
        block = engine.feed(runtime.snapshot(minute * 60))
        shown.append(
            (block.get("slo_events_total"), block.get("slo_bad_events_total", slo="ttft", bound="lenient"))
        )
    return shown, block


def by_the_rules(
    folder: Path, objective: Objective, shown: list[tuple[float, float]], expected: float
) -> None:
    """The fleet's error ratio of the last hour, recorded by the rules of the edited objective."""
    labels = 'instance="a", model_name="m", slo="ttft"'
    ratio = f"round(slo:sli_error:ratio_rate1h, 0.001) == {expected:g}"
    test = {
        "interval": "1m",
        "input_series": [
            {
                "series": f"inference_slo_events_total{{{labels}}}",
                "values": notation(one for one, _ in shown),
            },
            {
                "series": f'inference_slo_bad_events_total{{{labels}, bound="lenient"}}',
                "values": notation(one for _, one in shown),
            },
        ],
        "promql_expr_test": [
            {
                "expr": f"count({ratio})",
                "eval_time": f"{len(shown) - 1}m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
        ],
    }
    promtool(folder, [test], objective=objective)


def ten_percent_slow(runtime: Runtime) -> None:
    runtime.observe(0.2, 90)
    runtime.observe(3.0, 10)


def twenty_percent_slow(runtime: Runtime) -> None:
    runtime.observe(0.2, 80)
    runtime.observe(3.0, 20)


def test_another_share_or_period_judges_the_same_events(tmp_path: Path) -> None:
    after = replace(BEFORE, objective=0.95, period=14 * DAY)
    shown, block = exported(after, ten_percent_slow, twenty_percent_slow)
    assert shown[MINUTES - 1] == (6000, 600)
    assert shown[MINUTES] == (100, 20), "from 0"
    by_the_rules(tmp_path, after, shown, 0.15)
    assert block.get("slo_burn_rate", window="1h") == pytest.approx(0.15 / 0.05, rel=0.01), "windows go on"


def test_another_threshold_starts_anew_here_and_is_mixed_in_the_rules(tmp_path: Path) -> None:
    """700 ms is good by a threshold of 1 s and bad by one of 500 ms."""

    def all_take_700_ms(runtime: Runtime) -> None:
        runtime.observe(0.7, 100)

    after = replace(BEFORE, threshold=0.5)
    shown, block = exported(after, all_take_700_ms, all_take_700_ms)
    assert shown[-1] == (3000, 3000)
    by_the_rules(tmp_path, after, shown, 0.5)
    assert block.get("slo_burn_rate", window="5m") == pytest.approx(1 / 0.1)
    assert isnan(block.get("slo_burn_rate", window="1h")), "half of the hour was judged by another threshold"
