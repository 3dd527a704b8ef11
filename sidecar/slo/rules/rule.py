"""What a rule is, as Prometheus and the operator understand it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Recording:
    """A series computed from others."""

    record: str
    expr: str
    labels: Labels = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return {"record": self.record, "expr": self.expr, **_filled(labels=self.labels)}


@dataclass(frozen=True, slots=True)
class Alerting:
    """A condition that somebody is told of. `lasting` is the time it must hold first, e.g. `5m`."""

    alert: str
    expr: str
    labels: Labels
    annotations: Labels
    lasting: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "alert": self.alert,
            "expr": self.expr,
            **({"for": self.lasting} if self.lasting else {}),
            "labels": self.labels,
            "annotations": self.annotations,
        }


Rule = Recording | Alerting


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated together, in order."""

    name: str
    rules: tuple[Rule, ...]
    interval: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **({"interval": self.interval} if self.interval else {}),
            "rules": [rule.document() for rule in self.rules],
        }


def _filled(**parts: Labels) -> dict[str, Labels]:
    return {name: part for name, part in parts.items() if part}
