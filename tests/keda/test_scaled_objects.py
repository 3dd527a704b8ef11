"""Every ScaledObject that is shipped: valid against KEDA's CRD, its trigger's parameters, and our own rules."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sidecar.autoscale.policy import ROUTER, read_policies
from sidecar.schema import SIGNALS

HERE = Path(__file__).parent
SHIPPED = sorted((HERE.parents[1] / "deploy" / "keda").glob("*.yaml"))
CRDS = {
    "ScaledObject": HERE / "scaledobjects.crd.yaml",
    "TriggerAuthentication": HERE / "triggerauthentications.crd.yaml",
}
#: Parameters that KEDA 2.20 reads for each type of trigger; for `external`, ours are among them.
REQUIRED = {
    "prometheus": {"serverAddress", "query", "threshold"},
    "metrics-api": {"url", "valueLocation", "targetValue"},
    "external": {"scalerAddress"},
}
OPTIONAL = {
    "prometheus": {
        *("activationThreshold", "ignoreNullValues", "queryParameters", "namespace", "customHeaders"),
        *("authModes", "unsafeSsl", "timeout"),
    },
    "metrics-api": {
        *("activationTargetValue", "format", "unsafeSsl", "authMode", "method", "keyParamName", "timeout"),
        *("aggregateFromKubeServiceEndpoints", "aggregationType"),
    },
    "external": {"enableTLS", "unsafeSsl", "signal", "target", "activation", "modelName"},
}

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one]


ALL = [(path.name, one) for path in SHIPPED for one in documents(path)]
SCALED = [(name, one) for name, one in ALL if one["kind"] == "ScaledObject"]
TRIGGERS = [(name, one, trigger) for name, one in SCALED for trigger in one["spec"]["triggers"]]


def strict(schema: Any) -> Any:
    """A structural schema of a CRD as a JSON Schema that knows no unknown keys."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items() if not key.startswith("x-")}
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    open_ended = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not open_ended:
        made.setdefault("additionalProperties", False)
    return made


def validator(kind: str) -> jsonschema.Draft202012Validator:
    crd = yaml.safe_load(CRDS[kind].read_text("utf-8"))
    schema = strict(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema.Draft202012Validator(schema)


def problems(document: Document) -> list[str]:
    return [error.message for error in validator(document["kind"]).iter_errors(document)]


@pytest.mark.parametrize(("name", "document"), [(n, d) for n, d in ALL if d["kind"] in CRDS])
def test_it_is_valid(name: str, document: Document) -> None:
    assert problems(document) == []
    spec = document["spec"]
    if document["kind"] == "ScaledObject":
        assert spec["minReplicaCount"] <= spec["maxReplicaCount"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "minReplicas"), 1),
        (("spec", "minReplicaCount"), "1"),
        (("spec", "fallback", "behavior"), "hold"),
        (("spec", "triggers", 0, "metadata", "threshold"), 1),
    ],
)
def test_the_check_can_fail(path: tuple[Any, ...], value: object) -> None:
    (document,) = documents(SHIPPED[[one.name for one in SHIPPED].index("prometheus.yaml")])
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert problems(document)


@pytest.mark.parametrize(("name", "document", "trigger"), TRIGGERS)
def test_parameters_of_its_triggers(name: str, document: Document, trigger: Document) -> None:
    kind, metadata = trigger["type"], trigger["metadata"]
    assert metadata.keys() >= REQUIRED[kind]
    assert metadata.keys() <= REQUIRED[kind] | OPTIONAL[kind]
    assert trigger["metricType"] == "AverageValue"
    assert all(isinstance(value, str) for value in metadata.values())
    for key in ("threshold", "targetValue", "target"):
        assert key not in metadata or float(metadata[key]) > 0


@pytest.mark.parametrize(("name", "document"), SCALED)
def test_no_failure_can_scale_in(name: str, document: Document) -> None:
    spec = document["spec"]
    assert spec["fallback"]["replicas"] >= 1
    assert spec["fallback"]["behavior"] == "currentReplicasIfHigher"
    for trigger in spec["triggers"]:
        if trigger["type"] == "prometheus":
            assert trigger["metadata"]["ignoreNullValues"] == "false"
        if trigger["metadata"].get("aggregateFromKubeServiceEndpoints") == "true":
            assert trigger["metadata"]["aggregationType"] == "sum"
    down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] >= 300
    most = {"Pods": 1, "Percent": 25}
    assert all(policy["value"] <= most[policy["type"]] for policy in down["policies"])
    if spec["minReplicaCount"] == 0:
        assert spec["cooldownPeriod"] >= 900, "longer than a cold start and a generation"
        assert spec["triggers"][0]["name"] == ROUTER, "at zero there is no sidecar to wake it"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_simulate_reads_it(path: Path) -> None:
    if not any(one["kind"] == "ScaledObject" for one in documents(path)):
        return
    (policy,) = read_policies(path)
    signals = {trigger.signal for trigger in policy.spec.triggers} - {ROUTER}
    assert signals == {"replica_demand"}
    assert all(trigger.target == 1.0 for trigger in policy.spec.triggers if trigger.signal != ROUTER)


@pytest.mark.parametrize(("name", "document", "trigger"), TRIGGERS)
def test_signals_exist(name: str, document: Document, trigger: Document) -> None:
    metadata = trigger["metadata"]
    if trigger["type"] == "metrics-api":
        assert metadata["url"].rpartition("/")[2] in SIGNALS
        assert metadata["valueLocation"] == "value"
    if trigger["type"] == "external":
        assert f"fleet_{metadata['signal']}" in SIGNALS
    if trigger["type"] == "prometheus":
        for found in re.findall(r"inference_([a-z_]+)", metadata["query"]):
            assert found in SIGNALS


def query_of(name: str) -> str:
    (document,) = [one for file, one in SCALED if file == name]
    return str(document["spec"]["triggers"][-1]["metadata"]["query"])


def test_what_the_query_says_of_idle_blind_and_half_blind(tmp_path: Path) -> None:
    """By promtool, on series as two sidecars would have them."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool isn't installed (Debian package prometheus)")

    def series(demands: tuple[str, str]) -> list[dict[str, str]]:
        rows = []
        for pod, demand in zip(("vllm-a", "vllm-b"), demands, strict=True):
            labels = f'{{namespace="models",pod="{pod}"}}'
            rows.append({"series": f"inference_target_ready{labels}", "values": "1x4"})
            rows.append({"series": f"inference_replica_demand{labels}", "values": demand})
        return rows

    def case(demands: tuple[str, str], expected: list[float]) -> dict[str, Any]:
        return {
            "interval": "15s",
            "input_series": series(demands),
            "promql_expr_test": [
                {
                    "expr": query_of("prometheus.yaml"),
                    "eval_time": "60s",
                    "exp_samples": [{"labels": "{}", "value": value} for value in expected],
                }
            ],
        }

    tests = [
        case(("1.5x4", "2.5x4"), [4.0]),
        case(("0x4", "0x4"), [0.0]),
        case(("1.5x4", "2.5 stale"), [3.0]),  # half blind: the other stands for it
        case(("1.5 stale", "2.5 stale"), []),  # blind: no sample
    ]
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "evaluation_interval": "15s", "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_fleet_role_of_the_manifest_is_the_command_line_that_there_is() -> None:
    import argparse

    from sidecar.commands import fleet

    (deployment,) = [one for name, one in ALL if one["kind"] == "Deployment"]
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert arguments[0] == fleet.NAME
    parser = argparse.ArgumentParser()
    fleet.configure(parser)
    settings = fleet.settings_of(parser.parse_args(arguments[1:]))
    assert settings.source.vouched
    assert settings.grpc_listen == "0.0.0.0:9846"
    assert deployment["spec"]["replicas"] >= 2
