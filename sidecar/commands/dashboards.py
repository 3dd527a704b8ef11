"""`dashboards --out DIR`: Grafana dashboards, provisioning files and ConfigMaps."""

from __future__ import annotations

import argparse
from pathlib import Path

from sidecar.commands.tell import tell
from sidecar.outputs.dashboards.files import files

NAME = "dashboards"
HELP = "write Grafana dashboards, provisioning files and ConfigMaps"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder to write into")


def run(options: argparse.Namespace) -> int:
    """0: written. 2: the folder can't be written."""
    try:
        for name, text in files().items():
            path = options.out / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(path)
    except OSError as error:
        tell(f"dashboards: {options.out} can't be written: {error.strerror}")
        return 2
    return 0
