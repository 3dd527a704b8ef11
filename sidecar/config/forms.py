"""How one value may be written: each form reads a YAML value, writes it back, and describes itself.

Used as `Annotated[float, Duration(low=0.1)]`. A form is the whole validation of its field, so that every
message comes from here and names the mend; pydantic sees to keys, nesting and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import core_schema

from sidecar.config.problem import Mistake, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """`optional` says how None is written: `auto`, `null`, or not at all."""

    optional: Literal["", "auto", "null"] = ""

    def read(self, value: Any) -> Any:
        """The value for the field. Raises Mistake."""
        raise Mistake("can't be read")

    def write(self, value: Any) -> Any:
        """What `read` reads back as the same value: a YAML scalar, list or mapping."""
        return value

    def describe(self) -> str:
        """What may be written, in a few words."""
        return "value"

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        form = self.over(source)

        def validate(value: Any, info: ValidationInfo) -> Any:
            if self.optional and (value is None or value == self.optional == "auto"):
                return None
            return form.placed(form.read(value), info.context)

        return core_schema.with_info_plain_validator_function(
            validate, serialization=core_schema.plain_serializer_function_ser_schema(form.written)
        )

    def written(self, value: Any) -> Any:
        """Like `write`, and for None what stands for it."""
        return ("auto" if self.optional == "auto" else None) if value is None else self.write(value)

    def over(self, source: Any) -> Form:
        """This form, knowing the type that it stands at."""
        return self

    def placed(self, value: Any, context: Any) -> Any:
        """The value as seen from the config file (`context` is its folder)."""
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Form):
    def read(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise Mistake("isn't true or false", "write true or false")

    def describe(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Form):
    """One of the words of the `Literal` that it annotates."""

    words: tuple[str, ...] = ()

    def written(self, value: Any) -> Any:
        """Like `write`, and for None what stands for it."""
        return ("auto" if self.optional == "auto" else None) if value is None else self.write(value)

    def over(self, source: Any) -> Choice:
        return Choice(words=words_of(source), optional=self.optional)

    def read(self, value: Any) -> str:
        if isinstance(value, str) and value in self.words:
            return value
        raise Mistake(f"isn't one of {', '.join(self.words)}", nearest(value, self.words))

    def describe(self) -> str:
        return "one of " + ", ".join(f"`{word}`" for word in self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Word(Form):
    """A text of one pattern: `what` names it, `like` shows one."""

    pattern: str
    what: str
    like: str

    def read(self, value: Any) -> str:
        if isinstance(value, str) and re.fullmatch(self.pattern, value):
            return value
        if isinstance(value, bool | int | float):
            raise Mistake(f"is {_kind(value)}, not {self.what}", "put it in quotes")
        raise Mistake(f"isn't {self.what}", f"write it like {self.like}")

    def describe(self) -> str:
        return self.what.removeprefix("a ").removeprefix("an ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words(Form):
    """A list of texts, each of one pattern; or one of `instead`, alone."""

    each: Word
    many: str
    instead: tuple[str, ...] = ()
    empty: bool = True

    def read(self, value: Any) -> tuple[str, ...] | str:
        if isinstance(value, str) and value in self.instead:
            return value
        if not isinstance(value, list | tuple):
            raise Mistake("isn't a list", f"write it like [{self.each.like}]", echo=isinstance(value, str))
        if not value and not self.empty:
            raise Mistake("the list is empty", "name at least one, or leave the key out", echo=False)
        for one in value:
            try:
                self.each.read(one)
            except Mistake as mistake:
                raise Mistake(f"{shown(one)} {mistake.says}", mistake.mend, echo=False) from None
        return tuple(value)

    def write(self, value: tuple[str, ...] | str) -> list[str] | str:
        return value if isinstance(value, str) else list(value)

    def describe(self) -> str:
        return " or ".join([*(f"`{one}`" for one in self.instead), f"list of {self.many}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePath(Form):
    """A file's name; a relative one is seen from the folder of the config file."""

    def read(self, value: Any) -> Any:
        return Path(file_name(value))

    def placed(self, value: Path, context: Any) -> Path:
        return Path(context, value) if isinstance(context, Path) else value

    def write(self, value: Path) -> str:
        return str(value)

    def describe(self) -> str:
        return "file"


def file_name(value: Any) -> str:
    """A text that can name a file. Raises Mistake without the value, which may be the secret itself."""
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise Mistake("isn't the name of a file", "write a path", echo=False)
    if len(value) > 4096 or not value.isprintable():
        raise Mistake("can't be the name of a file", "write a path, not the content", echo=False)
    return value


def words_of(source: Any) -> tuple[str, ...]:
    """The words of a `Literal`, or of the one within an optional."""
    found: list[str] = []
    for one in get_args(source):
        found.extend([one] if isinstance(one, str) else words_of(one))
    return tuple(found)


def nearest(value: object, known: Mapping[str, object] | tuple[str, ...] | list[str]) -> str:
    """«did you mean …?», or nothing."""
    import difflib  # only for errors: the usual start needs none of it

    close = difflib.get_close_matches(value[:64].lower(), list(known), n=1) if isinstance(value, str) else []
    return f"did you mean {close[0]}?" if close else ""


def _kind(value: object) -> str:
    return "true or false" if isinstance(value, bool) else "a number"
