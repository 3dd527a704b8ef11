"""The command line: which commands there are, exit codes, printing. Each command is a module of its own."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from types import ModuleType

from sidecar import __version__
from sidecar.commands.tell import Parser

#: Command → what it does. The module `sidecar.commands.<name>` is imported only when it is asked for.
COMMANDS: dict[str, str] = {
    "run": "read runtimes and GPUs, serve /metrics and the rest",
    "demo": "a simulated runtime, the sidecar beside it, and traffic; no GPU needed",
    "map": "a captured page in, the normalised page out; offline",
    "doctor": "what is covered, what is missing, and which flag or version would mend it",
    "check-config": "check a config file and print what is in force",
    "record": "capture pages of a target, one file each",
    "replay": "captured pages through the whole line",
    "dashboards": "write Grafana dashboards, provisioning files and ConfigMaps",
    "rules": "write recording and alerting rules for the objectives",
    "gpu": "one pass over the GPUs",
    "fleet": "add sidecars up, answer KEDA over gRPC and JSON without a Prometheus in the path",
    "simulate": "a ScaledObject against a traffic in simulated time: objectives kept, replica-hours, flaps",
}

FINE, FOUND_WRONG, UNUSABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Exit code 0: fine, 1: something was found wrong, 2: can't be used as asked."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    asked = next((word for word in given if word in COMMANDS), None)
    parser = Parser(prog="inference-sidecar", description="One telemetry schema for every inference runtime.")
    parser.add_argument("--version", action="version", version=f"inference-sidecar {__version__}")
    levels = ["debug", "info", "warning", "error"]
    parser.add_argument(
        "--log-level", default="info", choices=levels, metavar="LEVEL", help=", ".join(levels)
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    module: ModuleType | None = None
    for name, what in COMMANDS.items():
        sub = commands.add_parser(name, help=what, description=what)
        if name == asked:
            module = importlib.import_module("sidecar.commands." + name.replace("-", "_"))
            module.configure(sub)
    options = parser.parse_args(given)
    logging.basicConfig(
        level=options.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    assert module is not None
    try:
        code: int = module.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return FINE
    return code


if __name__ == "__main__":
    sys.exit(main())
