"""Checks a user's own rules and dashboards against the schema: text in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sidecar.slo.check import Finding, Level
from sidecar.slo.lint.expression import examine
from sidecar.slo.lint.known import Known, known_metrics, metrics_of_page
from sidecar.slo.lint.places import Query, Unreadable, queries


class ParserMissing(RuntimeError):
    """The PromQL parser is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "rules can't be checked without a PromQL parser: pip install 'inference-sidecar[rules]'"
        )


def lint(
    files: Mapping[str, str], target: Mapping[str, Iterable[str]] | None = None
) -> tuple[list[Finding], int]:
    """Findings on rule files, PrometheusRules and dashboards (name → text), and how many queries were read.

    `target` are metrics of a connected target, name → its labels (`metrics_of_page`). What the files record
    counts as known in all of them. Raises ParserMissing.
    """
    try:
        import promql_parser  # noqa: F401
    except ImportError:
        raise ParserMissing from None
    findings: list[Finding] = []
    found: list[Query] = []
    for name, text in files.items():
        try:
            found += queries(name, text)
        except Unreadable as error:
            findings.append(Finding(Level.ERROR, name, "unreadable", str(error)))
    known = known_metrics(target or {}, [one.records for one in found if one.records])
    for query in found:
        findings += examine(query, known)
    return findings, len(found)


__all__ = [
    "Known",
    "ParserMissing",
    "Query",
    "examine",
    "known_metrics",
    "lint",
    "metrics_of_page",
    "queries",
]
