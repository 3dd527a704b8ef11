"""Thirty days of a service: in process, by the generated rules on a real Prometheus, and the truth, side by side.

Daily load, bad mornings, a runtime that restarts, two hours in which the target can't be read, two in which
Prometheus can't read the sidecar, and a sidecar that restarts with its state.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import pi, sin
from pathlib import Path

import pytest

from sidecar.slo import Objective, SloEngine
from sidecar.slo.rules import Options, Recording, plain
from sidecar.slo.rules.generate import slo_groups
from sidecar.slo.rules.recording import ERROR_RATIO, sli_groups
from sidecar.slo.windows import DAY, HOUR, duration_text
from sidecar.snapshot import Block
from tests.integration.real_servers import Server, program, prometheus, wait_for
from tests.slo.worlds import Runtime

TTFT = Objective("ttft", "time_to_first_token", 0.95, 30 * DAY, threshold=1.0)
POLL = 60
DAYS = 30
RESTART, TARGET_GAP, SCRAPE_GAP, SIDECAR_RESTART = 10.3, 17.4, 20.5, 23.6  # days
GAP = 2 * HOUR

#: When burn rates are compared: hours after the start, gaps and restarts within some of the windows.
COMPARED = (80, 11 * 24, 18 * 24, 21 * 24 + 5, 24 * 24, 30 * 24)


@dataclass
class Month:
    """What happened, what the sidecar said of it, and what Prometheus scraped."""

    start: int
    events: int = 0
    bad: int = 0
    remaining: float = 0.0
    told: dict[int, dict[str, float]] = field(default_factory=dict)
    scraped: list[tuple[int, float, float]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + round(DAYS * DAY)

    @property
    def truth(self) -> float:
        return 1 - self.bad / self.events / TTFT.budget


def traffic(seconds: int, dice: random.Random) -> tuple[int, int]:
    """Good and bad events of a minute: a daily wave, and mornings that are worse."""
    day = seconds / DAY % 1
    load = 30 + 25 * sin(2 * pi * day)
    share = 0.12 if 0.3 < day < 0.36 else 0.02
    events = round(load * dice.uniform(0.7, 1.3))
    bad = sum(dice.random() < share for _ in range(events))
    return events - bad, bad


def live(month: Month) -> Iterator[tuple[int, Block]]:
    """Run the month through the engine."""
    dice, runtime, engine = random.Random(7), Runtime(), SloEngine([TTFT])
    for seconds in range(0, round(DAYS * DAY) + 1, POLL):
        good, bad = traffic(seconds, dice) if seconds else (0, 0)
        runtime.observe(0.2, good)
        runtime.observe(3.0, bad)
        month.events, month.bad = month.events + good + bad, month.bad + bad
        days, now = seconds / DAY, month.start + seconds
        if days == round(RESTART * DAY / POLL) * POLL / DAY:
            runtime.restart()
        if days == round(SIDECAR_RESTART * DAY / POLL) * POLL / DAY:
            engine = SloEngine([TTFT], engine.saved())
            continue  # one poll is missed while it starts
        away = TARGET_GAP * DAY <= seconds < TARGET_GAP * DAY + GAP
        yield seconds, engine.feed(runtime.down(now) if away else runtime.snapshot(now))


def lived(start: int) -> Month:
    month = Month(start)
    for seconds, block in live(month):
        if not SCRAPE_GAP * DAY <= seconds < SCRAPE_GAP * DAY + GAP:
            bad = block.get("slo_bad_events_total", bound="lenient")
            month.scraped.append((start + seconds, block.get("slo_events_total"), bad))
        if seconds % 3600 == 0 and seconds // 3600 in COMPARED:
            month.told[start + seconds] = {
                duration_text(span): block.get("slo_burn_rate", window=duration_text(span))
                for span in TTFT.spans
            }
        month.remaining = block.get("slo_error_budget_remaining_ratio")
    return month


def backfill(month: Month, folder: Path) -> Path:
    """The scraped counters as blocks of a Prometheus database."""
    labels = 'instance="a",target="local",model_name="m",slo="ttft"'
    lines = ["# TYPE inference_slo_events counter"]
    lines += [f"inference_slo_events_total{{{labels}}} {total:.17g} {at}" for at, total, _ in month.scraped]
    lines.append("# TYPE inference_slo_bad_events counter")
    labels += ',bound="lenient"'
    lines += [f"inference_slo_bad_events_total{{{labels}}} {bad:.17g} {at}" for at, _, bad in month.scraped]
    (folder / "month.om").write_text("\n".join([*lines, "# EOF", ""]))
    arguments = ["tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=1488h"]
    subprocess.run(
        [program("promtool"), *arguments, "month.om", "tsdb"], cwd=folder, check=True, capture_output=True
    )
    return folder / "tsdb"


@pytest.fixture(scope="module")
def month() -> Month:
    now = int(time.time())
    return lived(now - now % 900 - round(DAYS * DAY))


@pytest.fixture(scope="module")
def server(month: Month, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Prometheus over the month, with the generated rules evaluated every second."""
    folder = tmp_path_factory.mktemp("month")
    groups = [replace(group, interval="") for group in slo_groups([TTFT], Options())]
    (folder / "rules.yaml").write_text(plain(groups))
    config = {"global": {"evaluation_interval": "1s"}, "rule_files": [str(folder / "rules.yaml")]}
    flags = ["--storage.tsdb.retention.time=90d"]
    with prometheus(folder, config, data=backfill(month, folder), flags=flags) as started:
        yield started


def test_budget_is_within_a_tenth_of_a_point_of_the_truth(month: Month, server: Server) -> None:
    by_rules = wait_for(
        lambda: server.value("slo:period_error_budget_remaining:ratio"), 20, name="the period's rule"
    )
    print(f"truth {month.truth:.4%}, in process {month.remaining:.4%}, by the rules {by_rules:.4%}")
    assert 0.1 < month.truth < 0.9
    assert month.remaining == pytest.approx(month.truth, abs=0.001)
    # The rules look back from now: some minutes of the first day are out of their window.
    whole = [rule for rule in _ratios() if rule.record.endswith("30d")]
    at_the_end = server.value(_wide(whole[0].expr, "30d"), at=month.end)
    assert at_the_end is not None
    assert 1 - at_the_end / TTFT.budget == pytest.approx(month.truth, abs=0.001)
    assert by_rules == pytest.approx(month.truth, abs=0.001)


def test_an_average_of_ratios_would_be_far_off(month: Month, server: Server) -> None:
    """What others do for the period, to show that the month above is no easy one."""
    five = next(rule for rule in _ratios() if rule.record.endswith("rate5m"))
    averaged = server.value(f"avg_over_time(({five.expr})[30d:5m])", at=month.end)
    assert averaged is not None
    assert abs(1 - averaged / TTFT.budget - month.truth) > 0.01


def test_burn_rates_in_process_are_those_of_promql(month: Month, server: Server) -> None:
    compared = 0
    for at, told in month.told.items():
        for rule in _ratios():
            window = rule.labels["sloth_window"]
            if window not in told:
                continue
            error_ratio = server.value(_wide(rule.expr, window), at=at)
            assert error_ratio is not None
            assert error_ratio / TTFT.budget == pytest.approx(told[window], rel=1e-9, abs=1e-9), (at, window)
            compared += 1
    assert compared == len(COMPARED) * len(TTFT.spans)


def _ratios() -> list[Recording]:
    return [
        rule
        for group in sli_groups(TTFT, "inference", ("model_name",))
        for rule in group.rules
        if isinstance(rule, Recording) and rule.record.startswith(ERROR_RATIO)
    ]


def _wide(expression: str, window: str) -> str:
    """A window with its first moment in it: Prometheus 2 has it so, Prometheus 3 leaves it out."""
    return expression.replace(f"[{window}]", f"[{window}1ms]")
