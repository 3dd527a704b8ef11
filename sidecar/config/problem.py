"""What is wrong with a config, said so that it can be mended: where, which key, what, and the mend."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

KeyPath = tuple[str | int, ...]

WIDTH = 80
_LONGEST_KEY = 70
_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_SECRET = re.compile(r"password|passwd|token|secret|authorization|credential|bearer|key", re.IGNORECASE)


class Mark(NamedTuple):
    """Where a key was written; line and column count from 1, and are 0 outside of a file (`--set`)."""

    source: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. Never holds the value of a key that looks secret."""

    file: str
    line: int
    column: int
    key: str
    message: str
    mend: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        key = "" if place == f"--set {self.key}" else _short(self.key)
        said = ": ".join(part for part in (place, key, self.message) if part)
        lines = _wrapped(said, "", "    ") + (_wrapped(self.mend, "    ", "    ") if self.mend else [])
        return "\n".join(lines)


class ConfigError(Exception):
    """A config that can't be used. `problems` holds everything that is wrong with it, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class Mistake(ValueError):
    """A value that a form refuses.

    `says` is what is wrong, to be read after the value («isn't a duration»). `echo` is False where the
    value must not or need not be repeated: then `says` stands alone.
    """

    def __init__(self, says: str, mend: str = "", *, echo: bool = True) -> None:
        super().__init__(says)
        self.says = says
        self.mend = mend
        self.echo = echo


class Origins:
    """Where each key of a loaded document was written."""

    __slots__ = ("file", "marks")

    def __init__(self, file: str, marks: dict[KeyPath, Mark] | None = None) -> None:
        self.file = file
        self.marks: dict[KeyPath, Mark] = marks or {}

    def locate(self, path: KeyPath) -> Mark:
        """Where a key, or the nearest thing around it that was written, stands."""
        for length in range(len(path), 0, -1):
            mark = self.marks.get(path[:length])
            if mark:
                return mark
        return self.marks.get((), Mark(self.file))

    def problem(self, path: KeyPath, message: str, mend: str = "") -> Problem:
        mark = self.locate(path)
        return Problem(mark.source, mark.line, mark.column, dotted(path), message, mend)


def dotted(path: KeyPath) -> str:
    """`("targets", 0, "url")` → `targets[0].url`. What isn't a plain word is quoted and shortened."""
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        elif _BARE_KEY.fullmatch(step):
            written += f".{step}" if written else step
        else:
            written += f"[{shown(step)}]"
    return written


def looks_secret(path: KeyPath) -> bool:
    """Whether the value of this key must not be repeated anywhere."""
    names = [step for step in path if isinstance(step, str)]
    return bool(names) and _SECRET.search(names[-1]) is not None


def shown(value: object) -> str:
    """A value as a message may repeat it: one short line of printable ASCII."""
    if isinstance(value, str | int | float) or value is None:
        text = json.dumps(value)
        return text if len(text) <= 42 else f'{text[:38]}…"' if isinstance(value, str) else f"{text[:38]}…"
    return kind_of(value)


def kind_of(value: object) -> str:
    """What a value is, in a user's words."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "nothing" if value is None else "text"


def _short(key: str) -> str:
    """A key path without its middle, where it is too long for a line."""
    return key if len(key) <= _LONGEST_KEY else f"{key[:40]}…{key[-20:]}"


def _wrapped(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=later,
        break_long_words=False,
        break_on_hyphens=False,
    )
