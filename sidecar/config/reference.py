"""The configuration reference, made from the models: `docs/configuration.md`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic.fields import FieldInfo

from sidecar.config.model import Config
from sidecar.config.section import Section, form_of, is_list, meaning_of, section_in
from sidecar.config.targets import INHERITED, Target

EXAMPLE = """\
listen: 0.0.0.0:9845
targets:
  - name: llama
    url: http://127.0.0.1:8000
    auth: {bearer_token_file: /run/secrets/token}
    capacity: {slots: 256}
slos:
  - {name: ttft, signal: time_to_first_token, threshold: 1s, objective: 95%, period: 7d}
  - {name: itl, signal: inter_token_latency, threshold: 50ms, objective: 95%, period: 7d}
  - {name: availability, signal: availability, objective: 99.9%, period: 30d}
cost: {gpu_hour_price: 2.50, currency: USD}
outputs:
  otlp: {endpoint: "http://collector:4318"}
state_file: /var/lib/inference-sidecar/state.sqlite
"""

_HEAD = f"""\
# Configuration

<!-- Generated from sidecar/config: edit there. -->

Nothing has to be configured: beside a runtime, `inference-sidecar run` looks on localhost at the usual
ports. Everything else is one YAML file, `inference-sidecar run --config FILE`. An unknown key is an error
that names the nearest known one, and all errors are told in one go. `inference-sidecar check-config FILE`
prints what is in force, every default written out.

```yaml
{EXAMPLE}```

## How values are written

| form | written |
|---|---|
| duration | `800ms`, `5m`, `1h30m`, `7d`, or a plain number of seconds |
| size | `32MiB`, `64kB`, `1Gi`, or a plain number of bytes |
| share | `99.9%` or `0.999` |
| file | a path; a relative one is seen from the folder of the config file |
| file with a secret | the same; secrets never stand in the config, and what their files hold is never shown |
| name | letters, digits, `.`, `_` and `-`, at most 63 |

A key without a value is a key left out. `yes`, `no`, `on`, `off` and dates are text; only `true` and `false`
are true and false. One document, no tags, no merge keys, at most 1 MiB.

## On the command line

`--set KEY=VALUE` takes the place of a key, as often as needed: `--set interval=5s`,
`--set targets[0].url=http://127.0.0.1:8001`, or by name `--set targets.llama.timeout=1s`. An index one past
the end adds an entry.

## Reload

The file is read again when it changes (a mounted ConfigMap, too) and on SIGHUP: all or nothing. A file that
can't be used changes nothing; the log says what is wrong with it, and until it is mended
`inference_sidecar_config_reload_success` is 0.
"""


def reference_markdown() -> str:
    """The page, complete."""
    return "\n".join([_HEAD, *_tables("Keys", Config, "", {})])


def _tables(title: str, section: type[Section], path: str, told: dict[type[Section], str]) -> Iterator[str]:
    """One table a section; what stands in two places is told once."""
    yield f"## {title}\n"
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    inner: list[tuple[str, type[Section]]] = []
    for key, field in section.model_fields.items():
        value, meaning, below = _value(field), meaning_of(field), section_in(field.annotation)
        if below and below in told:
            meaning += f" Keys as in {told[below]}."
        elif below:
            name = f"{path}{key}{'[]' if is_list(field.annotation) else ''}"
            told[below] = f"`{name}`"
            inner.append((name, below))
        yield f"| `{key}` | {value} | {_default(section, key, field)} | {meaning} |"
    yield ""
    for name, below in inner:
        yield from _tables(f"`{name}`", below, f"{name}.", told)


def _value(field: FieldInfo) -> str:
    if form := form_of(field):
        return f"`auto` or {form.describe()}" if form.optional == "auto" else form.describe()
    return "list of mappings" if is_list(field.annotation) else "mapping"


def _default(section: type[Section], key: str, field: FieldInfo) -> str:
    if section is Target and key in INHERITED:
        return "that of the top level"
    if field.is_required():
        return "required"
    form = form_of(field)
    default = form.written(field.default) if form else field.default
    if isinstance(default, Section):
        return ""
    return "none" if default is None else f"`{_flow(default)}`"


def _flow(value: Any) -> str:
    """A value in YAML's flow style, on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(json.dumps(one) for one in value)}]"
    return json.dumps(value) if isinstance(value, bool | dict) else str(value)
