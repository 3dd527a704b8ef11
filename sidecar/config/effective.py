"""The config in force, as YAML that loads to the same config. Of secrets it has the files' names only."""

from __future__ import annotations

from typing import Any

import yaml

from sidecar.config.document import resolve_plain
from sidecar.config.model import Config


def effective_yaml(config: Config) -> str:
    """Every key, defaults written out, in the order of the reference."""
    return yaml.dump(
        config.model_dump(),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1, YAML 1.2 or our own reader would take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not text.isprintable():
        style = '"'  # with escapes: in the other styles line breaks of any kind may become another one
    elif not isinstance(resolve_plain(text), str):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
