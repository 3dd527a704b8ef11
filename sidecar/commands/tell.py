"""What every command says beside its result. A terminal gets it folded at spaces; elsewhere a message stays on
one line, for grep and for whoever collects logs.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Iterable
from shutil import get_terminal_size
from typing import NoReturn

WIDTH = 80
_LATER = "    "
_A_COMMAND = re.compile(r"pip install '[^']*'")  # to be copied in one piece
_KEPT = "\0"


def tell(what: object) -> None:
    """To stderr."""
    text = folded(what, get_terminal_size().columns) if sys.stderr.isatty() else str(what)
    print(text, file=sys.stderr, flush=True)


def folded(what: object, width: int = WIDTH) -> str:
    """Each line that is too wide as several; a path, a name or a command to copy stays in one piece."""
    return "\n".join(part for line in str(what).splitlines() for part in _fold(line, width))


def _fold(line: str, width: int) -> Iterable[str]:
    if len(line) <= width:
        return [line]
    whole = _A_COMMAND.sub(lambda found: found[0].replace(" ", _KEPT), line)
    parts = textwrap.wrap(
        whole, width, subsequent_indent=_LATER, break_long_words=False, break_on_hyphens=False
    )
    return [part.replace(_KEPT, " ") for part in parts]


class Form(argparse.HelpFormatter):
    """Help in which no name is broken at its hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.fill(
            " ".join(text.split()),
            width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )


class Parser(argparse.ArgumentParser):
    """Takes no abbreviations, and folds what it complains of."""

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, "formatter_class": Form, **more})  # type: ignore[arg-type]

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if message:
            tell(message.rstrip("\n"))
        sys.exit(status)
