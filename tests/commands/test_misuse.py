"""Commands called wrongly: a sentence and exit code 2, never a traceback, never a secret, never silence."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sidecar.cli import main

QUEUE = Path(__file__).parent / "pages" / "vllm_0.32_queue.txt"


@pytest.mark.parametrize(
    "subject",
    ["foo://bar", "http://", "http://[::1", "http://127.0.0.1:99999", "file:///etc/passwd"],
)
def test_doctor_says_what_a_url_needs(subject: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", subject]) == 2
    assert "it needs http:// or https://" in capsys.readouterr().err


def test_doctor_repeats_no_credentials(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "http://user:hunter2@127.0.0.1:9/"]) == 2
    told = capsys.readouterr()
    assert "credentials in the URL" in told.err
    assert "hunter2" not in told.out + told.err


def test_doctor_knows_an_address_that_lacks_its_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "localhost:8000"]) == 2
    assert "a URL starts with http://" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--runtime", "bogus"], "unknown runtime bogus; known: "),
        (["--interval", "-5"], "--interval must be above 0"),
        (["--csv", "requests_runing"], "there is no signal requests_runing; the nearest is requests_running"),
    ],
)
def test_replay_says_what_it_cannot_do(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(QUEUE, tmp_path / "0000.txt")
    assert main(["replay", str(tmp_path), *arguments]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert not told.out


@pytest.mark.parametrize(
    "index", [b"file,epoch\n0000.txt,abc\n", b"file,epoch\n0000.txt,nan\n", b"\xff\xfe\0"]
)
def test_replay_of_a_broken_index(index: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(QUEUE, tmp_path / "0000.txt")
    (tmp_path / "index.csv").write_bytes(index)
    assert main(["replay", str(tmp_path)]) == 2
    assert "index.csv: " in capsys.readouterr().err
    assert main(["replay", str(tmp_path), "--interval", "1"]) == 0, "it isn't read then"


def test_replay_tells_of_a_page_that_nobody_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0000.txt").write_text("something_else 1\n")
    assert main(["replay", str(tmp_path)]) == 1
    assert "no family of a known runtime is on the page" in capsys.readouterr().err


def test_replay_knows_the_mappings_of_its_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0000.txt").write_text("# TYPE my_running gauge\nmy_running 3\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        "mappings:\n"
        "  - runtime: custom\n"
        "    fingerprints: [{family: my_running, confidence: 0.9, reason: ours}]\n"
        "    signals: {requests_running: [{metric: my_running, type: gauge}]}\n"
    )
    assert main(["replay", str(tmp_path), "--config", str(config), "--csv", "requests_running"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0,0000.txt,3"


def test_a_mapping_that_cannot_be_used_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        "mappings: [{runtime: custom, signals: {requests_runing: [{metric: x, type: gauge}]}}]\n"
    )
    assert main(["check-config", str(config)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "mappings[0]: signals.requests_runing: the schema has no such signal" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["demo", "--listen", "nowhere"], "demo: listen=nowhere can't be read: it is host:port"),
        (["gpu", "--set", "gpu.source=magic"], '--set gpu.source: "magic" isn\'t one of auto,'),
        (["record", "--target", "http://a", "--out", "/", "--every", "soon"], "write it like 800ms"),
        (["simulate", "--traffic", "dayly"], "no traffic; the nearest is daily; --list shows all"),
    ],
)
def test_what_is_wrong_with_the_command_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err
