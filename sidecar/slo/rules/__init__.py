"""Recording and alerting rules from the same objectives that the sidecar judges."""

from __future__ import annotations

from sidecar.slo.rules.generate import Options, groups
from sidecar.slo.rules.rule import Alerting, Group, Recording, Rule
from sidecar.slo.rules.write import operator, plain

__all__ = ["Alerting", "Group", "Options", "Recording", "Rule", "groups", "operator", "plain"]
