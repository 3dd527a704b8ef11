"""A whole dashboard: sections on a grid, the variables and annotations that all of ours share, links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sidecar.outputs.dashboards.panels import DATASOURCE, Json, Panel

TAG = "inference-sidecar"
COLUMNS = 24


@dataclass(frozen=True, slots=True)
class Section:
    """A titled row and its panels, left to right; `closed` ones are asked for only when opened."""

    title: str
    panels: tuple[Panel, ...]
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`name` is its uid and the stem of its file."""

    name: str
    title: str
    says: str
    sections: tuple[Section, ...]
    variables: tuple[Json, ...]
    span: str = "now-1h"

    def json(self) -> Json:
        return {
            "annotations": {"list": [*_BUILT_IN, *_ANNOTATIONS]},
            "description": self.says,
            "editable": False,
            "fiscalYearStartMonth": 0,
            "graphTooltip": 1,
            "id": None,
            "links": [_LINK],
            "panels": _placed(self.sections),
            "preload": False,
            "refresh": "30s",
            "schemaVersion": 42,
            "tags": [TAG],
            "templating": {"list": list(self.variables)},
            "time": {"from": self.span, "to": "now"},
            "timepicker": {},
            "timezone": "",
            "title": self.title,
            "uid": self.name,
            "version": 1,
            "weekStart": "",
        }


_LINK: Json = {
    "asDropdown": True,
    "icon": "external link",
    "includeVars": True,
    "keepTime": True,
    "tags": [TAG],
    "targetBlank": False,
    "title": "Inference",
    "tooltip": "The other dashboards, with the same time and variables",
    "type": "dashboards",
    "url": "",
}


def _placed(sections: Sequence[Section]) -> list[Json]:
    """Panels from left to right, a new line where the next one doesn't fit."""
    placed: list[Json] = []
    number = y = 0
    for section in sections:
        number += 1
        head: Json = {
            "id": number,
            "type": "row",
            "title": section.title,
            "collapsed": section.closed,
            "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            "panels": [],
        }
        placed.append(head)
        y += 1
        x = tallest = 0
        inside: list[Json] = []
        for panel in section.panels:
            if x + panel.width > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            number += 1
            inside.append(panel.json(number, x, y))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
        if section.closed:
            head["panels"] = inside
        else:
            placed += inside
    return placed


def variable(name: str, label: str, metric: str, source: str, matchers: str = "") -> Json:
    """Values of a label of a metric. All also matches series without the label."""
    chosen = f"{{{matchers}}}" if matchers else ""
    query = f"label_values({metric}{chosen}, {source})"
    return {
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "datasource": DATASOURCE,
        "definition": query,
        "includeAll": True,
        "label": label,
        "multi": True,
        "name": name,
        "options": [],
        "query": {"qryType": 1, "query": query, "refId": name},
        "refresh": 2,
        "regex": "",
        "sort": 1,
        "type": "query",
    }


def datasource() -> Json:
    """Which Prometheus: whatever one there is, until another is chosen."""
    return {
        "current": {},
        "hide": 0,
        "includeAll": False,
        "label": "Data source",
        "multi": False,
        "name": "datasource",
        "options": [],
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "type": "datasource",
    }


IN_NAMESPACE = 'namespace=~"$namespace"'
_OF_RUNTIME = f'{IN_NAMESPACE}, runtime=~"$runtime"'

NAMESPACE = variable("namespace", "Namespace", "inference_target_up", "namespace")
RUNTIME = variable("runtime", "Runtime", "inference_target_up", "runtime", IN_NAMESPACE)
MODEL = variable("model", "Model", "inference_requests_total", "model_name", _OF_RUNTIME)
TARGET = variable("target", "Target", "inference_target_up", "target", _OF_RUNTIME)
SLO = variable("slo", "Objective", "inference_slo_info", "slo", IN_NAMESPACE)
GPU = variable("gpu", "GPU", "inference_gpu_info", "gpu_uuid", IN_NAMESPACE)

#: The variables of a dashboard about runtimes.
OF_RUNTIMES = (datasource(), NAMESPACE, RUNTIME, MODEL, TARGET)

_BUILT_IN: tuple[Json, ...] = (
    {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    },
)


def _annotation(name: str, colour: str, expr: str, title: str, text: str) -> Json:
    """A mark wherever the expression has a sample above 0."""
    return {
        "datasource": DATASOURCE,
        "enable": True,
        "expr": expr,
        "iconColor": colour,
        "name": name,
        "step": "30s",
        "tagKeys": "",
        "textFormat": text,
        "titleFormat": title,
        "useValueForTime": False,
    }


_VERSION = f"max by (target, version, engine_version) (inference_runtime_info{{{IN_NAMESPACE}}}"
_SERVED = f"max by (target, model_name, model_root) (inference_model_info{{{IN_NAMESPACE}}}"
_REPLICAS = f"sum by (runtime) (inference_target_up{{{IN_NAMESPACE}}}"

_ANNOTATIONS = (
    _annotation(
        "Runtime version",
        "purple",
        f"{_VERSION}) unless {_VERSION} offset 1m)",
        "Runtime version",
        "{{target}}: {{version}}",
    ),
    _annotation(
        "Model",
        "blue",
        f"{_SERVED}) unless {_SERVED} offset 1m)",
        "Model",
        "{{target}} serves {{model_name}}",
    ),
    _annotation(
        "Restart",
        "orange",
        f"max by (target) (increase(inference_target_restarts_total{{{IN_NAMESPACE}}}[1m])) > 0",
        "Restart",
        "{{target}} restarted",
    ),
    _annotation(
        "Scaling",
        "green",
        f"{_REPLICAS}) != {_REPLICAS} offset 1m)",
        "Scaling",
        "replicas of {{runtime}} changed",
    ),
    _annotation(
        "Alert",
        "red",
        'max by (alertname, severity) (ALERTS{alertstate="firing", alertname=~"Inference.*"})',
        "{{alertname}}",
        "{{severity}}",
    ),
)
