"""`inference-sidecar gpu`, and the script that captures real GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sidecar.cli import main
from sidecar.exposition import read_page

TWO = "s01_healthy_two_h200"
FIRST = "GPU-00000000-1111-2222-3333-444444444444"


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, capsys):
    """The command line in a world, in this process: only the reading child needs to be another."""

    def in_world(here, *arguments):
        for name, value in here.environ.items():
            monkeypatch.setenv(name, value)
        code = main(["gpu", *arguments])
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return in_world


def test_a_table_for_a_person(world, run):
    done = run(world("s05_mig_sparse"))
    assert done.returncode == 0, done.stderr
    assert "NVIDIA A100-SXM4-40GB" in done.stdout and "627/700 W" in done.stdout
    assert "4.3/19.5 GiB" in done.stdout
    assert "not available of" in done.stdout


def test_the_page(world, run):
    done = run(world(TWO), "--format", "text")
    assert done.returncode == 0, done.stderr
    page = read_page(done.stdout.encode())
    assert not page.bad_lines
    found = {(one.name, one.labels.get("gpu_uuid", "")): one.value for one in page.samples}
    assert found["inference_gpu_power_watts", FIRST] == 627.4
    assert found["inference_gpu_sm_active_ratio", FIRST] == 0.981  # which needs two passes
    assert "not available of" in done.stderr


@pytest.mark.parametrize("how", [["--json"], ["--format", "json"]])
def test_json(how, world, run):
    done = run(world(TWO), *how)
    told = json.loads(done.stdout)
    assert told["ok"] and told["source"] == "nvml"
    values = {(one["signal"], one["labels"].get("gpu_uuid")): one["value"] for one in told["series"]}
    assert values["gpu_power_watts", FIRST] == 627.4
    missing = {(one["gpu"], one["what"], one["reason"]) for one in told["not_available"]}
    assert (FIRST, "gpu_ecc_errors_total", "not_supported") in missing


def test_no_gpu_and_why(world, run):
    done = run(world("s08_driver_not_loaded"), "--set", "gpu.source=nvml")
    assert done.returncode == 1
    assert "no GPU" in done.stdout and "driver is not loaded" in done.stdout


def test_what_it_is_asked_makes_no_sense(world, run):
    assert run(world(TWO), "--set", "gpu.source=magic").returncode == 2
    assert run(world(TWO), "--set", "gpu.source=dcgm").returncode == 2


def test_the_capture_of_real_gpus(world, tmp_path):
    """The script that is run where there are real ones, here on the stand-in."""
    script = Path(__file__).parents[2] / "benchmarks" / "gpu_capture.py"
    here, out = world(TWO), tmp_path / "capture"
    command = [sys.executable, str(script), str(out)]
    done = subprocess.run(
        command, env=os.environ | here.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in (out / "answers.jsonl").read_text().splitlines()]
    assert answers[-1]["gpus"][0]["read"]["power"] == 627400
    assert "NVIDIA H200" in (out / "ORIGIN.md").read_text()
    page = (out / "page.prom").read_text()
    assert "inference_gpu_sm_active_ratio" in page and FIRST not in page + str(answers)


def test_switched_off_is_no_failure(world, run):
    here = world(TWO)
    off = ("--set", "gpu.source=none")
    done = run(here, *off)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "GPUs are switched off by the config: gpu.source is none\n"
    told = run(here, *off, "--json")
    assert told.returncode == 0 and json.loads(told.stdout)["ok"] is True
    assert json.loads(told.stdout)["source"] == "none"
    page = run(here, *off, "--format", "text")
    assert (page.returncode, page.stdout, page.stderr) == (0, "", "")
    assert not here.calls, "the library is left alone"
