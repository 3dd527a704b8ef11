"""A series that is gone for a tick (one of a runtime's two pages is late, say) blinds no window for hours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.slo.engine import SloEngine
from sidecar.slo.objective import Objective

OF = 'model_name="m",engine="0"'


def page(done: int, *, latencies: bool = True) -> Answer:
    lines = [
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{{OF},finished_reason="stop"}} {done}',
    ]
    if latencies:
        lines += [
            "# TYPE vllm:time_to_first_token_seconds histogram",
            f'vllm:time_to_first_token_seconds_bucket{{{OF},le="1.0"}} {done}',
            f'vllm:time_to_first_token_seconds_bucket{{{OF},le="+Inf"}} {done}',
            f"vllm:time_to_first_token_seconds_sum{{{OF}}} {done}",
            f"vllm:time_to_first_token_seconds_count{{{OF}}} {done}",
        ]
    return Answer(200, ("\n".join(lines) + "\n").encode())


@pytest.fixture
def read() -> Callable[[Answer], tuple[float, float]]:
    """Feeds a page two seconds after the last one; coverage of five minutes, and events."""
    objective = Objective(name="ttft", signal="time_to_first_token", objective=0.95, threshold=1.0)
    line = TargetPipeline(Settings(), Registry(), [SloEngine([objective])])
    seconds = 0.0

    def feed(answer: Answer) -> tuple[float, float]:
        nonlocal seconds
        seconds += 2
        snapshot = line.feed({"metrics": answer}, time=1.7e9 + seconds, mono=1000 + seconds)
        block = snapshot.extra[0]
        return block.get("slo_window_coverage_ratio", window="5m"), block.get("slo_events_total")

    return feed


def test_its_windows_go_on_and_no_event_is_lost(read: Callable[[Answer], tuple[float, float]]) -> None:
    for done in range(100, 200):
        before, _ = read(page(done))
    blind, _ = read(page(200, latencies=False))
    assert blind == 0
    again, events = read(page(203))
    assert again == pytest.approx(before + 4 / 300)
    assert events == 103


def test_but_not_over_a_restart_that_hides_what_happened(
    read: Callable[[Answer], tuple[float, float]],
) -> None:
    for done in range(100, 200):
        read(page(done))
    read(page(200, latencies=False))
    read(page(3, latencies=False))
    again, events = read(page(5))
    assert again == 0
    assert events == 99 + 5
