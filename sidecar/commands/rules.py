"""`rules --config FILE`: recording and alerting rules for the objectives of a config."""

from __future__ import annotations

import argparse
from pathlib import Path

from sidecar.commands.tell import tell
from sidecar.config import ConfigError, load
from sidecar.slo.configured import objectives_of
from sidecar.slo.rules import Group, Options, groups, operator, plain
from sidecar.slo.rules.generate import RUNBOOK_BASE, SERVICE

NAME = "rules"
HELP = "write recording and alerting rules for the objectives"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", required=True, metavar="FILE", help="the config with the objectives")
    parser.add_argument(
        "--format",
        choices=("prometheus", "operator"),
        default="prometheus",
        help="a rule file, or a PrometheusRule for the operator",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write files there instead of printing")
    parser.add_argument(
        "--service", default=SERVICE, metavar="NAME", help="the label sloth_service (%(default)s)"
    )
    parser.add_argument(
        "--by",
        default="model_name",
        metavar="LABELS",
        help="labels that the fleet is not summed over, e.g. model_name,namespace (%(default)s)",
    )
    parser.add_argument(
        "--runbook-base", default=RUNBOOK_BASE, metavar="URL", help="where the runbooks are (%(default)s)"
    )
    parser.add_argument(
        "--no-operational", action="store_true", help="only the objectives' rules, no operational alerts"
    )


def run(args: argparse.Namespace) -> int:
    """0: rules written. 2: the config can't be used, or the folder can't be written."""
    try:
        objectives = objectives_of(load(args.config))
    except ConfigError as error:
        tell(f"{error}\n{args.config} can't be used")
        return 2
    by = tuple(label.strip() for label in args.by.split(",") if label.strip())
    base = args.runbook_base if args.runbook_base.endswith(("/", "=")) else args.runbook_base + "/"
    files = groups(objectives, Options(args.service, by, base))
    if args.no_operational:
        del files["operational"]
    if args.out is None:
        print(
            _text(args.format, "inference-sidecar", [one for part in files.values() for one in part]), end=""
        )
        return 0
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        for part, found in files.items():
            name = f"inference-{part}"
            suffix = ".rules.yaml" if args.format == "prometheus" else ".prometheusrule.yaml"
            (args.out / f"{name}{suffix}").write_text(_text(args.format, name, found), encoding="utf-8")
            print(f"{args.out / name}{suffix}")
    except OSError as error:
        tell(f"{args.out} can't be written: {error.strerror}")
        return 2
    return 0


def _text(form: str, name: str, found: list[Group]) -> str:
    return plain(found) if form == "prometheus" else operator(found, name)
