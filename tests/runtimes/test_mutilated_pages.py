"""Whatever becomes of a page, an adapter gives numbers that could be true, or none, and never raises."""

from __future__ import annotations

from math import isfinite, isnan
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Kind
from sidecar.snapshot import Snapshot

HERE = Path(__file__).parent
PAGES = {
    "triton": (
        "triton/pages/captures/llm_1_eight_streams_two_run.prom",
        "triton/pages/captures/r26_two_gpus.prom",
    ),
    "tensorrt_llm": (
        "tensorrt_llm/pages/samples/prometheus_metrics_v13_saturated.prom",
        "tensorrt_llm/pages/samples/metrics_v13_attention_dp2.json",
    ),
    "nim": ("nim/pages/samples/nim1_saturated.prom", "nim/pages/samples/nim_embedding_triton_port8002.prom"),
}
ODD = (b"NaN", b"Nan", b"+Inf", b"-Inf", b"-1", b"1e308", b"", b"abc", b"0", b"1.5e+011")
REGISTRY = Registry()


def mutilated(body: bytes, random: Random, strokes: int) -> bytes:
    """Lines lost, doubled, swapped, with odd values, or cut in the middle."""
    lines = body.split(b"\n")
    for _ in range(strokes):
        place = random.randrange(len(lines))
        stroke = random.randrange(5)
        if stroke == 0 and len(lines) > 1:
            del lines[place]
        elif stroke == 1:
            lines.insert(place, lines[random.randrange(len(lines))])
        elif stroke == 2:
            lines[place] = lines[place].rpartition(b" ")[0] + b" " + random.choice(ODD)
        elif stroke == 3:
            lines[place] = lines[place][: random.randrange(len(lines[place]) + 1)]
        else:
            other = random.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
    return b"\n".join(lines)


def plausible(snapshot: Snapshot) -> None:
    for series in snapshot.data.layout.series:
        values = snapshot.data.values[series.start : series.start + series.width]
        if series.signal.kind is Kind.HISTOGRAM:
            counts = values[:-1]
            assert all(isnan(count) or count >= 0 for count in counts), series
            assert list(counts) == sorted(counts) or any(map(isnan, counts)), series
        elif series.signal.kind is Kind.COUNTER:
            assert isnan(values[0]) or (isfinite(values[0]) and values[0] >= 0), series


@pytest.mark.parametrize("runtime", PAGES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), which=st.integers(0, 1), strokes=st.integers(0, 30))
def test_mutilated_pages_give_what_could_be_true(runtime: str, seed: int, which: int, strokes: int) -> None:
    random = Random(seed)
    body = (HERE / PAGES[runtime][which]).read_bytes()
    line = TargetPipeline(Settings(runtime=runtime), REGISTRY)
    for tick in range(3):
        page = mutilated(body, random, strokes)
        plausible(line.feed({"metrics": Answer(200, page)}, time=1796033477.0 + tick, mono=float(tick)))
