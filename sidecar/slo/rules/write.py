"""Groups of rules as files: Prometheus' own form, and the operator's PrometheusRule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from sidecar.slo.rules.rule import Group

HEADER = "# Made by `inference-sidecar rules`: change the config and make it again.\n"


class _Dumper(yaml.SafeDumper):
    """Expressions of several lines stay readable, labels are written out where they belong."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def plain(groups: Sequence[Group]) -> str:
    """A rule file for `rule_files` of Prometheus, Mimir, VictoriaMetrics."""
    return HEADER + _yaml({"groups": [group.document() for group in groups]})


def operator(groups: Sequence[Group], name: str) -> str:
    """A PrometheusRule for the operator; its labels say what it belongs to."""
    return HEADER + _yaml(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {
                "name": name,
                "labels": {
                    "app.kubernetes.io/name": "inference-sidecar",
                    "app.kubernetes.io/component": "rules",
                },
            },
            "spec": {"groups": [group.document() for group in groups]},
        }
    )


def _yaml(document: dict[str, Any]) -> str:
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
    return text
