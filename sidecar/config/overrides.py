"""`--set key=value`: a key of the config, dotted and indexed, and the value that takes its place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sidecar.config.document import Document, read_document
from sidecar.config.forms import nearest
from sidecar.config.model import Config
from sidecar.config.problem import ConfigError, KeyPath, Mark, Problem, dotted, kind_of, shown
from sidecar.config.section import field_at, is_list, section_at

_KEY = re.compile(r"[^.\[\]=\s]+(?:\.[^.\[\]=\s]+|\[[^\[\]=]+\])*")
_STEP = re.compile(r"\[([^\]]+)\]|([^.\[\]]+)")
_INDEX = re.compile(r"\d{1,6}")


def override(document: Document, texts: Iterable[str]) -> None:
    """Put each value in its place in the document; what can't be put becomes a problem of it."""
    if document.data is None:
        document.data = {}
    for text in texts:
        key, equals, value = text.partition("=")
        source = f"--set {key[:80]}" if key.isprintable() else "--set"
        path = parse_key(key)
        if not path or not equals:
            mend = "write it like --set interval=5s or --set targets[0].url=http://127.0.0.1:8000"
            document.problems.append(Problem(source, 0, 0, "", "isn't key=value", mend))
            continue
        parsed = read_document(value.encode("utf-8", "replace"), source)
        if parsed.problems:
            says, mend = "the value isn't YAML", "put the value in quotes"
            document.problems.append(Problem(source, 0, 0, dotted(path), says, mend))
            continue
        try:
            path = _put(document.data, path, parsed.data, source)
        except ConfigError as error:
            document.problems.extend(error.problems)
            continue
        marks = document.origins.marks
        for below in [one for one in marks if one[: len(path)] == path]:
            del marks[below]
        for length in range(1, len(path) + 1):
            marks.setdefault(path[:length], Mark(source))


def parse_key(text: str) -> KeyPath:
    """`targets[0].url`, `targets.local.url` or `targets[a.b].url` → its steps; empty where it isn't a key."""
    if len(text) > 500 or not _KEY.fullmatch(text):
        return ()
    steps = [bracketed or word for bracketed, word in _STEP.findall(text)]
    return tuple(int(step) if _INDEX.fullmatch(step) else step.strip("\"'") for step in steps)


def _put(data: Any, path: KeyPath, value: Any, source: str) -> KeyPath:
    """Set one value, making what is missing on the way. The path with names turned into indices."""
    done: KeyPath = ()
    node = data
    for n, step in enumerate(path):
        if isinstance(node, list):
            at: str | int = _index(node, step, done, source)
        elif isinstance(node, dict):
            at = str(step)
        else:
            raise _refused(source, done, f"is {kind_of(node)}: there are no keys in it")
        done = (*done, at)
        if n == len(path) - 1:
            node[at] = value
            break
        if (node[at] if isinstance(at, int) else node.get(at)) is None:
            node[at] = [] if _wants_list(done, path[n + 1]) else {}
        node = node[at]
    return done


def _wants_list(path: KeyPath, following: str | int) -> bool:
    field = field_at(Config, path) if section_at(Config, path[:-1]) else None
    if field is None or isinstance(path[-1], int):
        return isinstance(following, int)
    return is_list(field.annotation)


def _index(items: list[Any], step: str | int, path: KeyPath, source: str) -> int:
    """Where in a list: by number, one past the end to add; by name, and an empty list gets its first."""
    if isinstance(step, int):
        if step > len(items):
            raise _refused(source, path, f"has {len(items)} entries: [{step}] would leave a gap")
        if step == len(items):
            items.append(None)
        return step
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    if step in names:
        return names.index(step)
    if items:
        known = [name for name in names if isinstance(name, str)]
        raise _refused(source, path, f"has no entry named {shown(step)}", nearest(step, known))
    items.append({"name": step})
    return 0


def _refused(source: str, path: KeyPath, message: str, mend: str = "") -> ConfigError:
    return ConfigError([Problem(source, 0, 0, dotted(path), message, mend)])
