"""`run`: the sidecar itself."""

from __future__ import annotations

import argparse
import asyncio

from sidecar.app import Application
from sidecar.commands.tell import tell
from sidecar.config import ConfigError, ConfigFile
from sidecar.outputs.server import ListenError

NAME = "run"
HELP = "read runtimes and GPUs, serve /metrics and the rest"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="config file; without one, localhost is looked at")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a key, e.g. listen=:9900"
    )


def run(options: argparse.Namespace) -> int:
    try:
        asyncio.run(_serve(ConfigFile(options.config, options.set)))
    except ConfigError as error:
        tell(error)
        return 2
    except ListenError as error:
        tell(f"run: {error}")
        return 2
    return 0


async def _serve(file: ConfigFile) -> None:
    await Application(file.config, file).run()
