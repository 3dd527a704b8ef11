"""Compile once, copy values afterwards: a page that keeps its series costs a comparison of lines.

The first time that a page is seen, each line's text before the value is parsed and bound to a slot. From
then on only lines that differ from the last page are touched: their prefix is compared, their value
converted. When the same lines come in another order, a dictionary of prefixes finds their slots; only when
series come or go is the page parsed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress, repeat
from operator import gt, is_, ne

from sidecar.exposition.errors import BadLine, PageError, shown
from sidecar.exposition.lines import number, value_of
from sidecar.exposition.sight import Identity, Labels
from sidecar.exposition.types import type_of
from sidecar.exposition.walk import EXACT, walk_over

IGNORED = -1


@dataclass(frozen=True, slots=True)
class Sample:
    """A series of a page: sample name, labels sorted by name without empty ones, family and declared type."""

    name: str
    labels: Labels
    family: str
    type: str

    def label(self, name: str) -> str:
        return next((value for key, value in self.labels if key == name), "")


class Shape:
    """The series of a page. Compared by identity: a new shape means that series or types have changed."""

    __slots__ = ("bad_lines", "families", "samples")

    def __init__(
        self, samples: tuple[Sample, ...], families: dict[str, str], bad_lines: tuple[BadLine, ...]
    ) -> None:
        self.samples = samples
        self.families = families  # every family of the page with its type, unwanted ones too
        self.bad_lines = bad_lines


@dataclass(frozen=True, slots=True)
class Reading:
    """A page's numbers: `values[i]` belongs to `shape.samples[i]`. The list is reused by the next read.

    `below_zero` False says for certain that none of them is negative.
    """

    shape: Shape
    values: list[float]
    below_zero: bool = True


@dataclass(slots=True)
class _Compiled:
    """What is known of the last page, line by line."""

    lines: list[bytes]
    prefixes: list[bytes]  # no other line starts with that of a comment or of a malformed line
    slots: list[int]


class PageReader:
    """Reads the pages of one endpoint. `wanted` tells by a sample's name whether its values are asked for."""

    def __init__(self, wanted: Callable[[str], bool] | None = None) -> None:
        self._wanted = wanted
        self._shape = Shape((), {}, ())
        self._values: list[float] = []
        self._below_zero = False
        self._compiled = _Compiled([], [], [])
        # Both are of the last page only, so that the memory is bounded by the page.
        self._slots: dict[bytes, int] = {}
        self._comments: frozenset[bytes] = frozenset()

    def read(self, body: bytes, *, whole: bool = True) -> Reading:
        """Read a page. `whole` says that its transport vouched for the end; else it must end in a newline.

        Raises PageError (`not_metrics`, `parse_error`), and nothing else.
        """
        if not whole and body and not body.endswith(b"\n"):
            raise PageError("parse_error", "the page ends in mid-air: no newline at its end")
        body = body.removeprefix(b"\xef\xbb\xbf")
        if body.lstrip().startswith(b"<"):
            raise PageError("not_metrics", f"not a metrics page: {shown(body.lstrip())}")
        if b"\r" in body:
            body = body.replace(b"\r\n", b"\n")
        lines = body.split(b"\n")
        if not self._copy(lines):
            self._compiled.lines = []  # should this page fail: the next must not be compared with it
            if not self._rearrange(lines):
                self._compile(lines)
            self._below_zero = True
        if self._below_zero:  # as long as there was one: is there still?
            self._below_zero = any(map(gt, repeat(0.0), self._values))
        return Reading(self._shape, self._values, self._below_zero)

    def _copy(self, lines: list[bytes]) -> bool:
        """The hot path: copy the values of changed lines; False when lines have moved, come or gone."""
        compiled = self._compiled
        if len(lines) != len(compiled.lines):
            return False
        moved = list(compress(range(len(lines)), map(ne, lines, compiled.lines)))
        changed = [lines[i] for i in moved]
        rests = list(map(bytes.removeprefix, changed, [compiled.prefixes[i] for i in moved]))
        if any(map(is_, rests, changed)):  # `removeprefix` gives the line itself when it begins otherwise
            return False
        texts = b"".join(rests)
        try:
            numbers = list(map(float, rests))
            if b"_" in texts:
                return False
        except ValueError:
            try:
                numbers = list(map(value_of, rests))  # timestamps, exemplars
            except ValueError:
                return False
        if b"-" in texts and not min(numbers) >= 0:  # NaN may hide one
            self._below_zero = True
        slots, values = compiled.slots, self._values
        for i, value in zip(moved, numbers, strict=True):
            if slots[i] >= 0:
                values[slots[i]] = value
        compiled.lines = lines
        return True

    def _rearrange(self, lines: list[bytes]) -> bool:
        """The same series in another order; False when there are others, or anything that isn't plain."""
        if self._shape.bad_lines:
            return False
        known, comments = self._slots, self._comments
        values: list[float] = [0.0] * len(self._values)
        missing = set(range(len(values)))
        unseen = set(comments)
        prefixes, slots = [], []
        for line in lines:
            prefix = line[: line.rfind(b" ") + 1]
            slot = known.get(prefix)
            if slot is None:
                if line not in comments:
                    return False
                unseen.discard(line)
                prefix, slot = line + EXACT, IGNORED
            else:
                try:
                    value = number(line[len(prefix) :])
                except ValueError:
                    return False
                if slot in missing:
                    missing.discard(slot)
                    values[slot] = value
                else:
                    slot = IGNORED  # unwanted, or a duplicate: the first one counts
            prefixes.append(prefix)
            slots.append(slot)
        if missing or unseen:
            return False
        self._values, self._compiled = values, _Compiled(lines, prefixes, slots)
        return True

    def _compile(self, lines: list[bytes]) -> None:
        walk = walk_over(lines, self._wanted)
        if not walk.understood:
            first = walk.bad[0]
            raise PageError("not_metrics", f"not a metrics page: {shown(lines[first.number - 1])}")
        lost = {bad.family for bad in walk.bad}
        slot_of: dict[Identity, int] = {}
        slots = [IGNORED] * len(lines)
        known = dict.fromkeys(walk.unwanted, IGNORED)
        samples: list[Sample] = []
        values: list[float] = []
        for line, identity, value in walk.found:
            slot = slot_of.get(identity)
            if slot is None:
                family, kind = type_of(identity[0], walk.types)
                if family in lost:
                    continue
                slots[line] = slot = slot_of[identity] = len(samples)
                samples.append(Sample(identity[0], identity[1], family, kind))
                values.append(value)
            known[walk.prefixes[line]] = slot  # of a duplicate too, whose own line stays ignored
        families = {type_of(name, walk.types)[0]: "" for name in walk.names} | walk.types
        self._shape = Shape(tuple(samples), families, tuple(walk.bad))
        self._values, self._compiled = values, _Compiled(lines, walk.prefixes, slots)
        self._slots, self._comments = known, frozenset(walk.comments)
