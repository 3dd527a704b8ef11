"""How names, labels and numbers are written in the text format 0.0.4 and in OpenMetrics 1.0."""

from __future__ import annotations

import re
from math import inf

from prometheus_client.utils import floatToGoString

from sidecar.schema import Kind, Signal
from sidecar.snapshot import Series

_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")

#: What makes two series one to Prometheus: the family and the labels that aren't empty, in any order.
SeriesKey = tuple[str, frozenset[tuple[str, str]]]


def series_key(series: Series) -> SeriesKey:
    return series.signal.family, frozenset(pair for pair in series.labels if pair[1])


def number(value: float) -> str:
    """`12` for an integer, else the shortest text that reads back as the same double; never for NaN."""
    if value.is_integer():
        return str(int(value))
    if value - value == 0.0:
        return repr(value)
    return "+Inf" if value == inf else "-Inf"


def le(bound: float) -> str:
    """A bucket's bound in OpenMetrics' canonical form: `0.005`, `1.0`, `1e+06`, `+Inf`.

    Prometheus 3 rewrites every `le` to this form and Prometheus 2 stores it as it comes: only so is a series
    the same one before and after an upgrade.
    """
    return str(floatToGoString(bound))  # type: ignore[no-untyped-call]


def valid_labels(series: Series) -> bool:
    """False for labels over which a scraper would refuse the whole page."""
    names = [name for name, _ in series.labels]
    if len(names) != len(set(names)) or (series.bounds and "le" in names):
        return False
    return all(_LABEL_NAME.fullmatch(name) for name in names)


def prefixes(series: Series) -> tuple[str, ...]:
    """What stands before each of a series' numbers, in their order; a histogram's `_count` comes last, beyond
    them.
    """
    family = series.signal.family
    labels = ",".join([f'{name}="{_label_value(value)}"' for name, value in series.labels])
    braced = f"{{{labels}}} " if labels else " "
    if series.signal.kind is not Kind.HISTOGRAM:
        return (family + braced,)
    start = f"{family}_bucket{{{labels}{',' if labels else ''}le="
    return (
        *(f'{start}"{le(bound)}"}} ' for bound in series.bounds),
        f"{family}_sum{braced}",
        f"{family}_count{braced}",
    )


def header(signal: Signal, openmetrics: bool) -> str:
    """HELP and TYPE of a family, in OpenMetrics also UNIT, which the name must end in."""
    if not openmetrics:
        help_text = _sound(signal.help).replace("\\", r"\\").replace("\n", r"\n")
        return f"# HELP {signal.family} {help_text}\n# TYPE {signal.family} {signal.kind}\n"
    name, kind = signal.family, str(signal.kind)
    if signal.kind is Kind.COUNTER:
        if name.endswith("_total"):
            name = name.removesuffix("_total")
        else:
            kind = "unknown"
    lines = f"# HELP {name} {_label_value(signal.help)}\n# TYPE {name} {kind}\n"
    if signal.unit and name.endswith("_" + signal.unit):
        lines += f"# UNIT {name} {signal.unit}\n"
    return lines


def _label_value(value: str) -> str:
    return _sound(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _sound(text: str) -> str:
    """Half a surrogate pair can't be written as UTF-8: it becomes a question mark."""
    return text.encode("utf-8", "replace").decode()
