"""One line of a page: where its series ends and its value begins, and what the value is."""

from __future__ import annotations

import re

# Possessive quantifiers: a hostile line costs linear time. A name may be missing (`{"quoted.name"} 1`).
SERIES = re.compile(
    rb"[ \t]*+(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*+)?+[ \t]*+"
    rb'(?P<labels>\{(?:[^"}]++|"(?:[^"\\]++|\\.)*+")*+\})?+[ \t]*+',
    re.DOTALL,
)
TYPE = re.compile(rb'#[ \t]+TYPE[ \t]+(?P<name>"(?:[^"\\]|\\.)*"|\S+)[ \t]+(?P<type>\S+)[ \t]*$')
DESCRIBED = re.compile(rb'#[ \t]+(?:TYPE|HELP|UNIT)[ \t]+(?P<name>"(?:[^"\\]|\\.)*"|\S+)')

TYPES = frozenset(
    ("counter", "gauge", "histogram", "summary", "untyped", "unknown", "info", "stateset", "gaugehistogram")
)


def series_end(line: bytes) -> int:
    """Length of `name{labels} ` with its white space; 0 when the line doesn't begin with a series."""
    match = SERIES.match(line)
    if match is None or (match["name"] is None and match["labels"] is None):
        return 0
    return match.end()


def family_of(line: bytes) -> str:
    """The metric name that a line begins with, as well as it can be told."""
    match = SERIES.match(line)
    return match["name"].decode() if match and match["name"] else ""


def number(token: bytes) -> float:
    """A value as Prometheus understands it; ValueError otherwise. `float` alone also takes `1_000`."""
    if b"_" in token:
        raise ValueError(f"invalid number {token[:40]!r}")
    return float(token)


def value_of(rest: bytes) -> float:
    """The value at the start of what follows a series; a timestamp or an exemplar may follow it.

    Timestamps are ignored: the value is what the page says now. Raises ValueError.
    """
    plain, hash_sign, exemplar = rest.partition(b" # ")
    if hash_sign and not exemplar.lstrip().startswith(b"{"):
        raise ValueError("text after the value")
    tokens = plain.split()
    if not tokens:
        raise ValueError("no value")
    if len(tokens) > 2:
        raise ValueError("text after the value")
    if len(tokens) == 2:
        number(tokens[1])
    return number(tokens[0])


def unquoted(name: bytes) -> str:
    """A family name of a TYPE line; UTF-8 names stand in quotes."""
    text = name.decode("utf-8", "replace")
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        return text[1:-1].replace(r"\"", '"').replace(r"\\", "\\")
    return text
