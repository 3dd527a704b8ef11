"""The same page in other words: OpenMetrics, other orders, other doors."""

from __future__ import annotations

import re
from random import Random

_FAMILY = re.compile(rb"# (?:HELP|TYPE) (\S+)")


def open_metrics(body: bytes) -> bytes:
    """As a strict OpenMetrics writer has it: counters are named without `_total`, `_created` isn't a family."""
    lines = []
    counters: set[bytes] = set()
    for line in body.split(b"\n"):
        words = line.split(b" ")
        if line.startswith(b"# TYPE") and words[3] == b"counter":
            counters.add(words[2].removesuffix(b"_total"))
    for line in body.split(b"\n"):
        if not line:
            continue
        named = _FAMILY.match(line)
        name = named[1] if named else re.split(rb"[{ ]", line, maxsplit=1)[0]
        if name.endswith(b"_created") and name.removesuffix(b"_created") not in counters:
            continue  # of a histogram: noise in both dialects
        if named and name.endswith(b"_created"):
            continue
        if named and name.removesuffix(b"_total") in counters:
            line = line.replace(name, name.removesuffix(b"_total"), 1)
        lines.append(line)
    return b"\n".join([*lines, b"# EOF", b""])


def shuffled(body: bytes, seed: int) -> bytes:
    """Lines in any order, comments too."""
    lines = body.rstrip(b"\n").split(b"\n")
    Random(seed).shuffle(lines)
    return b"\n".join(lines) + b"\n"


def turned_labels(body: bytes) -> bytes:
    """The labels of each line the other way round (for values without commas)."""

    def turn(match: re.Match[bytes]) -> bytes:
        return b"{" + b",".join(reversed(match[1].split(b","))) + b"}"

    return re.sub(rb"\{([^}]*)\}", turn, body)


def through(body: bytes, before: bytes, after: bytes) -> bytes:
    """Names as another product spells them."""
    return body.replace(before, after)
