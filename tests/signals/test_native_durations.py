"""Triton's own durations: queue and compute seconds are these, as a real Triton counted them."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.pipeline import Settings as TargetSettings
from sidecar.pipeline import TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.signals import Signals
from sidecar.snapshot import Block

PAGES = (Path(__file__).parent / "captures" / "triton.txt").read_text().split("=== ")[1:]
COMPUTE = tuple(f"nv_inference_compute_{part}_duration_us" for part in ("input", "infer", "output"))


def durations(page: str, model: str, *families: str) -> float:
    """Seconds, by another parser than the line's."""
    return sum(
        sample.value / 1e6
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.removesuffix("_total") in families and sample.labels["model"] == model
    )


@pytest.mark.parametrize("model", ["slow", "fast"])
def test_work_and_ratio_are_tritons_own_durations(model: str) -> None:
    line = TargetPipeline(TargetSettings(), Registry(), [Signals()])
    pages = [page.partition("\n")[2] for page in PAGES]
    blocks: list[Block] = []
    for second, page in enumerate(pages):
        snapshot = line.feed({"metrics": Answer(200, page.encode())}, time=1e9 + second, mono=float(second))
        blocks.append(snapshot.extra[-1])
    queued = durations(pages[-1], model, "nv_inference_queue_duration_us")
    queued -= durations(pages[0], model, "nv_inference_queue_duration_us")
    computed = durations(pages[-1], model, *COMPUTE) - durations(pages[0], model, *COMPUTE)
    last = blocks[-1]
    assert last.get("queue_seconds_total", model_name=model) == pytest.approx(queued)
    assert last.get("compute_seconds_total", model_name=model) == pytest.approx(computed)
    ratio = last.get("queue_to_compute_ratio", model_name=model, window="1m")
    assert ratio == pytest.approx(queued / computed) and ratio > 0.2
