"""The slow path: one walk over a page that hasn't been seen before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sidecar.exposition.errors import BadLine, shown
from sidecar.exposition.lines import DESCRIBED, TYPE, TYPES, family_of, series_end, unquoted, value_of
from sidecar.exposition.sight import Identity, identify
from sidecar.exposition.types import SUFFIXES, UNTYPED, type_of

MAX_LINE = 64 * 1024

#: Ends the prefix of a line that is compared as a whole: no line of a page contains it.
EXACT = b"\n"

_Unseen = tuple[int, bytes, float, str]  # line, prefix, value, family whose TYPE stands above


@dataclass(slots=True)
class Walk:
    """What one walk over a page has found."""

    types: dict[str, str] = field(default_factory=dict)
    comments: list[bytes] = field(default_factory=list)  # blank lines too
    names: dict[str, None] = field(default_factory=dict)  # of well-formed samples
    unwanted: list[bytes] = field(default_factory=list)  # prefixes of samples whose values nobody asks for
    found: list[tuple[int, Identity, float]] = field(default_factory=list)  # line, series, value
    prefixes: list[bytes] = field(default_factory=list)  # of each line
    bad: list[BadLine] = field(default_factory=list)

    @property
    def understood(self) -> bool:
        """Whether anything on it is exposition text."""
        return bool(self.names or self.types or not self.bad)


def walk_over(lines: Sequence[bytes], wanted: Callable[[str], bool] | None) -> Walk:
    """Read every line; what is malformed is collected in `bad`, with the family that it costs."""
    walk = Walk()
    unseen: list[_Unseen] = []
    suspects: list[tuple[BadLine, str]] = []  # with the family whose TYPE stands above
    above = ""
    for i, line in enumerate(lines):
        if line.startswith(b"#") or not line.strip():
            above = _comment(i, line, walk, above)
            continue
        prefix = line[: series_end(line)]
        try:
            if not prefix or len(line) > MAX_LINE:
                raise ValueError("not a sample" if not prefix else f"a line over {MAX_LINE} bytes")
            value = value_of(line[len(prefix) :])
        except ValueError as error:
            suspects.append((BadLine(i + 1, family_of(line), shown(str(error).encode())), above))
            walk.prefixes.append(line + EXACT)  # a line that is mended must be noticed
            continue
        walk.prefixes.append(prefix)
        name = family_of(prefix)
        if name and wanted is not None and not wanted(name):
            walk.unwanted.append(prefix)
            walk.names[name] = None
        else:
            unseen.append((i, prefix, value, above))
    suspects += _first_sight(unseen, wanted, walk)
    walk.bad += [BadLine(bad.number, _cost(bad.family, above, walk), bad.reason) for bad, above in suspects]
    walk.bad.sort(key=lambda bad: bad.number)
    return walk


def _comment(i: int, line: bytes, walk: Walk, above: str) -> str:
    """Take note of a comment or blank line; returns the family that lines below it belong to."""
    walk.comments.append(line)
    walk.prefixes.append(line + EXACT)
    match = DESCRIBED.match(line)
    if match is None:
        return above
    name = unquoted(match["name"])
    declared = TYPE.match(line)
    if declared is None:
        return above if name == above else ""
    kind = declared["type"].decode("utf-8", "replace")
    if kind not in TYPES:
        walk.bad.append(BadLine(i + 1, name, f"unknown type {shown(declared['type'])}"))
    elif (known := walk.types.setdefault(name, kind)) != kind:
        walk.bad.append(BadLine(i + 1, name, f"a second type: {kind} after {known}"))
    return name


def _first_sight(
    unseen: Sequence[_Unseen], wanted: Callable[[str], bool] | None, walk: Walk
) -> list[tuple[BadLine, str]]:
    suspects = []
    identities = identify([prefix for _, prefix, _, _ in unseen])
    for (i, prefix, value, above), identity in zip(unseen, identities, strict=True):
        if isinstance(identity, str):
            suspects.append((BadLine(i + 1, family_of(prefix), identity), above))
            continue
        walk.names[identity[0]] = None
        if wanted is None or wanted(identity[0]):
            walk.found.append((i, identity, value))
        else:
            walk.unwanted.append(prefix)
    return suspects


def _cost(name: str, above: str, walk: Walk) -> str:
    """The family that a malformed line costs.

    A line that is torn inside its name looks like another family; the one whose TYPE stands above it is lost
    then, or one rank of it would be missing without anybody noticing.
    """
    family, kind = type_of(name, walk.types)
    known = kind != UNTYPED or name in walk.names
    torn = any((above + suffix).startswith(name) for suffix in ("", *SUFFIXES))
    return above if above and torn and not known else family
