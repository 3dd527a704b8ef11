"""Dashboards as Grafana reads them: their panels, queries, variables, with variables filled in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

_LABEL_VALUES = re.compile(r"label_values\((?P<metric>.*), (?P<label>\w+)\)")


@dataclass(frozen=True, slots=True)
class Asked:
    """One query of a panel, variable or annotation. `instant` ones are asked for one moment."""

    board: str
    where: str
    expr: str
    instant: bool = False
    label: str = ""  # a variable's: the label whose values it takes

    def __str__(self) -> str:
        return f"{self.board}: {self.where}"


def panels(board: Json) -> Iterator[Json]:
    """All panels but rows, those of closed rows too."""
    for panel in board["panels"]:
        if panel["type"] == "row":
            yield from panel["panels"]
        else:
            yield panel


def queries(board: Json) -> Iterator[Asked]:
    for panel in panels(board):
        for target in panel["targets"]:
            yield Asked(
                board["uid"], f"{panel['title']} {target['refId']}", target["expr"], target["instant"]
            )


def variables(board: Json) -> Iterator[Asked]:
    for one in board["templating"]["list"]:
        if one["type"] == "query":
            found = _LABEL_VALUES.fullmatch(one["query"]["query"])
            assert found is not None, one["query"]
            yield Asked(board["uid"], f"variable {one['name']}", found["metric"], True, found["label"])


def annotations(board: Json) -> Iterator[Asked]:
    for one in board["annotations"]["list"]:
        if "expr" in one:
            yield Asked(board["uid"], f"annotation {one['name']}", one["expr"])


def filled(expr: str, rate_interval: str = "1m", span: str = "1h") -> str:
    """The expression as Grafana sends it with every variable at All."""
    expr = expr.replace("$__rate_interval", rate_interval).replace("$__range", span)
    return re.sub(r'"\$(namespace|fleet|runtime|model|target|slo|gpu)"', '".*"', expr)
