"""check-config says what would be sent and how often; doctor sends one and says how it went."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.config import ConfigError, effective_yaml, load_bytes
from sidecar.simulator.server import SimulatedVllm
from tests.probe.conftest import refusal, serve_script


def test_check_config_says_what_goes_where_and_how_often(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "probe: {enabled: true, interval: 5m, max_tokens: 4}\n"
        "targets:\n"
        "  - {name: found, url: 'http://10.0.0.1:8000'}\n"
        "  - {name: triton, url: 'http://10.0.0.2:8002', runtime: triton}\n"
        "  - {name: other, url: 'http://10.0.0.3', probe: {url: 'https://gate', path: /v1/chat/completions}}\n"
        "  - {name: not, url: 'http://10.0.0.4:8000', probe: {enabled: false}}\n"
    )
    assert main(["check-config", str(file)]) == 0
    often = "every 5m, at most 4 tokens each: 288 requests and 1,152 tokens a day"
    said = " ".join(capsys.readouterr().err.split())
    assert f"probe of found: POST http://10.0.0.1:8000 (the runtime's own path) {often}" in said
    assert f"probe of triton: POST http://10.0.0.2:8000/v2/models/{{model}}/generate_stream {often}" in said
    assert f"probe of other: POST https://gate/v1/chat/completions {often}" in said
    assert "probe of not" not in said


def test_check_config_without_a_target_and_without_a_probe(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", "--set", "probe.enabled=true"]) == 0
    assert "each runtime that is found is asked every 1m" in " ".join(capsys.readouterr().err.split())
    assert main(["check-config"]) == 0
    assert "probe" not in capsys.readouterr().err


def test_what_is_in_force_reads_back_equal() -> None:
    text = (
        "targets:\n"
        "  - {name: a, url: 'http://h:1', probe: {enabled: true, url: 'https://g/x', path: '/v1/{model}', "
        "model: 'a b/c', prompt: 'Wie geht es dir? «Gut»'}}\n"
        "  - {name: b, url: 'http://h:2', probe: {enabled: auto, model: auto}}\n"
    )
    config = load_bytes(text.encode(), "test")
    assert load_bytes(effective_yaml(config).encode(), "again") == config
    assert (config.targets[0].probe.enabled, config.targets[1].probe.enabled) == (True, None)
    with pytest.raises(ConfigError, match=r"targets\[0\]\.probe\.enabled"):
        load_bytes(text.replace("enabled: true", "enabled: sometimes").encode(), "test")


Findings = list[dict[str, str]]


async def doctor(folder: Path, name: str, text: str) -> Findings:
    """Its findings on a probe."""
    file = folder / f"{name}.yaml"
    file.write_text(text)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sidecar.cli", "doctor", "one", "--config", str(file), "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    found: Findings = [one for one in json.loads(out)["findings"] if "probe" in one["what"]]
    assert process.returncode == any(one["level"] == "problem" for one in found)
    return found


def test_doctor_probes_once_and_says_how_it_went(tmp_path: Path) -> None:
    async def story() -> list[Findings]:
        async with SimulatedVllm() as server, serve_script(refusal("401 Unauthorized")) as shut:
            on, off = "probe: {enabled: true}\n", "probe: {enabled: false}\n"
            target = f"targets: [{{name: one, url: '{server.url}'}}]\n"
            elsewhere = target.replace("}", f", probe: {{url: '{shut.url}'}}}}")
            return await asyncio.gather(
                doctor(tmp_path, "good", on + target),
                doctor(tmp_path, "bad", on + elsewhere),
                doctor(tmp_path, "none", off + target),
            )

    good, bad, none = asyncio.run(story())
    assert [one["level"] for one in good] == ["note"]
    assert "first token after" in good[0]["what"]
    assert [one["level"] for one in bad] == ["problem"]
    assert "unauthorized" in bad[0]["what"] and "auth.bearer_token_file" in bad[0]["mend"]
    assert none == []
