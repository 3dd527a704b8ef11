"""The metrics reference as Markdown, from the schema itself."""

from __future__ import annotations

from sidecar.schema import GROUPS, Agg, Signal
from sidecar.schema.model import STATUSES

_INTRO = """\
# Metrics

Every metric that the sidecar serves, generated from its schema. Units are base units: seconds, bytes, joules,
watts, celsius, hertz, ratios from 0 to 1. Counters end in `_total`. A value that is not known is absent: never
0, never NaN, never the last good one past its age.

Beside the labels of the table each signal of a target carries `target` and `runtime`, and `model_name` where it
belongs to a model (`model_version` on Triton, `rank` with `per_rank: true`). A name once released never gets
another meaning; a rename keeps the old name for two minor versions.
"""

_STATUSES = """
## Statuses of a signal

The label `status` of `inference_signal_info`; `doctor`, `map`, `/v1/signals` and the status page give the
reason as well. Whatever isn't `ok` is absent or, where only some of its series are lost, a part:
`/v1/signals/{name}` gives no number then.

| status | meaning |
|---|---|
"""

_AGGREGATION = {
    Agg.SUM: "sum",
    Agg.MAX: "max",
    Agg.MIN: "min",
    Agg.MEAN: "mean, weighted by capacity",
    Agg.NONE: "",
}


def reference_markdown() -> str:
    """docs/metrics.md."""
    parts = [_INTRO]
    for title, signals in GROUPS.items():
        parts.append(
            f"\n## {title}\n\n| metric | type | labels | over ranks | meaning |\n|---|---|---|---|---|\n"
        )
        parts.extend(map(_row, signals))
    parts.append(_STATUSES)
    parts.extend(f"| `{status}` | {meaning} |\n" for status, meaning in STATUSES.items())
    return "".join(parts)


def _row(signal: Signal) -> str:
    labels = ", ".join(f"`{label}`" for label in signal.labels)
    return (
        f"| `{signal.family}` | {signal.kind.value} | {labels} | {_AGGREGATION[signal.agg]} |"
        f" {signal.help.replace('|', '/')} |\n"
    )
