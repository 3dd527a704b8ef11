"""What the page remembers: quantiles, rates, rings, the scrapes."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest

from sidecar.outputs.web.trail import HORIZON, SCRAPES, Ring, Trail, quantile
from sidecar.snapshot import Block, LayoutBuilder, Snapshot, block_of

BOUNDS = (0.1, 0.5, 1.0, inf)


def snapshot(
    time: float, *, buckets: tuple[float, ...] = (), preempted: float = nan, epoch: int = 0, up: bool = True
) -> Snapshot:
    builder = LayoutBuilder()
    labels = {"target": "a", "model_name": "m"}
    values: list[float] = []
    if up:
        builder.add("preemptions_total", labels)
        builder.add("requests_running", labels)
        values += [preempted, 4.0]
        if buckets:
            builder.add("time_to_first_token_seconds", labels, BOUNDS)
            values += [*buckets, 1.0]
    life = block_of(
        [
            ("target_scrapes_total", {"target": "a", "result": "ok"}, time if up else 100.0),
            ("target_scrapes_total", {"target": "a", "result": "timeout"}, 0.0 if up else time),
        ]
    )
    reasons = {} if up else {"scrape": "no answer in time"}
    return Snapshot(
        "a", "vllm", time, time, epoch, up, Block(builder.build(), tuple(values)), life, reasons=reasons
    )


@pytest.mark.parametrize(
    ("share", "cumulative", "expected"),
    [
        (0.5, (10, 10, 10, 10), 0.05),
        (0.5, (0, 10, 10, 10), 0.3),
        (0.95, (50, 90, 100, 100), 0.75),
        (0.99, (50, 90, 90, 100), 1.0),  # in the +Inf bucket the highest finite bound is all that is known
    ],
)
def test_quantiles(share: float, cumulative: tuple[float, ...], expected: float) -> None:
    assert quantile(share, BOUNDS, cumulative) == pytest.approx(expected)


def test_no_quantile_without_observations_or_buckets() -> None:
    assert isnan(quantile(0.5, BOUNDS, (0, 0, 0, 0)))
    assert isnan(quantile(0.5, (inf,), (7,)))


def test_quantile_is_of_the_last_minute_only() -> None:
    trail = Trail()
    trail.feed(snapshot(1000, buckets=(100, 100, 100, 100)))
    trail.feed(snapshot(1002, buckets=(100, 100, 110, 110)))
    assert trail.quantile(0.5) == pytest.approx(0.75)
    assert trail.latency == "time_to_first_token_seconds"
    trail.feed(snapshot(1063, buckets=(110, 110, 120, 120)))
    assert trail.quantile(0.01) < 0.5, "the reading of 1000 has left, its successor is the base"


def test_without_buckets_there_is_a_mean_and_no_quantile() -> None:
    trail = Trail()
    for time, count, total in ((1000.0, 10.0, 5.0), (1002.0, 14.0, 8.0)):
        builder = LayoutBuilder()
        builder.add("e2e_request_latency_seconds", {"target": "a", "model_name": "m"})
        data = Block(builder.build(), (count, total))
        trail.feed(Snapshot("a", "triton", time, time, 0, True, data, block_of([])))
    assert trail.mean() == pytest.approx(0.75)
    assert isnan(trail.quantile(0.5))
    assert trail.ring.last()["mean"] == pytest.approx(0.75)


def test_rates_begin_anew_with_a_restart_and_a_gap() -> None:
    trail = Trail()
    trail.feed(snapshot(1000, preempted=10))
    assert isnan(trail.rate("preemptions_total")), "one reading is no rate"
    trail.feed(snapshot(1010, preempted=30))
    assert trail.rate("preemptions_total") == pytest.approx(2.0)
    trail.feed(snapshot(1012, preempted=1, epoch=1))
    assert isnan(trail.rate("preemptions_total")), "never negative over a restart"
    trail.feed(snapshot(1014, preempted=2, epoch=1))
    trail.feed(snapshot(1016, up=False))
    assert isnan(trail.rate("preemptions_total"))


def test_a_snapshot_counts_once() -> None:
    trail = Trail()
    trail.feed(snapshot(1000))
    trail.feed(snapshot(1000))
    assert list(trail.ring.times) == [1000]


def test_scrapes_say_how_each_ended() -> None:
    trail = Trail()
    for time in range(1000, 1000 + 2 * SCRAPES):
        trail.feed(snapshot(float(time)))
    trail.feed(snapshot(2000.0, up=False))
    assert len(trail.scrapes) == SCRAPES
    last = trail.last
    assert last is not None
    assert (last.result, last.detail) == ("timeout", "no answer in time")
    assert trail.scrapes[-2].result == "ok"


def test_ring_forgets_and_fills_up_later_columns() -> None:
    ring = Ring()
    ring.append(0.0, {"a": 1.0})
    ring.append(1.0, {"a": 2.0, "b": 3.0})
    assert ring.json() == {"t": [0.0, 1.0], "a": [1, 2], "b": [None, 3]}
    assert ring.last() == {"t": 1.0, "a": 2, "b": 3}
    for second in range(2, 4000):
        ring.append(float(second), {"a": nan})
    assert len(ring.times) <= HORIZON + 70
    assert ring.times[-1] == 3999.0
    assert "a" not in ring.json(), "a column without a value is left out"
    assert ring.last()["a"] is None
