"""31 seconds of a real Triton with a burst between second 8 and 16: what the queue did, second by second."""

from __future__ import annotations

import json
from pathlib import Path

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.snapshot import Snapshot

SERIES = Path(__file__).parent / "series"


def seconds() -> list[Snapshot]:
    line = TargetPipeline(Settings(), Registry())
    return [
        line.feed({"metrics": Answer(200, page.read_bytes())}, time=float(second), mono=float(second))
        for second, page in enumerate(sorted(SERIES.glob("*.prom")))
    ]


def total(snapshot: Snapshot, signal: str) -> float:
    (series,) = snapshot.data.layout.find(signal)
    return snapshot.data.values[series.sum_index]


def test_the_queue_of_each_second_is_what_was_seen() -> None:
    truth = json.loads((SERIES / "truth.json").read_text())
    seen = seconds()
    assert [one.data.get("requests_waiting") for one in seen] == [one["waiting"] for one in truth]
    assert [one.data.get("requests_total", outcome="rejected") for one in seen] == [
        one["rejected"] for one in truth
    ]
    assert {one.epoch for one in seen} == {0}


def test_queue_seconds_outgrow_compute_seconds_in_the_burst_and_not_before() -> None:
    seen = seconds()

    def ratio(since: int, until: int) -> float:
        queue, compute = (
            total(seen[until], signal) - total(seen[since], signal)
            for signal in ("request_queue_time_seconds", "request_inference_time_seconds")
        )
        return queue / compute

    assert ratio(0, 8) < 0.8
    assert ratio(10, 18) > 2.0
    assert ratio(22, 30) < 0.8
