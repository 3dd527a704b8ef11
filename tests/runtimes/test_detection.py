"""The runtime is found by fingerprints, with a reason; what is ambiguous is said, not guessed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sidecar.exposition import peek_families
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.detection import PROBES, Detection
from sidecar.runtimes.registry import ADAPTERS, Registry

HERE = Path(__file__).parent
DETECTOR = Registry().detector


def detect(page: bytes | str = b"", **answers: Any) -> Detection:
    body = (HERE / page).read_bytes() if isinstance(page, str) else page
    found = {
        name: answer if isinstance(answer, Answer) else Answer(200, json.dumps(answer).encode())
        for name, answer in answers.items()
    }
    return DETECTOR.detect(peek_families(body), {"metrics": Answer(200, body)} | found)


PAGES = [
    (runtime, page)
    for runtime in ("triton", "tensorrt_llm", "nim", "dynamo")
    for page in sorted((HERE / runtime / "pages").glob("**/*.prom"))
    if page.stat().st_size and page.parent.name != "cases"
]


@pytest.mark.parametrize(("runtime", "page"), PAGES, ids=[f"{r}-{p.stem}" for r, p in PAGES])
def test_each_page_tells_its_runtime(runtime: str, page: Path) -> None:
    found = detect(str(page.relative_to(HERE)))
    if page.stem == "nim2_vllm_v1metrics_excerpt":
        runtime = "vllm"  # by its page alone it is
    if page.stem == "nim_embedding_triton_port8002":
        runtime = "triton"
    if page.stem == "vllm_readme_with_cuts":
        runtime = "vllm"  # an excerpt without Triton's own families
    assert found.runtime == runtime, found.reason
    assert found.confidence >= 0.7
    assert found.reason


def test_an_engine_behind_triton_is_a_layer() -> None:
    found = detect("triton/pages/captures/llm_1_eight_streams_two_run.prom")
    assert (found.runtime, found.engine) == ("triton", "vllm")
    assert "inside runs vllm" in found.reason


def test_vllm_alone_is_vllm() -> None:
    assert detect(b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n").runtime == "vllm"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("metadata", {"version": "2.1.6", "modelInfo": [], "selectedModelProfileId": "x"}),
        ("release", {"release": "2.1.6", "api": "2.0"}),
    ],
)
def test_a_nim_over_vllm_is_told_by_its_endpoints(name: str, answer: Any) -> None:
    found = detect("nim/pages/samples/nim2_vllm_v1metrics_excerpt.prom", **{name: answer})
    assert (found.runtime, found.engine) == ("nim", "vllm")


def test_a_nim_is_told_by_the_path_of_its_page() -> None:
    page = (HERE / "nim/pages/samples/nim2_vllm_v1metrics_excerpt.prom").read_bytes()
    found = DETECTOR.detect(peek_families(page), {"v1_metrics": Answer(200, page)})
    assert (found.runtime, found.engine) == ("nim", "vllm")
    assert "/v1/metrics" in found.reason


def test_what_fits_two_runtimes_is_said_to() -> None:
    page = (HERE / "tensorrt_llm/pages/cases/06_v12_unprefixed_undefined.prom").read_bytes()
    found = detect(page)
    assert found.runtime == ""
    assert "ambiguous" in found.reason and "nim" in found.reason and "tensorrt_llm" in found.reason
    told = detect(page, models={"object": "list", "data": [{"id": "Qwen3-8B", "owned_by": "tensorrt_llm"}]})
    assert told.runtime == "tensorrt_llm"


def test_triton_is_told_by_v2_and_kserve_is_not() -> None:
    version = json.loads((HERE / "triton/pages/endpoints/C_v2.json").read_text())
    assert detect(v2=version).runtime == "triton"
    assert detect(v2={"name": "kserve", "version": "0.21.0"}).runtime == ""
    assert detect(v2=Answer(404, json.dumps(version).encode())).runtime == ""


def test_rows_are_tensorrt_llm() -> None:
    assert detect("tensorrt_llm/pages/samples/metrics_v13_loaded.json").runtime == "tensorrt_llm"
    empty = detect(b"[]")
    assert (empty.runtime, empty.confidence) == ("", 0.5)
    assert "perhaps tensorrt_llm" in empty.reason
    assert detect(b'[{"a": 1}]').runtime == ""


def test_an_unknown_page_is_unknown() -> None:
    found = detect(b"# TYPE http_requests_total counter\nhttp_requests_total 3\n")
    assert (found.runtime, found.confidence) == ("", 0.0)


@pytest.mark.parametrize("nonsense", [b"", b"null", b"[[[", b"\xff\xfe", b'{"data": "x", "name": {}}'])
def test_nonsense_tells_nothing(nonsense: bytes) -> None:
    answers = {probe.name: Answer(200, nonsense) for probe in PROBES}
    assert DETECTOR.detect({}, answers).runtime == ""


def test_fingerprints_name_endpoints_that_are_asked() -> None:
    asked = {probe.name for probe in PROBES}
    prints = [one for name in ADAPTERS for one in Registry().mapping(name).fingerprints]
    assert {one.endpoint for one in prints if one.endpoint} <= asked
    for one in prints:
        re.compile(one.family or one.body)


def test_a_learnt_answer_decides_what_the_page_alone_cannot() -> None:
    page = (HERE / "tensorrt_llm/pages/cases/06_v12_unprefixed_undefined.prom").read_bytes()
    line = TargetPipeline(Settings(), Registry())
    assert line.feed({"prometheus": Answer(200, page)}, time=0.0, mono=0.0).runtime == ""
    assert "ambiguous" in line.detection
    line.learn("models", Answer(200, b'{"data": [{"id": "Qwen3-8B", "owned_by": "tensorrt_llm"}]}'))
    snapshot = line.feed({"prometheus": Answer(200, page)}, time=2.0, mono=2.0)
    assert snapshot.runtime == "tensorrt_llm"
    assert snapshot.data.get("requests_total", model_name="Qwen3-8B", outcome="success") == 5


def test_a_page_that_is_gone_is_looked_for_anew() -> None:
    line = TargetPipeline(Settings(), Registry())
    nim = (HERE / "nim/pages/samples/nim1_loaded.prom").read_bytes()
    assert line.feed({"v1_metrics": Answer(200, nim)}, time=0.0, mono=0.0).runtime == "nim"
    line.feed({"metrics": Answer(404, error="not_found")}, time=2.0, mono=2.0)
    assert line.endpoints == PROBES
    triton = (HERE / "triton/pages/captures/load_00_idle.prom").read_bytes()
    assert line.feed({"metrics": Answer(200, triton)}, time=4.0, mono=4.0).runtime == "triton"
