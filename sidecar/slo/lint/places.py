"""Where queries are written: rule files, PrometheusRules, Grafana dashboards."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml


class Unreadable(ValueError):
    """A file that is neither rules nor a dashboard."""


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, where it was found, and the series that it is recorded as."""

    place: str
    expression: str
    records: str = ""


def queries(name: str, text: str) -> list[Query]:
    """All expressions of a file, in order. Raises Unreadable."""
    try:
        documents = [json.loads(text)] if text.lstrip().startswith("{") else list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(f"neither YAML nor JSON: {' '.join(str(error).split())}") from None
    found: list[Query] = []
    for document in documents:
        if document is not None:
            found += _document(name, document)
    return found


def _document(name: str, document: Any) -> Iterator[Query]:
    if isinstance(document, dict):
        if isinstance(document.get("dashboard"), dict):
            document = document["dashboard"]
        spec = document.get("spec")
        groups = document.get("groups", spec.get("groups") if isinstance(spec, dict) else None)
        if isinstance(groups, list):
            yield from _rules(name, groups)
            return
        if isinstance(document.get("panels"), list):
            yield from _dashboard(name, document)
            return
    raise Unreadable("neither rules (groups) nor a dashboard (panels)")


def _rules(name: str, groups: list[Any]) -> Iterator[Query]:
    for group in groups:
        for rule in _list(group, "rules"):
            if isinstance(rule, dict) and "expr" in rule:
                record, alert = str(rule.get("record") or ""), str(rule.get("alert") or "")
                yield Query(f"{name}: {record or alert or 'a rule'}", str(rule["expr"]), record)


def _dashboard(name: str, dashboard: dict[str, Any]) -> Iterator[Query]:
    for panel in _list(dashboard, "panels"):
        if not isinstance(panel, dict):
            continue
        yield from _dashboard(name, panel)  # a row holds panels
        for target in _list(panel, "targets"):
            if isinstance(target, dict) and isinstance(target.get("expr"), str) and target["expr"].strip():
                yield Query(f"{name}: {panel.get('title') or 'a panel'}", without_variables(target["expr"]))
    templating = dashboard.get("templating")
    for variable in _list(templating, "list"):
        asked = variable.get("query") if isinstance(variable, dict) else None
        text = asked.get("query") if isinstance(asked, dict) else asked
        if isinstance(variable, dict) and variable.get("type") == "query" and isinstance(text, str):
            inner = _of_variable(text)
            if inner:
                yield Query(f"{name}: ${variable.get('name')}", without_variables(inner))


def _list(holder: Any, key: str) -> list[Any]:
    found = holder.get(key) if isinstance(holder, dict) else None
    return found if isinstance(found, list) else []


def _of_variable(query: str) -> str:
    """The selector of `label_values(selector, label)` as a count by that label, or of `query_result(…)`."""
    values = re.fullmatch(r"\s*label_values\((.*),\s*(\w+)\s*\)\s*", query, re.DOTALL)
    if values:
        return f"count by ({values[2]}) ({values[1]})"
    result = re.fullmatch(r"\s*query_result\((.*)\)\s*", query, re.DOTALL)
    return result[1] if result else ""


_VARIABLE = r"\$(?:\{\w+(?::\w+)?\}|\w+)|\[\[\w+\]\]"
_IN_RANGE = re.compile(rf"\[\s*(?:{_VARIABLE})\s*(:[^\]]*)?\]")
_OUTSIDE = re.compile(rf'("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')|(?:{_VARIABLE})')


def without_variables(expression: str) -> str:
    """A dashboard's expression with its variables filled in: ranges by 5m, other places by 1."""
    ranged = _IN_RANGE.sub(lambda found: f"[5m{':1m' if found[1] else ''}]", expression)
    return _OUTSIDE.sub(lambda found: found[1] or "1", ranged)
