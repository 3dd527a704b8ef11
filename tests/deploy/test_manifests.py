"""Everything under deploy/ is valid, and no pod of it would fail a review. Rendered by real helm and kubectl."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from sidecar import __version__
from sidecar.commands.fleet import configure, settings_of
from sidecar.config import load_bytes
from tests.deploy.chart_readme import readme
from tests.deploy.manifests import (
    DEPLOY,
    ROOT,
    Document,
    complaints,
    documents,
    faults,
    pods,
    run,
    sidecars,
    tool,
)

CHART = DEPLOY / "helm/inference-sidecar"
EVERYTHING = {
    "node": {
        "enabled": True,
        "runtimeClassName": "nvidia",
        "nodeSelector": {"nvidia.com/gpu.present": "true"},
    },
    "fleet": {
        "enabled": True,
        "sidecarLabels": {"app": "vllm"},
        "extraArgs": ["--router=http://router:8080/metrics", "--router-in-flight=router_queue"],
    },
    "podMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "namespaceSelector": {"any": True},
        "bearerTokenSecret": {"name": "sidecar-token", "key": "token"},
        "tlsConfig": {"insecureSkipVerify": False, "serverName": "sidecar"},
    },
    "prometheusRule": {"enabled": True, "extraGroups": [{"name": "own", "rules": []}]},
    "dashboards": {"enabled": True},
    "networkPolicy": {
        "enabled": True,
        "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
    },
    "webConfig": {"secretName": "sidecar-web", "tls": True},
    "gpu": {"dcgmExporterPort": 9400, "visibleDevices": "all"},
    "imagePullSecrets": ["registry"],
    "env": [{"name": "OTEL_RESOURCE_ATTRIBUTES", "value": "team=ml"}],
    "image": {"digest": "sha256:" + "0" * 64},
    "config": {"slos": [{"name": "a", "signal": "availability", "objective": "99%"}]},
}
LESS = {
    "node": {"enabled": True, "podResources": False},
    "fleet": {"enabled": True, "dns": "sidecars.prod.svc:9845", "grpcPort": 0},
    "state": {"enabled": False},
}


def rendered(values: dict[str, Any], tmp_path: Path, chart: Path = CHART) -> list[Document]:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return documents(run(tool("helm"), "template", "r", str(chart), "--values", str(file)))


def check(found: list[Document]) -> None:
    assert found
    assert [one for document in found for one in complaints(document)] == []
    assert [one for document in found for one in faults(document)] == []
    for document in found:
        for name, text in document.get("data", {}).items() if document["kind"] == "ConfigMap" else ():
            if name in ("config.yaml", "node.yaml"):
                load_bytes(text.encode(), name)
        for pod in pods(document):
            for container, _ in sidecars(pod):
                arguments_are_understood(container)


def arguments_are_understood(container: Document) -> None:
    """The command line of a manifest is one that the program takes."""
    import argparse

    args = [re.sub(r"\$\((\w+)\)", "10.0.0.1", one) for one in container.get("args", ())]
    if container.get("command"):
        return
    args = [one for one in args if not one.startswith("--log-level")]
    if args[0] == "fleet":
        parser = argparse.ArgumentParser()
        configure(parser)
        settings_of(parser.parse_args(args[1:]))
    else:
        assert args[0] == "run", args
        overrides = [one.removeprefix("--set=") for one in args if one.startswith("--set=")]
        load_bytes(b"{}", "args", overrides)


@pytest.mark.parametrize("values", [{}, EVERYTHING, LESS], ids=["defaults", "everything", "less"])
def test_the_chart(values: dict[str, Any], tmp_path: Path) -> None:
    found = rendered(values, tmp_path)
    check(found)
    kinds = {one["kind"] for one in found}
    if values is EVERYTHING:
        assert {
            "DaemonSet",
            "Deployment",
            "PodMonitor",
            "PrometheusRule",
            "NetworkPolicy",
            "Service",
        } <= kinds
        rules = next(one for one in found if one["kind"] == "PrometheusRule")
        assert "{{ $labels.model_name }}" in json.dumps(rules), "the alerts' own templates stay"
        dashboards = [one for one in found if one["metadata"]["name"].endswith("-dashboard")]
        assert len(dashboards) == len(list((ROOT / "dashboards").glob("*.json")))
        for one in dashboards:
            (name,) = one["data"]
            assert json.loads(one["data"][name]) == json.loads((ROOT / "dashboards" / name).read_text())
    if values == {}:
        assert kinds == {"ConfigMap"}, "nothing runs that nobody asked for"


def test_helm_lints_it() -> None:
    run(tool("helm"), "lint", "--strict", str(CHART))


def test_the_sidecar_in_ones_own_chart(tmp_path: Path) -> None:
    """As NOTES.txt tells: a chart with this one as its dependency."""
    own = tmp_path / "own"
    (own / "templates").mkdir(parents=True)
    shutil.copytree(CHART, own / "charts/inference-sidecar", symlinks=False)
    (own / "Chart.yaml").write_text(
        "apiVersion: v2\nname: own\nversion: 1.0.0\n"
        f"dependencies: [{{name: inference-sidecar, version: {__version__}, repository: ''}}]\n"
    )
    (own / "templates/deployment.yaml").write_text(OWN)
    values = {"inference-sidecar": {"drainSeconds": 120, "webConfig": {"secretName": "web", "tls": True}}}
    found = rendered(values, tmp_path, own)
    check(found)
    (pod,) = (pod for document in found for pod in pods(document))
    ((container, native),) = sidecars(pod)
    assert native and container["name"] == "inference-sidecar"
    hook = pod["containers"][0]["lifecycle"]["preStop"]["httpGet"]
    assert hook == {"path": "/drain?timeout=120s", "port": 9845, "scheme": "HTTPS"}
    mounted = {one["name"] for one in container["volumeMounts"]}
    assert mounted == {one["name"] for one in pod["volumes"]}


OWN = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llama}
spec:
  selector: {matchLabels: {app: llama}}
  template:
    metadata: {labels: {app: llama}}
    spec:
      terminationGracePeriodSeconds: 150
      initContainers:
        {{- include "inference-sidecar.container" (index .Subcharts "inference-sidecar") | nindent 8 }}
      containers:
        - name: vllm
          image: vllm/vllm-openai:v0.11.0
          lifecycle:
            {{- include "inference-sidecar.lifecycle" (index .Subcharts "inference-sidecar") | nindent 12 }}
      volumes:
        {{- include "inference-sidecar.volumes" (index .Subcharts "inference-sidecar") | nindent 8 }}
"""


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": 99999},
        {"logLevel": "verbose"},
        {"fleet": {"replica": 3}},
        {"fleet": {"replicas": 0}},
        {"image": {"digest": "sha256:abc"}},
        {"resources": {"limits": {"memory": "lots"}}},
        {"podMonitor": {"interval": "soon"}},
        {"nodes": {}},
    ],
    ids=str,
)
def test_the_values_schema_refuses_a_wrong_value(wrong: dict[str, Any], tmp_path: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    Draft7Validator.check_schema(schema)
    assert list(Draft7Validator(schema).iter_errors(wrong))
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(wrong))
    command = [tool("helm"), "template", "r", str(CHART), "--values", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "values" in done.stderr


def test_the_values_are_all_in_the_schema_and_in_the_readme() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert not list(Draft7Validator(schema).iter_errors(yaml.safe_load(text)))
    told = readme(text)
    path = CHART / "README.md"
    if os.environ.get("GOLDEN_UPDATE"):
        path.write_text(told)
    assert path.read_text() == told, "the chart's README is old: GOLDEN_UPDATE=1 writes it anew"


def test_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__
    images = {
        image
        for path in DEPLOY.rglob("*.yaml")
        for image in re.findall(r"image: (inference-sidecar:\S+)", path.read_text())
    }
    assert images == {f"inference-sidecar:{__version__}"}


def test_the_kustomize_component() -> None:
    found = documents(run(tool("kubectl"), "kustomize", str(DEPLOY / "kustomize/example")))
    check(found)
    (pod,) = (pod for document in found for pod in pods(document))
    ((container, native),) = sidecars(pod)
    assert native and container["image"] == f"registry.example/inference-sidecar:{__version__}"
    (config,) = (one for one in found if one["kind"] == "ConfigMap")
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["inference-sidecar-config"]["configMap"]["name"] == config["metadata"]["name"]
    assert pod["containers"][0]["name"] == "vllm", "what was there stays"


PLAIN = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.name)
def test_plain_manifests(path: Path) -> None:
    found = documents(path.read_text())
    check(found)
    (pod,) = (pod for document in found for pod in pods(document))
    ((container, native),) = sidecars(pod)
    component = yaml.safe_load((DEPLOY / "kustomize/component/sidecar.yaml").read_text())
    (same,) = component["spec"]["template"]["spec"]["initContainers"]
    assert native and container == same, "one sidecar, however it is put in"
    hook = pod["containers"][0]["lifecycle"]["preStop"]["httpGet"]
    seconds = int(re.fullmatch(r"/drain\?timeout=(\d+)s", hook["path"])[1])  # type: ignore[index]
    assert seconds < pod["terminationGracePeriodSeconds"]
    maps = {one["metadata"]["name"] for one in found if one["kind"] == "ConfigMap"}
    assert {one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one} <= maps


def test_every_runtime_has_its_manifest() -> None:
    assert {one.stem for one in PLAIN} >= {"vllm", "triton", "nim", "tensorrt-llm"}


TYPOS = [
    ("initContainers", "initContainer"),
    ("restartPolicy", "restartpolicy"),
    ("readOnlyRootFilesystem", "readOnlyRootFileSystem"),
    ("containerPort: 9845", "containerPort: '9845'"),
    ("httpGet", "httpget"),
]


@pytest.mark.parametrize(("right", "wrong"), TYPOS)
def test_a_planted_typo_is_caught(right: str, wrong: str) -> None:
    text = (DEPLOY / "kubernetes/vllm.yaml").read_text()
    assert right in text
    planted = documents(text.replace(right, wrong))
    assert [one for document in planted for one in complaints(document)]


def test_a_planted_fault_is_caught() -> None:
    (deployment,) = (
        one for one in documents((DEPLOY / "kubernetes/vllm.yaml").read_text()) if one["kind"] == "Deployment"
    )
    sidecar = deployment["spec"]["template"]["spec"]["initContainers"][0]
    plants: list[tuple[str, Any]] = [
        ("readinessProbe", {"httpGet": {"path": "/readyz", "port": 9845}}),
        ("startupProbe", {"httpGet": {"path": "/readyz", "port": 9845}}),
        ("securityContext", {"runAsUser": 0}),
        ("resources", {}),
        ("restartPolicy", None),
    ]
    assert not faults(deployment)
    for key, value in plants:
        planted = copy.deepcopy(deployment)
        planted["spec"]["template"]["spec"]["initContainers"][0] = sidecar | {key: value}
        assert faults(planted), key


def test_a_typo_in_a_custom_resource_is_caught(tmp_path: Path) -> None:
    found = rendered(EVERYTHING, tmp_path)
    (monitor,) = (one for one in found if one["kind"] == "PodMonitor")
    endpoint = monitor["spec"]["podMetricsEndpoints"][0]
    endpoint["intervall"] = endpoint.pop("interval")
    assert complaints(monitor)
