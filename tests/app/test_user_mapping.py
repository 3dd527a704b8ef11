"""A runtime added from the config alone: the example of the docs on a real page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sidecar.app import registry_of
from sidecar.config import ConfigError, load_bytes
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).parent / "pages" / "llamacpp_b10434.prom"


def example() -> bytes:
    text = (ROOT / "docs" / "adding-a-runtime.md").read_text()
    found = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1].encode()


@pytest.mark.parametrize("runtime", ["llamacpp", "auto"])
def test_the_example_of_the_docs_maps_a_real_page(runtime: str) -> None:
    registry = registry_of(load_bytes(example(), "docs"))
    pipeline = TargetPipeline(Settings(runtime=runtime), registry)
    snapshot = pipeline.feed({"metrics": Answer(200, PAGE.read_bytes())}, time=0.0, mono=0.0)
    assert snapshot.runtime == "llamacpp"
    data = snapshot.data
    assert data.get("requests_running") == 2
    assert data.get("requests_waiting") == 6
    assert data.get("prompt_tokens_total") == 1530
    assert data.get("generation_tokens_total") == 6309
    assert pipeline.binding is not None
    assert "llamacpp:n_tokens_max" in pipeline.binding.unmapped
    assert "llamacpp:prompt_tokens_seconds" not in pipeline.binding.unmapped


def test_a_faulty_mapping_is_told_with_its_place() -> None:
    text = example().replace(b"requests_running:", b"requests_runing:")
    with pytest.raises(ConfigError) as caught:
        registry_of(load_bytes(text, "config.yaml"))
    assert "requests_runing" in str(caught.value)
    assert re.search(r"config\.yaml:4", str(caught.value))
