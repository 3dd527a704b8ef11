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
    """0: told to stop. 2: can't be used as asked. 3: a GPU is lost, and `gpu.exit_on_loss` is set."""
    try:
        return asyncio.run(_serve(ConfigFile(options.config, options.set)))
    except ConfigError as error:
        tell(error)
        return 2
    except ListenError as error:
        tell(f"run: {error}")
        return 2


async def _serve(file: ConfigFile) -> int:
    app = Application(file.config, file)
    await app.run()
    return app.exit_code
