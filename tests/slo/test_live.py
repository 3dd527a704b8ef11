"""Polls and scrapes are not at the same moments: by how much the two burn rates may differ.

In a step of the error ratio by s the windows' edges are a poll and a scrape apart at most, so the ratios differ
by s · (poll + scrape) / window at most; in a steady state they don't differ.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator

import pytest

from sidecar.slo import AlertWindow, Objective, Severity, SloEngine
from sidecar.slo.windows import DAY
from tests.integration.real_servers import Server, program, prometheus
from tests.slo.worlds import Runtime

WINDOWS = (10, 60)
TTFT = Objective(
    "ttft",
    "time_to_first_token",
    0.95,
    7 * DAY,
    threshold=1.0,
    windows=(AlertWindow(Severity.PAGE, *map(float, WINDOWS), fixed_factor=4),),
)
POLL, STEP, STEP_AT, END = 1, 0.5, 300, 600
SCRAPES = {"every second": 1, "every five": 5}
#: Scrapes come this much later than polls, and queries later than scrapes (seconds): nobody chooses that.
PHASE, ASKED = 0.4, 0.7


@pytest.fixture(scope="module")
def told() -> dict[int, dict[str, float]]:
    """Second → counters and burn rates of the sidecar, at 20 events a second."""
    runtime, engine, told = Runtime(), SloEngine([TTFT]), {}
    for second in range(END):
        bad = round(20 * STEP) if second >= STEP_AT else 0
        runtime.observe(3.0, bad)
        runtime.observe(0.2, 20 - bad)
        block = engine.feed(runtime.snapshot(second))
        told[second] = {
            "events": block.get("slo_events_total"),
            "bad": block.get("slo_bad_events_total", bound="lenient"),
            **{str(window): block.get("slo_burn_rate", window=_text(window)) for window in WINDOWS},
        }
    return told


def _text(window: int) -> str:
    return "1m" if window == 60 else f"{window}s"


@pytest.fixture(scope="module")
def start() -> int:
    return int(time.time()) - 3 * END


@pytest.fixture(scope="module")
def server(
    told: dict[int, dict[str, float]], start: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("live")
    lines = []
    for family in ("events", "bad"):
        lines.append(f"# TYPE {family} counter")
        for name, every in SCRAPES.items():
            lines += [
                f'{family}_total{{scrape="{name}"}} {told[second][family]:.17g} {start + second + PHASE}'
                for second in range(0, END, every)
            ]
    (folder / "live.om").write_text("\n".join([*lines, "# EOF", ""]))
    made = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "live.om", "tsdb"]
    subprocess.run(made, cwd=folder, check=True, capture_output=True)
    with prometheus(folder, {}, data=folder / "tsdb", flags=["--storage.tsdb.retention.time=30d"]) as started:
        yield started


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("scrape", SCRAPES)
def test_they_differ_by_no_more_than_their_edges(
    told: dict[int, dict[str, float]], start: int, server: Server, window: int, scrape: str
) -> None:
    chosen = f'{{scrape="{scrape}"}}[{window}s]'
    query = f"increase(bad_total{chosen}) / increase(events_total{chosen})"
    first = start + 100 + ASKED
    answer = server.get_json("/api/v1/query_range", query=query, start=first, end=start + END - 1, step=1)
    (series,) = answer["data"]["result"]
    bound = STEP * (POLL + SCRAPES[scrape]) / window
    differences = {}
    for at, value in series["values"]:
        second = round(at - start - ASKED)
        ours = told[second][str(window)] * TTFT.budget
        differences[second] = abs(float(value) - ours)
    assert len(differences) > 400
    assert max(differences.values()) <= bound
    assert max(differences.values()) > 0  # the step was seen, at different moments
    steady = [one for second, one in differences.items() if not 0 <= second - STEP_AT <= window + 10]
    assert max(steady) == pytest.approx(0, abs=1e-12)
