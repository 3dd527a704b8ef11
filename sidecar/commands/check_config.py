"""`check-config FILE`: can this config be used, and what does it amount to."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel

from sidecar.app import registry_of
from sidecar.commands import probing
from sidecar.commands.tell import tell
from sidecar.config import Config, ConfigError, SecretFile, effective_yaml, load
from sidecar.gpu.pod_resources import MISSING
from sidecar.outputs.web_config import read_web_config
from sidecar.slo.configured import objectives_of
from sidecar.slo.store import why_unwritable

NAME = "check-config"
HELP = "check a config file and print what is in force, secrets redacted"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="the config; without it the defaults")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="take this value for a key, e.g. targets[0].url=http://127.0.0.1:8001",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """0: the effective config is on stdout. 2: what is wrong is on stderr (with `--json`, on stdout)."""
    try:
        config = load(args.file, args.overrides)
        if config.web_config_file is not None and os.access(config.web_config_file, os.R_OK):
            read_web_config(config.web_config_file)
        registry_of(config)
        objectives_of(config)
    except ConfigError as error:
        if args.json:
            problems = [asdict(problem) for problem in error.problems]
            print(json.dumps({"ok": False, "problems": problems}, indent=2))
        else:
            tell(f"{error}\n{args.file or 'the command line'} can't be used")
        return 2
    notes = list(notes_on(config))
    if args.json:
        print(json.dumps({"ok": True, "notes": notes, "config": config.model_dump()}, indent=2))
    else:
        print(effective_yaml(config), end="")
        for note in notes:
            tell(f"note: {note}")
    return 0


def notes_on(config: Config) -> Iterator[str]:
    """What is no error and still worth a look: files that aren't here, certificates unchecked."""
    yield from probing.notes(config, registry_of(config))
    if config.gpu.pod_resources_socket is not None and find_spec("grpc") is None:
        yield f"gpu.pod_resources_socket: {MISSING}"
    if config.state_file is not None and (why := why_unwritable(config.state_file)):
        yield f"state_file: {config.state_file} can't be kept here and now: {why}"
    for key, value in _leaves(config, ""):
        file = value.path if isinstance(value, SecretFile) else value
        if isinstance(file, Path) and key != "state_file" and not os.access(file, os.R_OK):
            yield f"{key}: {file} can't be read here and now"
        if key.endswith("insecure_skip_verify") and value:
            yield f"{key}: any certificate is accepted"


def _leaves(section: BaseModel, above: str) -> Iterator[tuple[str, object]]:
    for name, value in section:
        items = value if isinstance(value, tuple) and not hasattr(value, "_fields") else [value]
        for index, item in enumerate(items):
            key = f"{above}{name}[{index}]" if items is value else f"{above}{name}"
            if isinstance(item, BaseModel):
                yield from _leaves(item, f"{key}.")
            else:
                yield key, item
