"""Grafana's classic dashboard model (schemaVersion 42), as far as our dashboards need it: queries, panels,
variables, annotations, and the grid that they stand on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

DATASOURCE: Json = {"type": "prometheus", "uid": "${datasource}"}

#: Colours that mean the same everywhere.
GOOD, WARN, BAD, CALM = "green", "orange", "red", "blue"


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression. `name` is its legend, a template over labels; `instant` asks for one moment."""

    expr: str
    name: str = ""
    instant: bool = False
    form: str = "time_series"

    def json(self, ref: str) -> Json:
        return {
            "datasource": DATASOURCE,
            "editorMode": "code",
            "expr": self.expr,
            "format": self.form,
            "instant": self.instant,
            "legendFormat": self.name or "__auto",
            "range": not self.instant,
            "refId": ref,
        }


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel without its place. `says` is the description; the formula is put after it."""

    kind: str
    title: str
    unit: str
    says: str
    queries: tuple[Query, ...]
    width: int = 8
    height: int = 8
    defaults: Json = field(default_factory=dict)
    custom: Json = field(default_factory=dict)
    options: Json = field(default_factory=dict)
    overrides: tuple[Json, ...] = ()
    transformations: tuple[Json, ...] = ()

    def json(self, number: int, x: int, y: int) -> Json:
        unit = "short" if self.unit == "none" and self.kind in _SHORTENED else self.unit
        defaults: Json = {"unit": unit, "custom": self.custom, **self.defaults}
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": f"{self.says}\n\n{formula(self.queries)}",
            "datasource": DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": defaults, "overrides": list(self.overrides)},
            "options": self.options,
            "targets": [query.json(ref) for ref, query in zip(REFS, self.queries, strict=False)],
            "transformations": list(self.transformations),
        }


#: Kinds that write a plain number as 1.2 K.
_SHORTENED = ("timeseries", "stat", "bargauge")
REFS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MATCHERS = re.compile(r"\{[^{}]*\}")
_OURS = re.compile(r'\b(?:namespace|job|runtime|model_name|target|gpu_uuid|slo|sloth_slo)=~"\$\w+",? ?')
_SPACE = re.compile(r"\s+")


def formula(queries: Sequence[Query]) -> str:
    """The expressions without the matchers that the variables fill in, as code."""

    def bare(expr: str) -> str:
        plain = _MATCHERS.sub(lambda found: _OURS.sub("", found[0]), expr)
        return _SPACE.sub(" ", plain.replace(", }", "}").replace("{}", "")).strip()

    return "\n\n".join(dict.fromkeys(f"`{bare(query.expr)}`" for query in queries))


def thresholds(*steps: tuple[float | None, str]) -> Json:
    """Steps of (from, colour), the first from None."""
    return {
        "thresholds": {"mode": "absolute", "steps": [{"value": at, "color": colour} for at, colour in steps]}
    }


def rising(warn: float, bad: float) -> Json:
    """Good below `warn`, bad from `bad` on."""
    return thresholds((None, GOOD), (warn, WARN), (bad, BAD))


def falling(bad: float, warn: float) -> Json:
    """Bad below `bad`, good from `warn` on."""
    return thresholds((None, BAD), (bad, WARN), (warn, GOOD))


CALM_STEPS = thresholds((None, CALM))


def lines(
    title: str,
    unit: str,
    says: str,
    *queries: Query,
    width: int = 8,
    height: int = 8,
    stack: bool = False,
    high: float | None = None,
    level: float | None = None,
    log: bool = False,
    overrides: Sequence[Json] = (),
    low: float | None = 0,
) -> Panel:
    """Lines over time. `level` draws a dashed line at what matters; `high` fixes the top."""
    defaults: Json = {} if low is None or log else {"min": low}
    custom: Json = {
        "drawStyle": "line",
        "lineInterpolation": "linear",
        "lineWidth": 1,
        "fillOpacity": 30 if stack else 8,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stack else "none", "group": "A"},
        "scaleDistribution": {"type": "log", "log": 10} if log else {"type": "linear"},
        "axisSoftMin": 0,
    }
    if high is not None:
        defaults["max"] = high
    if level is not None:
        custom["thresholdsStyle"] = {"mode": "dashed"}
        defaults |= thresholds((None, "transparent"), (level, BAD))
        custom["axisSoftMax"] = level
    return Panel(
        "timeseries",
        title,
        unit,
        says,
        queries,
        width,
        height,
        defaults,
        custom,
        {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        tuple(overrides),
    )


def stat(
    title: str,
    unit: str,
    says: str,
    query: Query,
    steps: Json = CALM_STEPS,
    *,
    width: int = 4,
    height: int = 4,
    decimals: int | None = None,
    words: dict[str, tuple[str, str]] | None = None,
    graph: bool = True,
) -> Panel:
    """One number with its past behind it. `words` maps values to (text, colour)."""
    defaults: Json = {**steps, "noValue": "no data"}
    if decimals is not None:
        defaults["decimals"] = decimals
    if words:
        defaults["mappings"] = mapping(words)
    return Panel(
        "stat",
        title,
        unit,
        says,
        (query,),
        width,
        height,
        defaults,
        {},
        {
            "colorMode": "value",
            "graphMode": "area" if graph and not query.instant else "none",
            "justifyMode": "auto",
            "orientation": "auto",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "auto",
        },
    )


def mapping(words: dict[str, tuple[str, str]]) -> list[Json]:
    options = {
        value: {"text": text, "color": colour, "index": place}
        for place, (value, (text, colour)) in enumerate(words.items())
    }
    return [{"type": "value", "options": options}]


def heatmap(title: str, unit: str, says: str, expr: str, *, width: int = 8, height: int = 8) -> Panel:
    """Buckets over time, from an increase by `le`."""
    return Panel(
        "heatmap",
        title,
        unit,
        says,
        (Query(expr, "{{le}}", form="heatmap"),),
        width,
        height,
        {},
        {"scaleDistribution": {"type": "linear"}},
        {
            "calculate": False,
            "cellGap": 1,
            "color": {
                "mode": "scheme",
                "scheme": "Oranges",
                "steps": 64,
                "exponent": 0.5,
                "fill": "dark-orange",
            },
            "filterValues": {"le": 1e-9},
            "legend": {"show": True},
            "rowsFrame": {"layout": "auto"},
            "tooltip": {"mode": "single", "yHistogram": True},
            "yAxis": {"axisPlacement": "left", "unit": unit, "reverse": False},
        },
    )


def states(
    title: str,
    says: str,
    *queries: Query,
    words: dict[str, tuple[str, str]],
    width: int = 24,
    height: int = 6,
) -> Panel:
    """A band for each series, coloured by its value."""
    return Panel(
        "state-timeline",
        title,
        "none",
        says,
        queries,
        width,
        height,
        {**CALM_STEPS, "mappings": mapping(words)},
        {"fillOpacity": 75, "lineWidth": 0},
        {
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": False},
            "mergeValues": True,
            "rowHeight": 0.85,
            "showValue": "never",
            "tooltip": {"mode": "single"},
        },
    )


def bars(
    title: str,
    unit: str,
    says: str,
    *queries: Query,
    steps: Json = CALM_STEPS,
    width: int = 8,
    height: int = 8,
    high: float | None = None,
) -> Panel:
    """Horizontal bars of the present values."""
    return Panel(
        "bargauge",
        title,
        unit,
        says,
        queries,
        width,
        height,
        {**steps, "min": 0, **({} if high is None else {"max": high})},
        {},
        {
            "displayMode": "gradient",
            "orientation": "horizontal",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "showUnfilled": True,
            "valueMode": "color",
        },
    )


def override(field_name: str, properties: Json) -> Json:
    return {
        "matcher": {"id": "byName", "options": field_name},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }


def dashed(name: str, colour: str) -> Json:
    """A line that is a limit, not a measurement."""
    return override(
        name,
        {
            "custom.lineStyle": {"fill": "dash", "dash": [8, 6]},
            "custom.fillOpacity": 0,
            "color": {"mode": "fixed", "fixedColor": colour},
        },
    )
