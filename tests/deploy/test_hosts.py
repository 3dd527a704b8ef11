"""Compose, systemd and the Dockerfile: checked by their own tools."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from sidecar.config import load_bytes
from tests.deploy.manifests import DEPLOY, ROOT, run, tool

COMPOSE = DEPLOY / "compose/compose.yaml"


def test_compose() -> None:
    schema = json.loads((Path(__file__).parent / "schemas/compose-spec.json").read_text())
    document = yaml.safe_load(COMPOSE.read_text())
    validator = Draft7Validator(schema)
    assert [one.message for one in validator.iter_errors(document)] == []
    planted = copy.deepcopy(document)
    planted["services"]["demo"]["comand"] = planted["services"]["demo"].pop("command")
    assert list(validator.iter_errors(planted))
    for service in document["services"].values():
        for port in service["ports"]:
            assert port.startswith("127.0.0.1:"), "a local look is for this host alone"
        for mount in service.get("volumes", ()):
            host, _, way = mount.rpartition(":")
            assert way == "ro" and (COMPOSE.parent / host.partition(":")[0]).exists(), mount
        assert re.search(r":v?\d+\.\d+", service.get("image", "x:1.0")), "no latest"


def test_the_demo_of_compose_starts_as_written() -> None:
    command = yaml.safe_load(COMPOSE.read_text())["services"]["demo"]["command"]
    short = [{"24h": "1s", "0.0.0.0:9845": "127.0.0.1:0"}.get(one, one) for one in command]
    assert short != command
    assert "/metrics" in run(str(ROOT / ".venv/bin/inference-sidecar"), *short)


def test_prometheus_takes_its_config() -> None:
    run(tool("promtool"), "check", "config", "--syntax-only", str(DEPLOY / "compose/prometheus.yaml"))
    document = yaml.safe_load((DEPLOY / "compose/prometheus.yaml").read_text())
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    named = re.findall(
        r"(\w+):\d+", json.dumps(document["scrape_configs"]) + json.dumps(document["alerting"])
    )
    assert named and set(named) <= set(services)


def test_the_systemd_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    unit = DEPLOY / "systemd/inference-sidecar.service"
    text = unit.read_text()
    (program,) = re.findall(r"^ExecStart=(\S+)", text, re.M)
    there = tmp_path / unit.name
    there.write_text(text.replace(program, "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(there)], capture_output=True, text=True)
    assert done.returncode == 0 and "Unknown" not in done.stderr, done.stderr
    there.write_text(text.replace("ProtectSystem", "ProtectSytem"))
    done = subprocess.run(["systemd-analyze", "verify", str(there)], capture_output=True, text=True)
    assert "Unknown" in done.stderr
    (arguments,) = re.findall(r"^ExecStart=\S+ run .*--set (\S+)$", text, re.M)
    load_bytes(b"{}", "unit", [arguments.replace("${STATE_DIRECTORY}", "/var/lib/x")])


def test_the_dockerfile() -> None:
    run(tool("hadolint"), str(ROOT / "Dockerfile"))
    text = (ROOT / "Dockerfile").read_text()
    assert text.rindex("USER 65532:65532") > text.rindex("COPY"), "the last word on the user"
