"""The dashboards as files: JSON, Grafana's provisioning, and a ConfigMap that its Helm chart picks up."""

from __future__ import annotations

import json

import yaml

from sidecar.outputs.dashboards import DASHBOARDS

PROVIDER = "provisioning/dashboards.yaml"
DATASOURCE = "provisioning/datasource.yaml"
CONFIGMAP = "configmap.yaml"

#: The label that Grafana's chart looks for (`sidecar.dashboards.label`), and the folder annotation.
LABEL = "grafana_dashboard"
FOLDER_ANNOTATION = "grafana_folder"
FOLDER = "Inference"


def files() -> dict[str, str]:
    """Everything that `inference-sidecar dashboards` writes: path → text."""
    found = {f"{one.name}.json": json.dumps(one.json(), indent=2) + "\n" for one in DASHBOARDS}
    found[CONFIGMAP] = configmaps(found)
    found[PROVIDER] = _PROVIDER
    found[DATASOURCE] = _DATASOURCE
    return found


def configmaps(texts: dict[str, str]) -> str:
    """One ConfigMap a dashboard: together they might outgrow the 1 MiB that one may hold."""
    documents = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name.removesuffix(".json") + "-dashboard",
                "labels": {LABEL: "1", "app.kubernetes.io/name": "inference-sidecar"},
                "annotations": {FOLDER_ANNOTATION: FOLDER},
            },
            "data": {name: json.dumps(json.loads(text), separators=(",", ":"))},
        }
        for name, text in texts.items()
    ]
    return yaml.safe_dump_all(documents, sort_keys=False, width=2**20)


_PROVIDER = """\
# Grafana reads this from /etc/grafana/provisioning/dashboards/; the JSON files lie in `path`.
apiVersion: 1
providers:
  - name: inference-sidecar
    folder: Inference
    type: file
    allowUiUpdates: false
    updateIntervalSeconds: 30
    options:
      path: /var/lib/grafana/dashboards/inference
"""

_DATASOURCE = """\
# Grafana reads this from /etc/grafana/provisioning/datasources/. Only where there is no Prometheus data
# source yet: the dashboards take whichever there is. `timeInterval` is the scrape interval of the sidecars;
# $__rate_interval is made from it.
apiVersion: 1
datasources:
  - name: Prometheus
    type: prometheus
    access: proxy
    url: http://prometheus:9090
    isDefault: true
    jsonData:
      httpMethod: POST
      timeInterval: 15s
"""
