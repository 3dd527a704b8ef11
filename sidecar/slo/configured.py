"""The objectives of a loaded config, refused where they can't work."""

from __future__ import annotations

from sidecar.config import Config, ConfigError
from sidecar.slo.check import check, errors
from sidecar.slo.objective import Objective, objectives_from_config


def objectives_of(config: Config) -> tuple[Objective, ...]:
    """The config's objectives. Raises ConfigError that leads to each entry which makes no sense."""
    objectives = objectives_from_config(config.slos)
    places = {objective.name: place for place, objective in enumerate(objectives)}
    problems = [
        config.problem(("slos", places[finding.subject]), finding.message)
        for finding in errors(check(objectives))
    ]
    if problems:
        raise ConfigError(problems)
    return objectives
