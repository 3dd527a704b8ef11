"""The command as a shell runs it: what goes to stdout, what to stderr, and the exit code."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from sidecar.commands import check_config
from sidecar.config import load, load_bytes


def run(*words: str) -> int:
    parser = argparse.ArgumentParser(check_config.NAME, description=check_config.HELP)
    check_config.configure(parser)
    return check_config.run(parser.parse_args(words))


def test_a_config_that_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 5s\n")
    assert run(str(path), "--set", "timeout=1s") == 0
    out, err = capsys.readouterr()
    assert load_bytes(out.encode(), "out") == load(path, ["timeout=1s"])
    assert err == ""


def test_one_that_can_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 5s\nintervall: 5s\n")
    assert run(str(path)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1] == f"{path} can't be used"
    assert "did you mean interval?" in err


def test_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert load_bytes(capsys.readouterr().out.encode(), "out") == load()
    assert run("--set", "interval=x") == 2
    assert "the command line can't be used" in capsys.readouterr().err


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("targets: [{url: x}]\n")
    assert run(str(path), "--json") == 2
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["problems"][0]["key"] == "targets[0].url"
    assert (said["problems"][0]["line"], said["problems"][0]["column"]) == (1, 12)
    path.write_text("targets: [{url: 'http://x'}]\n")
    assert run(str(path), "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert load_bytes(json.dumps(said["config"]).encode(), "json") == load(path)


def test_notes_on_what_is_not_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        "targets: [{auth: {bearer_token_file: token}, tls: {insecure_skip_verify: true}}]\n"
        "state_file: not/yet.sqlite\n"
    )
    assert run(str(path)) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"note: targets[0].auth.bearer_token_file: {tmp_path / 'token'} can't be read here and now",
        "note: targets[0].tls.insecure_skip_verify: any certificate is accepted",
    ]
    (tmp_path / "token").write_text("hunter2")
    assert run(str(path)) == 0
    out, err = capsys.readouterr()
    assert "hunter2" not in out + err
    assert len(err.splitlines()) == 1


def test_node_mode_without_grpcio_names_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert run("--set", "gpu.pod_resources_socket=/dev/null") == 0
    assert capsys.readouterr().err == (
        "note: gpu.pod_resources_socket: grpcio is missing: pip install 'inference-sidecar[node]'\n"
    )
