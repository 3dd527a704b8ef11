"""What is wrong with one expression: names, labels, rates, averages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sidecar.slo.check import Finding, Level
from sidecar.slo.lint.known import ADDED, Known, Type, ours
from sidecar.slo.lint.places import Query

#: Functions of a range that make sense of a counter.
OF_COUNTERS = frozenset({"rate", "irate", "increase", "resets"})
#: Functions and aggregations that only ask whether series are there.
OF_PRESENCE = frozenset(
    {
        "absent",
        "absent_over_time",
        "present_over_time",
        "count_over_time",
        "count",
        "group",
        "changes",
        "timestamp",
        "last_over_time",
        "count_values",
    }
)
#: Ratios that were made of counts: an average of them weighs a quiet replica like a busy one.
RATIOS = (
    "inference_slo_burn_rate",
    "inference_slo_error_budget_remaining_ratio",
    "inference_queue_to_compute_ratio",
)

Found = Iterator[tuple[Level, str, str]]


def examine(query: Query, known: Known) -> list[Finding]:
    """Findings on one query."""
    import promql_parser

    try:
        tree = promql_parser.parse(query.expression)
    except ValueError as error:
        return [Finding(Level.ERROR, query.place, "syntax", f"{error}: {' '.join(query.expression.split())}")]
    seen = dict.fromkeys(_walk(tree, known, ()))
    return [Finding(level, query.place, code, message) for level, code, message in seen]


def _walk(node: Any, known: Known, above: tuple[str, ...]) -> Found:
    """Depth first; `above` are the functions, aggregations and operators around a node, outermost first."""
    kind = type(node).__name__
    if kind == "VectorSelector":
        yield from _selector(node, known, above)
    elif kind == "MatrixSelector":
        yield from _selector(node.vector_selector, known, (*above, "[]"))
    elif kind == "Call":
        yield from _call(node, known, above)
    elif kind == "AggregateExpr":
        yield from _aggregate(node, known, above)
    elif kind == "BinaryExpr":
        operator = str(node.op).strip()
        around = (*above, operator)
        yield from _walk(node.lhs, known, around)
        yield from _walk(node.rhs, known, around)
    elif kind == "SubqueryExpr":
        yield from _walk(node.expr, known, (*above, "[:]"))
    elif kind in ("ParenExpr", "UnaryExpr"):
        yield from _walk(node.expr, known, above)


def _call(node: Any, known: Known, above: tuple[str, ...]) -> Found:
    name = node.func.name
    for argument in node.args:
        if (
            name in OF_COUNTERS
            and type(argument).__name__ == "SubqueryExpr"
            and _is(argument.expr, "AggregateExpr")
        ):
            yield (
                Level.WARNING,
                "rate_of_sum",
                f"{name} of a sum takes the restart of one replica for a restart of all: sum the {name}s instead",
            )
        yield from _walk(argument, known, (*above, name))
    if name == "histogram_quantile":
        yield from _quantile(node)
    if name == "avg_over_time" and any(map(_ratio, node.args)):
        yield _average_of_ratios()
    if name == "quantile_over_time" and any(_averages(argument) for argument in node.args):
        yield _quantile_of_averages()


def _quantile(node: Any) -> Found:
    inner = node.args[-1]
    while _is(inner, "ParenExpr"):
        inner = inner.expr
    if not _is(inner, "AggregateExpr") or inner.modifier is None:
        without_le = _is(inner, "AggregateExpr")
    else:
        labels = set(inner.modifier.labels)
        without_le = ("le" in labels) != str(inner.modifier.type).endswith("By")
    if without_le:
        yield Level.ERROR, "quantile_without_le", "histogram_quantile needs the label le: add it to by (…)"


def _aggregate(node: Any, known: Known, above: tuple[str, ...]) -> Found:
    operator = str(node.op).strip()
    if operator == "avg":
        if _contains(node.expr, "Call", "histogram_quantile"):
            yield (
                Level.WARNING,
                "average_of_quantiles",
                "the average of quantiles is no quantile: add the buckets up, "
                "histogram_quantile(…, sum by (le) (rate(…)))",
            )
        elif _ratio(node.expr):
            yield _average_of_ratios()
    if operator == "quantile" and _averages(node.expr):
        yield _quantile_of_averages()
    if node.modifier is not None and str(node.modifier.type).endswith("By"):
        yield from _grouping(node, known)
    yield from _walk(node.expr, known, (*above, operator))


def _average_of_ratios() -> tuple[Level, str, str]:
    return (
        Level.WARNING,
        "average_of_ratios",
        "an average of ratios weighs a quiet hour or replica like a busy one: sum(rate(a)) / sum(rate(b))",
    )


def _quantile_of_averages() -> tuple[Level, str, str]:
    return (
        Level.WARNING,
        "quantile_of_averages",
        "a quantile over averages hides the slow requests in each: use histogram_quantile on the buckets",
    )


def _grouping(node: Any, known: Known) -> Found:
    """Labels that the aggregation keeps and none of the metrics inside has."""
    names = [one.name for one in _selectors(node.expr)]
    metrics = [known.find(name) for name in names if name]
    if not metrics or any(one is None or one.labels is None for one in metrics):
        return
    there = ADDED.union(*(one.labels for one in metrics if one is not None and one.labels is not None))
    for label in node.modifier.labels:
        if label not in there:
            yield Level.WARNING, "unknown_label", f"by ({label}): {', '.join(names)} has no such label"


def _selector(node: Any, known: Known, above: tuple[str, ...]) -> Found:
    name = node.name
    if not name:
        return
    metric = known.find(name)
    if metric is None:
        near = known.nearest(name)
        hint = f"; did you mean {near}?" if near else ""
        if ours(name):
            yield Level.ERROR, "unknown_metric", f"{name} is not in the schema{hint}"
        else:
            yield (
                Level.WARNING,
                "unknown_metric",
                f"{name} is not in the schema, not recorded here and not on a connected target{hint}",
            )
        return
    for matcher in node.matchers.matchers:
        if metric.labels is not None and matcher.name not in metric.labels | ADDED:
            labels = ", ".join(sorted(metric.labels))
            yield Level.WARNING, "unknown_label", f"{name} has no label {matcher.name}; it has {labels}"
        if matcher.name == "le" and str(matcher.op).endswith("Equal") and matcher.value != "+Inf":
            yield (
                Level.WARNING,
                "bound_as_text",
                f'le="{matcher.value}" misses le="{_other_spelling(matcher.value)}", which other versions write',
            )
    yield from _usage(name, metric.type, above)


def _usage(name: str, kind: Type, above: tuple[str, ...]) -> Found:
    ranged = above[-1:] == ("[]",)
    function = above[-2] if ranged and len(above) > 1 else ""
    if kind is Type.GAUGE and function in ("rate", "irate", "increase"):
        yield Level.WARNING, "rate_of_gauge", f"{function} of {name}, which is a gauge: use deriv or delta"
    if kind is not Type.COUNTER or OF_PRESENCE.intersection(above) or "unless" in above:
        return
    if function not in OF_COUNTERS:
        yield (
            Level.WARNING,
            "missing_rate",
            f"{name} only ever grows, and starts anew with its process: use rate({name}[5m]) or increase",
        )


def _other_spelling(bound: str) -> str:
    return (
        bound.removesuffix(".0") if bound.endswith(".0") else f"{bound}.0" if bound.isdigit() else f"{bound}0"
    )


def _is(node: Any, kind: str) -> bool:
    return type(node).__name__ == kind


def _children(node: Any) -> list[Any]:
    kind = type(node).__name__
    if kind == "BinaryExpr":
        return [node.lhs, node.rhs]
    if kind == "Call":
        return list(node.args)
    if kind == "MatrixSelector":
        return [node.vector_selector]
    return [node.expr] if kind in ("ParenExpr", "UnaryExpr", "SubqueryExpr", "AggregateExpr") else []


def _selectors(node: Any) -> list[Any]:
    if _is(node, "VectorSelector"):
        return [node]
    return [found for child in _children(node) for found in _selectors(child)]


def _contains(node: Any, kind: str, name: str) -> bool:
    if _is(node, kind) and node.func.name == name:
        return True
    return any(_contains(child, kind, name) for child in _children(node))


def _ratio(node: Any) -> bool:
    """Whether a node is a ratio of counts: a division of two vectors, or a series that is known as one."""
    while _is(node, "ParenExpr"):
        node = node.expr
    if _is(node, "Call") and node.func.name in ("avg_over_time", "last_over_time"):
        return any(_ratio(argument) for argument in node.args)
    if _is(node, "SubqueryExpr"):
        return _ratio(node.expr)
    if _is(node, "MatrixSelector"):
        node = node.vector_selector
    if _is(node, "VectorSelector"):
        name = node.name or ""
        return name in RATIOS or name.startswith("slo:sli_error:ratio_rate")
    return (
        _is(node, "BinaryExpr") and str(node.op).strip() == "/" and all(map(_selectors, (node.lhs, node.rhs)))
    )


def _averages(node: Any) -> bool:
    """Whether a node holds means: an average, or a sum over a count."""
    if _is(node, "AggregateExpr") and str(node.op).strip() == "avg":
        return True
    if _is(node, "Call") and node.func.name == "avg_over_time":
        return True
    if _is(node, "BinaryExpr") and str(node.op).strip() == "/":
        above, below = ({one.name or "" for one in _selectors(side)} for side in (node.lhs, node.rhs))
        if any(name.endswith("_sum") for name in above) and any(name.endswith("_count") for name in below):
            return True
    return any(_averages(child) for child in _children(node))
