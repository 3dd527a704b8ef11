"""docs/cli.md, from the parsers themselves."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator

from sidecar.cli import COMMANDS

_INTRO = """\
# Commands

<!-- Generated from the parsers: GOLDEN_UPDATE=1 pytest tests/docs writes it anew. -->

`inference-sidecar [--log-level LEVEL] COMMAND …`. Results go to stdout, messages to stderr. Exit code 0: fine,
1: something was found wrong, 2: the command line or a file can't be used as asked. `run` ends with 3 where
`gpu.exit_on_loss` asks for it.
"""


def parser_of(command: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"inference-sidecar {command}", allow_abbrev=False)
    importlib.import_module("sidecar.commands." + command.replace("-", "_")).configure(parser)
    return parser


def cli_markdown() -> str:
    parts = [_INTRO]
    for command, what in COMMANDS.items():
        parts.append(f"\n## {command}\n\n{what[0].upper()}{what[1:]}.\n")
        rows = list(_rows(parser_of(command)))
        if rows:
            parts.append("\n| argument | meaning |\n|---|---|\n" + "".join(rows))
    return "".join(parts)


def _rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
            continue
        shown = ", ".join(f"`{one}`" for one in action.option_strings)
        value = action.metavar or (None if action.nargs == 0 else action.dest.upper())
        if isinstance(value, tuple):
            value = " ".join(value)
        if action.choices and not action.metavar:
            value = " or ".join(map(str, action.choices))
        if value is not None:
            shown = (
                f"{shown} `{value}`".strip().replace("` `", " ") if action.option_strings else f"`{value}`"
            )
        meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
        yield f"| {shown} | {meaning} |\n".replace("|PAGE", "\\|PAGE")
