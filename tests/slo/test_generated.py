"""What lies in `alerts/` and `docs/` is what the code makes now, and what the real tools accept."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from sidecar.cli import main
from sidecar.slo import Objective
from sidecar.slo.lint import lint
from sidecar.slo.rules import groups
from sidecar.slo.rules.operational import OPERATIONAL
from sidecar.slo.rules.reference import reference
from sidecar.slo.windows import DAY
from tests.integration.real_servers import alertmanager, program
from tests.slo.crd import complaints

ROOT = Path(__file__).parents[2]
ALERTS, DOCS = ROOT / "alerts", ROOT / "docs"
HERE = Path(__file__).parent
AGAIN = "make it again: inference-sidecar rules --config alerts/config.yaml --out alerts --format {}"


@pytest.mark.parametrize("form", ["prometheus", "operator"])
def test_ready_made_rules_are_what_is_made_now(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["rules", "--config", str(ALERTS / "config.yaml"), "--out", str(tmp_path), "--format", form])
        == 0
    )
    made = sorted(tmp_path.iterdir())
    assert [str(path) for path in made] == sorted(capsys.readouterr().out.split())
    assert len(made) == 2
    for path in made:
        assert (ALERTS / path.name).read_text() == path.read_text(), AGAIN.format(form)


def test_printed_rules_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "--config", str(ALERTS / "config.yaml")]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    files = [yaml.safe_load(path.read_text()) for path in ALERTS.glob("*.rules.yaml")]
    assert sorted(group["name"] for group in printed["groups"]) == sorted(
        group["name"] for file in files for group in file["groups"]
    )


def test_promtool_accepts_every_rule() -> None:
    files = [str(path) for path in ALERTS.glob("*.rules.yaml")]
    checked = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", *files]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(ALERTS.glob("*.prometheusrule.yaml")), ids=lambda path: path.name)
def test_the_operators_schema_accepts_every_prometheus_rule(path: Path) -> None:
    crd = yaml.safe_load((HERE / "schemas/monitoring.coreos.com_prometheusrules.v0.93.0.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    document = yaml.safe_load(path.read_text())
    assert complaints(document, schema) == []
    document["spec"]["groups"][0]["rules"][0]["exprr"] = "1"
    assert complaints(document, schema) == ["spec.groups[0].rules[0].exprr is not known"]


def test_names_and_labels_are_sloths() -> None:
    """What a dashboard made for Sloth looks for, taken from a file that Sloth wrote, is all there."""
    theirs = yaml.safe_load((HERE / "schemas/sloth_getting_started.rules.yaml").read_text())
    ours = yaml.safe_load((ALERTS / "inference-slo.rules.yaml").read_text())

    def recorded(file: dict[str, Any]) -> dict[str, set[str]]:
        rules = [rule for group in file["groups"] for rule in group["rules"] if "record" in rule]
        return {
            rule["record"]: {name for name in rule["labels"] if name.startswith("sloth_")} for rule in rules
        }

    assert recorded(theirs).keys() <= recorded(ours).keys()
    for name, labels in recorded(theirs).items():
        assert labels <= recorded(ours)[name], name
    severities = {rule["labels"]["sloth_severity"] for rule in _alerts(ours)}
    assert severities == {rule["labels"]["sloth_severity"] for rule in _alerts(theirs)}


def test_every_alert_says_all_it_must() -> None:
    for file in ALERTS.glob("*.rules.yaml"):
        for rule in _alerts(yaml.safe_load(file.read_text())):
            assert rule["labels"]["severity"] in ("page", "ticket")
            assert rule["annotations"]["summary"]
            assert "$value" in rule["annotations"]["description"], rule["alert"]
            name = rule["annotations"]["runbook_url"].rpartition("/")[2]
            assert (DOCS / "runbooks" / name).is_file(), f"{rule['alert']} has no runbook {name}"


@pytest.mark.parametrize("path", sorted((DOCS / "runbooks").glob("*.md")), ids=lambda path: path.stem)
def test_a_runbook_says_what_to_do(path: Path) -> None:
    text = path.read_text()
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sections == ["What it means", "Confirm", "Act", "False positives"]
    known = {one.name for one in OPERATIONAL} | {
        "InferenceErrorBudgetBurnFast",
        "InferenceErrorBudgetBurnSlow",
    }
    titles = re.findall(r"Inference\w+", text.splitlines()[0])
    assert titles
    assert set(titles) <= known
    for link in re.findall(r"`([a-z-]+\.md)`", text):
        assert (path.parent / link).is_file(), link


def test_queries_of_runbooks_are_right() -> None:
    expressions = [
        line
        for path in (DOCS / "runbooks").glob("*.md")
        for block in re.findall(r"```promql\n(.*?)```", path.read_text(), re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(expressions) > 30
    rules = [{"record": f"runbook:{number}", "expr": one} for number, one in enumerate(expressions)]
    recorded = {path.name: path.read_text() for path in ALERTS.glob("*.rules.yaml")}
    findings, _ = lint({**recorded, "runbooks": yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]})})
    assert [str(one) for one in findings] == []


def test_the_reference_of_alerts_is_what_is_made_now() -> None:
    made = reference()
    page = DOCS / "alerts.md"
    assert page.read_text() == made, "make it again: python -m sidecar.slo.rules.reference > docs/alerts.md"
    assert all(one.name in made for one in OPERATIONAL)


def test_every_runbook_is_linked() -> None:
    linked = set(re.findall(r"runbooks/([a-z-]+\.md)", reference()))
    assert linked == {path.name for path in (DOCS / "runbooks").glob("*.md")}


def test_alertmanagers_own_check_accepts_the_example() -> None:
    checked = [program("amtool"), "check-config", str(ALERTS / "alertmanager.yaml")]
    done = subprocess.run(checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_model_that_is_down_silences_its_burning_budget(tmp_path: Path) -> None:
    """The example in a real Alertmanager: the alert of the same model is inhibited, another model's is not."""
    config = yaml.safe_load((ALERTS / "alertmanager.yaml").read_text())
    config["route"]["group_wait"] = config["route"]["routes"][0]["group_wait"] = "1h"  # nobody is to be told
    sent = [
        {"alertname": "InferenceModelDown", "severity": "page", "model_name": "a"},
        {"alertname": "InferenceErrorBudgetBurnFast", "severity": "page", "model_name": "a", "sloth_id": "x"},
        {"alertname": "InferenceErrorBudgetBurnFast", "severity": "page", "model_name": "b", "sloth_id": "x"},
        {
            "alertname": "InferenceErrorBudgetBurnSlow",
            "severity": "ticket",
            "model_name": "b",
            "sloth_id": "x",
        },
        {"alertname": "InferenceTargetDown", "severity": "ticket", "target": "t", "instance": "i"},
        {"alertname": "InferenceQueueGrowing", "severity": "ticket", "target": "t", "instance": "i"},
        {"alertname": "InferenceQueueGrowing", "severity": "ticket", "target": "u", "instance": "i"},
    ]
    with alertmanager(tmp_path, config) as server:
        for labels in sent:
            arguments = [f"{name}={value}" for name, value in labels.items()]
            subprocess.run(
                [program("amtool"), f"--alertmanager.url={server.url}", "alert", "add", *arguments],
                check=True,
            )
        told = server.get_json("/api/v2/alerts")
    assert len(told) == len(sent)
    silenced = {
        (one["labels"]["alertname"], one["labels"].get("model_name") or one["labels"]["target"])
        for one in told
        if one["status"]["inhibitedBy"]
    }
    assert silenced == {
        ("InferenceErrorBudgetBurnFast", "a"),
        ("InferenceErrorBudgetBurnSlow", "b"),
        ("InferenceQueueGrowing", "t"),
    }


def test_a_dead_alert_is_refused_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "slos:\n  - {name: t, signal: time_to_first_token, threshold: 1s, objective: 90%, period: 30d}\n"
    )
    assert main(["rules", "--config", str(file)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "config.yaml:2" in told
    assert "can never fire" in told


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    out = str(tmp_path / "file" / "deep")
    assert main(["rules", "--config", str(ALERTS / "config.yaml"), "--out", out]) == 2
    assert "can't be written" in capsys.readouterr().err


def test_options_reach_the_rules(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--service", "llm", "--by", "model_name, namespace", "--runbook-base", "https://wiki/x"]
    assert main(["rules", "--config", str(ALERTS / "config.yaml"), "--no-operational", *options]) == 0
    printed = capsys.readouterr().out
    assert "sloth_id: llm-ttft" in printed
    assert "sum by (model_name, namespace)" in printed
    assert "https://wiki/x/error-budget-burn.md" in printed
    assert "InferenceTargetDown" not in printed


def test_ratios_are_never_averaged() -> None:
    for group in groups([Objective("ttft", "time_to_first_token", 0.95, 30 * DAY, threshold=1.0)])["slo"]:
        for rule in group.rules:
            assert "avg" not in rule.expr
            assert "_over_time" not in rule.expr


def _alerts(file: dict[str, Any]) -> list[dict[str, Any]]:
    return [rule for group in file["groups"] for rule in group["rules"] if "alert" in rule]
