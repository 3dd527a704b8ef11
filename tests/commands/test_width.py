"""What commands say, on a real terminal of 80 columns: nothing is wider, but for names that the user gave."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.cli import COMMANDS, main

WIDTH = 80
PAGE = Path(__file__).parent / "pages" / "vllm_0.32_queue.txt"
Said = Callable[[list[str]], str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    """What a command line prints, stdout and stderr, with both of them a terminal."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))

    def run(arguments: list[str]) -> str:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
        read: list[bytes] = []
        reader = threading.Thread(target=_drain, args=(master, read))
        reader.start()
        with os.fdopen(slave, "w") as terminal, monkeypatch.context() as there:
            there.setattr(sys, "stdout", terminal)
            there.setattr(sys, "stderr", terminal)
            try:
                main(arguments)
            except SystemExit:
                pass
        reader.join()
        os.close(master)
        return b"".join(read).decode().replace("\r\n", "\n")

    yield run


def _drain(master: int, into: list[bytes]) -> None:
    while True:
        try:
            found = os.read(master, 4096)
        except OSError:  # the other end is closed
            return
        if not found:
            return
        into.append(found)


def too_wide(text: str, given: str) -> list[str]:
    """Lines over the width that could have been narrower: all but a name of the user's, with what must stand
    before and after it on its line, and the lines of a metrics page."""
    wide = [line for line in text.splitlines() if len(line) > WIDTH and not line.startswith("# HELP")]
    return [line for line in wide if not (given and given in line and len(line.split()) <= 3)]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help(command: str, said: Said) -> None:
    text = said([command, "--help"] if command else ["--help"])
    assert text.startswith("usage: inference-sidecar")
    assert too_wide(text, "") == []


FILES = {
    "nested.yaml": "targets: " + "[" * 300,
    "deep.yaml": "targets: " + "{capacity: " * 40 + "{}" + "}" * 40,
    "keys.yaml": "targets: [{capacity: {slots_that_nobody_has_ever_heard_of_in_any_version: 4}}]",
    "values.yaml": "interval: soon\nlisten: [1]\ntargets: [{name: a, url: 'ftp://x'}, {name: a}]\n",
    "slo.yaml": "targets: [{}]\nslos: [{name: x, signal: time_to_first_tokken, threshold: -1, objective: 2}]",
    "secret.yaml": "targets: [{auth: {bearer_token: hunter2hunter2hunter2}}]",
    "mapping.yaml": "mappings: [{runtime: custom, signals: {requests_runing: [{metric: x, type: gauge}]}}]",
    "nothing.txt": "something_else 1\n",
    "cut.txt": "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=",
    "odd.txt": 'vllm:num_requests_running{model_name="a",model_name="a"} 1 2 3 4\n',
    "index/0000.txt": "something_else 1\n",
    "index/index.csv": "file,epoch\n0000.txt,not a time at all\n",
    "pages/0000.txt": "something_else 1\n",
    "policy.yaml": "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nspec: {triggers: [{type: unheard-of}]}\n",
    "empty/none": "",
    "rules.yaml": "groups: [{name: a, rules: [{record: b, expr: 'sum(rate(inference_requests[5m]))'}]}]",
}

FAILURES = (
    "nonsense",
    "--log-level loud run",
    "run --config {}/missing.yaml",
    "run --config {}/values.yaml",
    "run --set nonsense",
    "run --set targets[0].url=http://127.0.0.1:9 --set listen=nowhere.invalid:0",
    "run --set listen=fe80::1:9845",
    "demo --for soon",
    "demo --listen nowhere",
    "map {}/missing.txt",
    "map {}/nothing.txt",
    "map {}/cut.txt",
    "map {}/odd.txt",
    "map {}/nothing.txt --runtime unheard-of",
    "map {}/nothing.txt {}/cut.txt --target a",
    "map {}/nothing.txt --format yaml",
    "doctor",
    "doctor localhost:8000",
    "doctor http://127.0.0.1:99999",
    "doctor http://127.0.0.1:9",
    "doctor http://user:secret@127.0.0.1:9/",
    "doctor {}/nothing.txt",
    "doctor {}/cut.txt",
    "doctor {}/odd.txt --runtime vllm",
    "doctor {}/nothing.txt --runtime unheard-of",
    "doctor --rules {}/rules.yaml",
    "doctor --rules {}/missing.yaml",
    "check-config {}/nested.yaml",
    "check-config {}/deep.yaml",
    "check-config {}/keys.yaml",
    "check-config {}/values.yaml",
    "check-config {}/slo.yaml",
    "check-config {}/secret.yaml",
    "check-config {}/mapping.yaml",
    "check-config --set gpu.pod_resources_socket=/nowhere --set probe.enabled=true",
    "check-config --set targets[0].tls.insecure_skip_verify=true --set web_config_file=/nowhere",
    "record --target http://127.0.0.1:9/metrics --out {}/record --count 1",
    "record --target ftp://127.0.0.1/metrics --out {}/record --count 1",
    "record --target http://nowhere.invalid/a/rather/long/path/to/metrics --out {}/record --count 1",
    "record --target http://127.0.0.1:9 --out {}/nothing.txt",
    "record --target http://127.0.0.1:9 --out {}/record --count none",
    "record --target http://127.0.0.1:9 --out {}/record --every soon",
    "record --target http://127.0.0.1:9 --out {}/record --count 0",
    "record",
    "replay {}/missing",
    "replay {}/empty",
    "replay {}/index",
    "replay {}/pages",
    "replay {}/pages --runtime unheard-of",
    "replay {}/pages --csv requests_that_nobody_counts",
    "replay {}/pages --interval -3",
    "dashboards --out {}/nothing.txt",
    "rules --config {}/slo.yaml",
    "rules --config {}/missing.yaml",
    "rules",
    "gpu --set gpu.source=magic",
    "gpu --set gpu.source=dcgm",
    "gpu --set gpu.source=nvml",
    "gpu --set gpu.source=none",
    "gpu --set gpu.source=dcgm --set gpu.url=http://127.0.0.1:9/metrics",
    "gpu --format yaml",
    "fleet",
    "fleet --dns a --file b",
    "fleet --dns a:b",
    "fleet --sidecar ftp://x",
    "fleet --sidecar a --grpc-cert c.pem",
    "fleet --sidecar a --grpc-client-ca c.pem",
    "fleet --sidecar a --router http://r/metrics",
    "fleet --sidecar a --router http://r/metrics --router-in-flight in{{flight",
    "fleet --sidecar a --interval 1h30",
    "fleet --sidecar a --interval 100h",
    "fleet --sidecar a --target-utilisation 7",
    "fleet --sidecar a --listen nowhere",
    "fleet --sidecar a --listen 127.0.0.1:0 --grpc-listen nowhere.invalid:0",
    "fleet --sidecar a --listen 127.0.0.1:0 --web-config {}/missing.yml",
    "simulate --traffic x",
    "simulate --traffic dayly",
    "simulate --traffic {}/empty",
    "simulate --traffic {}/pages",
    "simulate --policy {}/missing.yaml",
    "simulate --policy {}/policy.yaml",
    "simulate --policy {}/nested.yaml",
    "simulate --interval soon",
    "simulate --list",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As deep as a user's may be."""
    root = tmp_path / "a-folder-with-a-rather-long-name-as-people-have-them" / "and-one-more"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_messages(folder: Path, said: Said) -> None:
    faults = []
    for line in FAILURES:
        text = said(line.format(*[folder] * 2).split())
        assert text.strip(), line
        assert "Traceback" not in text, line
        faults += [f"{line}: {wide}" for wide in too_wide(text, str(folder))]
    assert not faults, "\n".join(faults)


def test_elsewhere_a_message_is_one_line(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert main(["replay", str(folder / "empty")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
