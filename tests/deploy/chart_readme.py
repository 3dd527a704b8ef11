"""The chart's README, from the comments in its values."""

from __future__ import annotations

import json
from typing import Any

import yaml

_INTRO = """\
# Helm chart

<!-- Generated from values.yaml: edit there. GOLDEN_UPDATE=1 pytest tests/deploy writes it anew. -->

Three uses, alone or together: a library for the sidecar in your own chart, a DaemonSet for the GPUs of each
node, and the fleet role that adds sidecars up and answers KEDA. How to use them:
[docs/kubernetes.md](../../../docs/kubernetes.md).

```
helm install inference deploy/helm/inference-sidecar --set podMonitor.enabled=true
```

| value | default | meaning |
|---|---|---|
"""


def readme(text: str) -> str:
    rows = [
        f"| `{path}` | {_shown(value)} | {meaning} |\n" for path, value, meaning in _leaves(_root(text), text)
    ]
    return _INTRO + "".join(rows)


def _root(text: str) -> yaml.MappingNode:
    node = yaml.compose(text)
    assert isinstance(node, yaml.MappingNode)
    return node


def _leaves(node: yaml.MappingNode, text: str, above: str = "") -> list[tuple[str, Any, str]]:
    lines = text.splitlines()
    rows = []
    for key, value in node.value:
        path = f"{above}{key.value}"
        before = lines[key.start_mark.line - 1].strip() if key.start_mark.line else ""
        meaning = before.removeprefix("# -- ") if before.startswith("# -- ") else ""
        if isinstance(value, yaml.MappingNode) and value.value and not meaning and not value.flow_style:
            rows += _leaves(value, text, f"{path}.")
        else:
            plain = yaml.safe_load(yaml.serialize(value))
            rows.append((path, plain, meaning))
    return rows


def _shown(value: Any) -> str:
    return f"`{json.dumps(value)}`"
