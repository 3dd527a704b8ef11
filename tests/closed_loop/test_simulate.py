"""The command: a table of 80 columns, a picture, a recording as traffic, and what can't be used."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from sidecar.autoscale.compared import DEMAND, Column, Section
from sidecar.autoscale.loop import Run, Sample
from sidecar.autoscale.oracle import oracle
from sidecar.autoscale.picture import svg
from sidecar.autoscale.recorded import Moment, RecordingError, scene_of
from sidecar.autoscale.report import write_report
from sidecar.autoscale.table import table
from sidecar.autoscale.traffics import SCENES, Scene
from sidecar.autoscale.verdict import Verdict, judge
from sidecar.cli import main
from sidecar.simulator import Replica, ReplicaConfig, Simulation
from sidecar.simulator.traffic import Steady, Traffic
from sidecar.simulator.vllm_page import VllmPage

POLICY = Path(__file__).parents[2] / "deploy" / "keda" / "grpc.yaml"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two minutes of a real page, five seconds apart, with the index that `record` writes."""
    folder = tmp_path / "monday"
    folder.mkdir()
    simulation = Simulation(Replica(ReplicaConfig()), Traffic(Steady(2.0)))
    page = VllmPage()
    index = ["file,epoch,result,ms,bytes"]
    for place in range(25):
        simulation.advance(5.0 * place + 1)
        (folder / f"{place:04d}.txt").write_bytes(page.render(simulation.service))
        index.append(f"{place:04d}.txt,{1e9 + 5 * place},ok,1,1")
    (folder / "index.csv").write_text("\n".join(index) + "\n")
    return folder


def test_a_recording_under_a_shipped_policy(
    recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "run.svg"
    arguments = ["--policy", str(POLICY), "--traffic", str(recording), "--times", "4", "--cold-start", "30s"]
    assert main(["simulate", *arguments, "--picture", str(picture), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["traffic"], row["policy"]) == ("monday", "vllm")
    assert 0 < row["attained"] <= 1
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_a_table_fits_80_columns() -> None:
    rows = [(scene, "a policy with a long name", Verdict(0.5, 1.23, 16, 11, 1234.0, 0)) for scene in SCENES]
    lines = table(rows).splitlines()
    assert len(lines) == len(SCENES) + 2
    assert max(map(len, lines)) <= 80
    assert lines[2].split()[0] == "step"


def test_names_in_a_picture_are_escaped() -> None:
    scene = Scene("<b>", 'a & "b"', Steady(1.0), seconds=60.0)
    ran = Run(scene, DEMAND, [Sample(15.0, 1, 1, 0, None)], [(1.0, True)])
    plan = oracle(scene)
    text = svg(ran, judge(ran, plan), plan)
    assert "<b>" not in text
    ElementTree.fromstring(text)


def test_list_names_every_traffic(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SCENES)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--traffic", "nowhere"], "no folder and no traffic"),
        (["--policy", "missing.yaml"], "missing.yaml"),
        (["--config", "missing.yaml"], "missing.yaml"),
    ],
)
def test_what_can_not_be_used_is_told(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_an_empty_folder_is_no_traffic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--traffic", str(tmp_path)]) == 2
    assert "no page" in capsys.readouterr().err


def moments(count: int, rate: float = 3.0) -> list[Moment]:
    return [
        Moment(10.0 * place, 30.0 * place, rate * 10 * place, 12_000.0 * place, 6_000.0 * place)
        for place in range(count)
    ]


def test_a_recording_becomes_rates_and_lengths() -> None:
    scene = scene_of("x", moments(13), times=2.0)
    assert scene.seconds == 120.0
    assert scene.rate_at(60.0) == pytest.approx(6.0)
    assert "prompts of 400 tokens, answers of 200" in scene.what
    assert scene.start >= 1


def test_a_recording_without_traffic_is_refused() -> None:
    for none in ([], moments(2), moments(13, rate=0.0)):
        with pytest.raises(RecordingError):
            scene_of("x", none)


def test_the_report_is_a_page_of_tables(tmp_path: Path) -> None:
    short = Scene("short", "", Steady(0.5), seconds=60.0, start=1)
    told: list[str] = []
    path = tmp_path / "report.md"
    write_report(
        path,
        sections=[Section("One", (short,), (Column("replica demand", DEMAND),))],
        changes=(),
        seeds=(1, 2),
        progress=told.append,
    )
    text = path.read_text("utf-8")
    assert "| traffic | oracle | replica demand |" in text
    assert "| **mean** |" in text
    assert "| short | 1.000 ×1.00 m1 f0 | 1.000 ×" in text
    assert len(told) == 1
