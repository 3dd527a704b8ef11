"""YAML text → plain values and where each key stands. Bounded, without tags, never raises but as problems.

A subset of YAML 1.2 on purpose: one document, keys are text, `yes`, `on`, `017`, `1:30` and dates are text.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from sidecar.config.problem import KeyPath, Mark, Origins, Problem, dotted

MAX_BYTES = 1024 * 1024
MAX_NODES = 50_000
MAX_DEPTH = 32

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]{1,300}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]{1,300}|[0-9]{1,300}(\.[0-9]{0,300})?)([eE][-+]?[0-9]{1,5})?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Document:
    """What a text holds: plain values, where each key stands, and what is wrong with the text itself."""

    data: Any
    origins: Origins
    problems: list[Problem] = field(default_factory=list)


class _Node(NamedTuple):
    value: Any
    nodes: int
    height: int


class _Unreadable(Exception):
    """Reading can't go on: `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def read_document(raw: bytes, file: str) -> Document:
    """Read one document. `data` is None where the text is empty, or can't be read at all (see `problems`)."""
    document = Document(None, Origins(file))
    try:
        text = _decoded(raw, file)
        document.data = _Composer(text, document).document()
    except _Unreadable as stop:
        document.problems.append(stop.problem)
    except yaml.YAMLError as error:
        document.problems.append(_syntax(error, raw, file))
    except (ValueError, OverflowError, RecursionError):
        # An escape or directive with a number that no character or version has.
        document.problems.append(Problem(file, 0, 0, "", "isn't YAML: a number in an escape is out of range"))
    return document


def resolve_plain(text: str) -> Any:
    """The value of an unquoted scalar."""
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return text


class _Composer:
    """Builds the values from PyYAML's events; its own loop, so that depth, size and aliases are bounded."""

    def __init__(self, text: str, document: Document) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=yaml.SafeLoader)
        self._origins = document.origins
        self._problems = document.problems
        self._anchors: dict[str, _Node | None] = {}
        self._nodes = 0

    def document(self) -> Any:
        value, documents = None, 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _Unreadable(
                        self._problem((), event, "a second document starts here", "keep one, without `---`")
                    )
                first = next(self._events)
                self._mark((), first)
                value = self._node(first, (), 0).value
        return value

    def _node(self, event: Any, path: KeyPath, depth: int) -> _Node:
        self._count(1, event)
        if depth > MAX_DEPTH:
            raise _Unreadable(self._problem(path, event, f"nested deeper than {MAX_DEPTH} levels"))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path, depth)
        if event.tag is not None:
            self._problems.append(self._problem(path, event, "tags aren't accepted", "remove the `!…`"))
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(path, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(path, depth)
        else:
            node = _Node(self._scalar(event, path), 1, 0)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: Any, path: KeyPath, depth: int) -> _Node:
        # The name isn't repeated: `password: *hunter2` is an alias, too.
        if event.anchor not in self._anchors:
            raise _Unreadable(
                self._problem(path, event, "an alias to nothing", "a text that starts with `*` needs quotes")
            )
        node = self._anchors[event.anchor]
        if node is None or depth + node.height > MAX_DEPTH:
            raise _Unreadable(
                self._problem(path, event, "an alias inside of what it stands for, or too deep")
            )
        self._count(node.nodes, event)
        return node._replace(value=copy.deepcopy(node.value))

    def _mapping(self, path: KeyPath, depth: int) -> _Node:
        values: dict[str, Any] = {}
        nodes, height = 1, 0
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._problems.append(
                    self._problem(path, event, "this key isn't a text", "a key is a word and a colon")
                )
                self._node(event, path, depth + 1)
                self._node(next(self._events), path, depth + 1)
                continue
            self._count(1, event)
            name = self._text(event, path)
            inner = (*path, name)
            first = self._origins.marks.get(inner) if name in values else None
            if first:
                says = f"written twice, first on line {first.line}"
                self._problems.append(self._problem(inner, event, says, "keep one of the two"))
            else:
                self._mark(inner, event)
            node = self._node(next(self._events), (*path, name, "again") if first else inner, depth + 1)
            if name == "<<" and event.implicit[0]:
                says = "merge keys aren't accepted"
                self._problems.append(self._problem(inner, event, says, "write the keys out"))
            elif not first:
                values[name] = node.value
            nodes, height = nodes + 1 + node.nodes, max(height, node.height + 1)
        return _Node(values, nodes, height)

    def _sequence(self, path: KeyPath, depth: int) -> _Node:
        values: list[Any] = []
        nodes, height = 1, 0
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            inner = (*path, len(values))
            self._mark(inner, event)
            node = self._node(event, inner, depth + 1)
            values.append(node.value)
            nodes, height = nodes + node.nodes, max(height, node.height + 1)
        return _Node(values, nodes, height)

    def _scalar(self, event: Any, path: KeyPath) -> Any:
        text = self._text(event, path)
        return resolve_plain(text) if event.implicit[0] else text

    def _text(self, event: Any, path: KeyPath) -> str:
        text: str = event.value
        if _SURROGATE.search(text):
            says = "an escape for half a character"
            self._problems.append(self._problem(path, event, says, "write the character itself"))
            return _SURROGATE.sub("\ufffd", text)
        return text

    def _count(self, nodes: int, event: Any) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            says = f"more than {MAX_NODES} values, aliases written out"
            raise _Unreadable(self._problem((), event, says))

    def _mark(self, path: KeyPath, event: Any) -> None:
        mark = event.start_mark
        self._origins.marks[path] = Mark(self._origins.file, mark.line + 1, mark.column + 1)

    def _problem(self, path: KeyPath, event: Any, says: str, mend: str = "") -> Problem:
        mark = event.start_mark
        return Problem(self._origins.file, mark.line + 1, mark.column + 1, dotted(path), says, mend)


def _decoded(raw: bytes, file: str) -> str:
    if len(raw) > MAX_BYTES:
        raise _Unreadable(Problem(file, 0, 0, "", "larger than 1 MiB: this is no config"))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _place(raw[: error.start].decode("utf-8", "replace"))
        raise _Unreadable(Problem(file, line, column, "", "isn't UTF-8", "save the file as UTF-8")) from None


def _syntax(error: yaml.YAMLError, raw: bytes, file: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        line, column = _place(raw.decode("utf-8-sig")[: error.position])
        return Problem(file, line, column, "", "a control character isn't text", "remove it")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    said = str(getattr(error, "problem", None) or "can't be read")
    # PyYAML repeats names and tags in quotes: they may be somebody's password.
    said = re.sub(r"'(?!<)[^']{3,}'", "…", said)
    mend = "indent with spaces, not tabs" if "\\t" in said else _MENDS.get(said, "")
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return Problem(file, line, column, "", f"isn't YAML: {said}", mend)


_MENDS = {
    "mapping values are not allowed here": "check the indent, and put a text with `: ` in quotes",
    "could not find expected ':'": "a key is a word, a colon and a space",
}


def _place(before: str) -> tuple[int, int]:
    """Line and column of what follows `before`."""
    return before.count("\n") + 1, len(before) - before.rfind("\n")
