"""Tables: one row for each combination of labels, one column for each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sidecar.outputs.dashboards.panels import CALM_STEPS, REFS, Json, Panel, Query, mapping, override

#: Width of the first column in pixels; a table of up to COMPACT grid columns leaves it to Grafana.
KEY_WIDTH = 170
COMPACT = 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a query whose value it shows. `steps` colour its cells."""

    title: str
    unit: str
    expr: str
    steps: Json = field(default_factory=dict)
    words: dict[str, tuple[str, str]] = field(default_factory=dict)
    decimals: int | None = None


def table(
    title: str,
    says: str,
    keys: dict[str, str],
    columns: Sequence[Column],
    *,
    width: int = 24,
    height: int = 8,
    links: dict[str, tuple[str, str]] | None = None,
    sort: str = "",
) -> Panel:
    """One row for each combination of the labels `keys` (label → heading), one column for each query.

    `links` maps a key to (title, address) of where its cell leads.
    """
    names = {
        f"Value #{ref}" if len(columns) > 1 else "Value": column.title
        for ref, column in zip(REFS, columns, strict=False)
    }
    order = [*keys, *names]
    overrides = [override(keys[next(iter(keys))], {"custom.width": KEY_WIDTH})] if width > COMPACT else []
    overrides += [_column(column) for column in columns]
    for key, (words, address) in (links or {}).items():
        link = {"title": words, "url": address, "targetBlank": False}
        overrides.append(override(keys[key], {"links": [link]}))
    options: Json = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False}}
    if sort:
        options["sortBy"] = [{"displayName": sort, "desc": True}]
    return Panel(
        "table",
        title,
        "none",
        says,
        tuple(Query(column.expr, "", True, "table") for column in columns),
        width,
        height,
        {**CALM_STEPS, "noValue": "–"},
        {"align": "auto", "filterable": True, "minWidth": 80},
        options,
        tuple(overrides),
        (
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "indexByName": {name: place for place, name in enumerate(order)},
                    "renameByName": {**keys, **names},
                },
            },
        ),
    )


def _column(column: Column) -> Json:
    properties: Json = {"unit": column.unit}
    if column.decimals is not None:
        properties["decimals"] = column.decimals
    if column.words:
        properties["mappings"] = mapping(column.words)
    if column.steps or column.words:
        properties |= column.steps
        properties["custom.cellOptions"] = {"type": "color-text"}
    return override(column.title, properties)


def facts(
    title: str, says: str, query: str, keys: dict[str, str], *, width: int = 24, height: int = 8
) -> Panel:
    """A table of an info series: its labels are what it says, its value is left out."""
    made = table(title, says, keys, [Column("Value", "none", query)], width=width, height=height)
    organize = {
        "excludeByName": {"Time": True, "Value": True},
        "indexByName": {name: place for place, name in enumerate(keys)},
        "renameByName": keys,
    }
    return replace(made, overrides=(), transformations=({"id": "organize", "options": organize},))
