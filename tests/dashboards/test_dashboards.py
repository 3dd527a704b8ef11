"""The dashboards are what the code says, and obey the rules of the public dashboard linter that apply."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from sidecar.cli import main
from sidecar.outputs.dashboards import DASHBOARDS
from sidecar.outputs.dashboards.files import files
from sidecar.schema import SIGNALS, Kind
from sidecar.slo.lint import lint
from tests.dashboards import model

ROOT = Path(__file__).parents[2]
BOARDS = [one.json() for one in DASHBOARDS]

#: Metrics of others that a panel may show, and the labels that they have.
OTHERS = {
    "process_cpu_seconds_total": ("namespace", "job", "instance"),
    "process_resident_memory_bytes": ("namespace", "job", "instance"),
    "process_open_fds": ("namespace", "job", "instance"),
    "kube_horizontalpodautoscaler_status_desired_replicas": ("namespace", "horizontalpodautoscaler"),
    "kube_horizontalpodautoscaler_status_current_replicas": ("namespace", "horizontalpodautoscaler"),
    "kube_horizontalpodautoscaler_spec_max_replicas": ("namespace", "horizontalpodautoscaler"),
    "keda_scaler_metrics_value": ("exported_namespace", "scaledObject", "metric"),
    "keda_scaler_errors": ("exported_namespace", "scaledObject"),
    "keda_scaler_detail_errors_total": ("exported_namespace", "scaledObject"),
    "ALERTS": ("alertname", "alertstate", "severity", "sloth_slo", "model_name"),
}


QUERIES = [one for board in BOARDS for one in model.queries(board)]
EVERYTHING = QUERIES + [
    one for board in BOARDS for some in (model.variables, model.annotations) for one in some(board)
]


def trees(node: Any) -> Iterator[Any]:
    """An expression and all that it is made of."""
    yield node
    for name in ("lhs", "rhs", "expr", "param", "vs", "args", "vector_selector"):
        inner = getattr(node, name, None)
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, promql_parser.Expr) or type(one).__name__.endswith(
                ("Selector", "Expr", "Call")
            ):
                yield from trees(one)


def selectors(expr: str) -> list[Any]:
    parsed = promql_parser.parse(model.filled(expr))
    return [one for one in trees(parsed) if isinstance(one, promql_parser.VectorSelector)]


def test_the_files_are_what_the_code_says(tmp_path: Path) -> None:
    assert main(["dashboards", "--out", str(tmp_path)]) == 0
    for name, text in files().items():
        assert (tmp_path / name).read_text() == text
        assert (ROOT / "dashboards" / name).read_text() == text, (
            f"dashboards/{name} is old: inference-sidecar dashboards --out dashboards"
        )
    there = {str(path.relative_to(ROOT / "dashboards")) for path in (ROOT / "dashboards").rglob("*.*")}
    assert {name for name in there if name.endswith((".json", ".yaml"))} == set(files())


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["dashboards", "--out", str(tmp_path / "taken")]) == 2
    assert "can't be written" in capsys.readouterr().err


def test_the_configmaps_hold_the_dashboards_and_the_label() -> None:
    documents = list(yaml.safe_load_all(files()["configmap.yaml"]))
    assert len(documents) == len(BOARDS)
    for document, board in zip(documents, BOARDS, strict=True):
        assert document["metadata"]["labels"]["grafana_dashboard"] == "1"
        ((name, text),) = document["data"].items()
        assert name == board["uid"] + ".json"
        assert json.loads(text) == board
        assert len(text) < 900_000, "a ConfigMap holds 1 MiB"


def test_provisioning_is_yaml_of_version_1() -> None:
    for name in ("provisioning/dashboards.yaml", "provisioning/datasource.yaml"):
        assert yaml.safe_load(files()[name])["apiVersion"] == 1


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["uid"])
def test_a_dashboard(board: dict[str, Any]) -> None:
    assert board["schemaVersion"] == 42
    assert board["editable"] is False
    assert board["tags"] == ["inference-sidecar"]
    assert board["description"]
    rows = [panel for panel in board["panels"] if panel["type"] == "row"]
    ids = [panel["id"] for panel in [*rows, *model.panels(board)]]
    assert len(ids) == len(set(ids)) > 10
    names = [one["name"] for one in board["templating"]["list"]]
    assert names[:2] == ["datasource", "namespace"]
    assert len(names) == len(set(names))
    for one in board["templating"]["list"]:
        assert one["label"]
        if one["type"] == "datasource":
            assert one["current"] == {}, "no data source of ours is baked in"
        else:
            assert (one["includeAll"], one["multi"], one["refresh"]) == (True, True, 2)
            listed = board["uid"] == "inference-triton" and one["name"] == "runtime"
            assert one["allValue"] == (None if listed else ".*"), "All also matches series without the label"
            assert one["datasource"]["uid"] == "${datasource}"


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["uid"])
def test_panels_do_not_overlap(board: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["uid"])
def test_every_panel_has_title_description_formula_unit_source_and_a_query(board: dict[str, Any]) -> None:
    for panel in model.panels(board):
        assert panel["title"] and panel["targets"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        says, _, formula = panel["description"].partition("\n\n")
        assert says.endswith(".") and formula.startswith("`"), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
        refs = [target["refId"] for target in panel["targets"]]
        assert len(refs) == len(set(refs))


@pytest.mark.parametrize("asked", EVERYTHING, ids=str)
def test_an_expression(asked: Any) -> None:
    expr = asked.expr
    found = selectors(expr)
    assert {one.name for one in found if one.name.startswith("inf")} == set(
        re.findall(r"\binference_\w+", expr)
    )
    labels = {
        "namespace", "job", "instance", "pod", "target", "runtime", "model_name", "model_version", "le"
    }  # fmt: skip
    for selector in found:
        name = selector.name
        matchers = [one.name for one in selector.matchers.matchers]
        assert "le" not in matchers, "a bucket's bound differs from runtime to runtime"
        if name.startswith("slo:"):
            continue
        if name in OTHERS:
            assert set(matchers) <= set(OTHERS[name])
            continue
        family = name.removeprefix("inference_")
        signal = SIGNALS.get(family) or SIGNALS.get(re.sub("_(bucket|sum|count)$", "", family))
        assert signal is not None and name.startswith("inference_"), f"{name} isn't in the schema"
        assert set(matchers) <= {*labels, *signal.labels}, f"{name} has no label {matchers}"
        if asked.label or asked.where.startswith(("variable", "annotation")):
            continue
        assert "namespace" in matchers, f"{name} is asked for in all namespaces"
        if signal.kind is not Kind.GAUGE:
            assert re.search(rf"(rate|increase)\({re.escape(name)}\{{", expr), (
                f"{name} needs rate or increase"
            )
    for window in re.findall(r"\}\[([^\]]*)\]", expr):
        fixed = re.fullmatch(r"\d+[mhd]", window) is not None
        may = "slo_" in expr or asked.where.startswith("annotation")
        assert window in ("$__rate_interval", "$__range") or (fixed and may), f"[{window}] is fixed"
    assert not re.search(r"\bavg\b", expr), "ratios and quantiles are not averaged"


def test_our_own_linter_has_nothing_to_say() -> None:
    texts = {name: text for name, text in files().items() if name.endswith(".json")}
    texts |= {path.name: path.read_text() for path in sorted((ROOT / "alerts").glob("*.rules.yaml"))}
    findings, read = lint(texts, OTHERS)
    assert [
        str(one) for one in findings if one.subject.startswith("inference-") and ".json" in one.subject
    ] == []
    assert read > len(QUERIES)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board["uid"])
def test_every_variable_that_is_used_is_there(board: dict[str, Any]) -> None:
    there = {one["name"] for one in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(board)))
    assert used - there == set()
    expressions = [one.expr for some in (model.queries, model.variables) for one in some(board)]
    filtering = there - {"datasource"}
    assert {name for name in filtering if any(f'"${name}"' in expr for expr in expressions)} == filtering


def test_links_lead_to_dashboards_that_there_are() -> None:
    known = {board["uid"] for board in BOARDS}
    text = json.dumps(BOARDS)
    found = set(re.findall(r"/d/([a-z-]+)\?", text))
    assert found and found <= known
    assert all(board["links"][0]["tags"] == ["inference-sidecar"] for board in BOARDS)


def test_no_signal_that_an_operator_needs_is_left_out() -> None:
    """Every signal of the schema is on some panel, but for those named here and GPU details."""
    text = " ".join(one.expr for one in EVERYTHING)
    left_out = {
        name for name in SIGNALS if not re.search(rf"\binference_{name}(_bucket|_sum|_count)?\b", text)
    }
    unexpected = {name for name in left_out if not name.startswith("gpu_")} - {
        "target_live",  # says what up and ready say
        "target_start_timestamp_seconds",  # restarts are shown
        "adapter_running",
        "adapter_waiting",
        "spec_decode_draft_tokens_total",
        "spec_decode_accepted_tokens_total",
        "time_per_output_token_seconds",  # never beside the inter-token latency
        "accepted_requests_total",  # the tokens are shown
        "energy_joules_total",  # the GPUs' own counter is shown
        "sidecar_config_loaded_timestamp_seconds",
        "sidecar_state_saved_timestamp_seconds",  # errors are shown
        "cost_total",
    }
    assert unexpected == set()
