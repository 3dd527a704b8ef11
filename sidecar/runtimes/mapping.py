"""The mapping from native metrics to the schema, as checked data (`mapping.yaml`, or a user's `mappings:`).

The rules of a signal that carry the same `labels` are aliases in order: the first one that the page has wins,
they are never added up. Rules with other `labels` (say another `outcome`) stand for themselves.
"""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from sidecar.schema import SIGNALS, Kind, Method, Scope, Status

#: `part` is a sum or count of a histogram or summary, taken alone as a counter.
NativeType = Literal["gauge", "counter", "histogram", "summary", "info", "part"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LabelFrom(_Strict):
    """A label of ours whose value comes from a native label."""

    label: str
    values: dict[str, str] = {}
    other: str | None = None  # what is not in `values`; without it, the native value as it is


class LabelOf(_Strict):
    """A number that a label of an info metric holds."""

    metric: str
    label: str


class Rule(_Strict):
    """One native metric as the source of one signal.

    `metric` is a sample name; for a histogram or summary the name before `_bucket`, `_sum`, `_count`. A
    histogram signal may also be made of two counters (`metric` is the sum, `count` the count): it has the
    +Inf bucket alone. `count_minus` counts what `count` has and the sum hasn't (cache hits, say).
    """

    metric: str
    type: NativeType
    count: str | None = None
    count_minus: str | None = None
    plus: list[str] = []  # metrics that are added where the page has them: parts, not aliases
    minus: list[str] = []  # … and taken off, of a gauge or counter
    factor: float = 1.0
    where: dict[str, list[str]] = {}
    where_not: dict[str, list[str]] = {}
    labels: dict[str, str] = {}
    labels_from: dict[str, LabelFrom] = {}
    value_label: str | None = None  # the value is the number in this label (of an info metric)
    times_label: str | None = None  # … times the number in this one
    weight: LabelOf | None = None  # weight of a rank in the mean
    valid: tuple[float, float] | None = None  # a value outside is absent: a sentinel or garbage
    assume_zero: bool = (
        False  # announced without a sample before the first step: 0 while nothing has finished
    )
    since: str | None = None  # runtime versions between which the rule holds (inclusive, exclusive)
    until: str | None = None
    method: Method = Method.NATIVE
    scope: Scope = Scope.ENGINE
    note: str = ""

    def holds_for(self, version: str) -> bool:
        """Version-gated rules need a known version."""
        if self.since is None and self.until is None:
            return True
        if not version:
            return False
        known = version_key(version)
        return (self.since is None or known >= version_key(self.since)) and (
            self.until is None or known < version_key(self.until)
        )


class Absent(_Strict):
    """Why a signal is not there when no rule hits, and what would bring it."""

    status: Status = Status.NOT_EXPOSED
    note: str = ""


class Origin(_Strict):
    """Where a signal comes from that the adapter's code computes."""

    source: str
    method: Method = Method.DERIVED
    scope: Scope = Scope.ENGINE
    note: str = ""


class Fingerprint(_Strict):
    """What tells the runtime: a family on its page, or what a cheap endpoint says."""

    family: str = ""  # pattern of the canonical name
    endpoint: str = ""  # name of one that answers 200, with …
    holds: dict[str, str] = {}  # … JSON in which the values at dotted paths fit patterns
    body: str = ""  # … or a body whose start fits a pattern
    confidence: float
    reason: str

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.family) == bool(self.endpoint):
            raise ValueError("a fingerprint names either a family or an endpoint")
        return self


class Mapping(_Strict):
    """All that data can say of one runtime."""

    runtime: str
    model_labels: list[str] = ["model_name"]
    rank_labels: list[str] = []
    extra_labels: dict[str, str] = {}  # our label → native label, kept on every series (model_version)
    doors: dict[str, str] = {}  # a prefix that another product puts on the names → what it stands for
    fingerprints: list[Fingerprint] = []
    layers: list[str] = []  # runtimes that may run inside this one and show through its page
    completions: str | None = None  # path of a completion that streams, {model} for the model's name
    completion_options: dict[str, Any] = {}  # what this runtime understands in its body beside the usual
    signals: dict[str, list[Rule]] = {}
    computed: dict[str, list[Origin]] = {}  # signals that the adapter's code computes, best source first
    absent: dict[str, Absent] = {}
    reads: list[str] = []  # sample names that the adapter's code reads beside the rules
    ignored: list[str] = []  # patterns of families that say nothing of the runtime
    deferred: dict[str, str] = {}  # patterns of families that are known and not mapped → why

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in (*self.signals, *self.computed, *self.absent):
            if name.partition(":")[0] not in SIGNALS:
                raise ValueError(f"signals.{name}: the schema has no such signal")
        for name, rules in self.signals.items():
            signal = SIGNALS[name]
            for rule in rules:
                allowed = set(signal.labels)
                given = set(rule.labels) | set(rule.labels_from)
                if not given <= allowed:
                    raise ValueError(
                        f"signals.{name}: {rule.metric}: labels {sorted(given - allowed)} unknown"
                    )
                if (
                    signal.kind is Kind.HISTOGRAM
                    and rule.type not in ("histogram", "summary")
                    and not rule.count
                ):
                    raise ValueError(f"signals.{name}: {rule.metric}: a {rule.type} needs a `count` metric")
                if signal.kind is not Kind.HISTOGRAM and rule.type in ("histogram", "summary"):
                    raise ValueError(f"signals.{name}: {rule.metric}: a {rule.type} can't be a {signal.kind}")
        return self

    def canonical(self, name: str) -> str:
        """The native name, whatever door it came through (`ray_vllm:x` → `vllm:x`)."""
        for prefix, becomes in self.doors.items():
            if name.startswith(prefix):
                return becomes + name[len(prefix) :]
        return name

    @cached_property
    def names(self) -> frozenset[str]:
        """Canonical sample names that some rule reads."""
        wanted: set[str] = set()
        for rules in self.signals.values():
            for rule in rules:
                wanted.update(sample_names(rule))
                if rule.weight is not None:
                    wanted.add(rule.weight.metric)
        wanted.update(self.reads)
        return frozenset(wanted)

    @cached_property
    def _quiet(self) -> re.Pattern[str]:
        return re.compile(
            "|".join(f"(?:{pattern})" for pattern in (*self.ignored, *self.deferred)) or r"(?!)"
        )

    def is_quiet(self, family: str) -> bool:
        """Whether a family is listed as ignored or deferred."""
        return self._quiet.fullmatch(self.canonical(family)) is not None

    def overridden(self, by: Mapping) -> Mapping:
        """This mapping with a user's rules in front of its own."""
        signals = dict(self.signals)
        for name, rules in by.signals.items():
            signals[name] = [*rules, *signals.get(name, [])]
        return self.changed(
            signals=signals,
            absent={**self.absent, **by.absent},
            completions=by.completions or self.completions,
            completion_options={**self.completion_options, **by.completion_options},
            doors={**by.doors, **self.doors},
            ignored=[*self.ignored, *by.ignored],
            deferred={**self.deferred, **by.deferred},
        )

    def changed(self, **fields: Any) -> Mapping:
        """This mapping with other fields. A copy would keep what was derived from the old ones."""
        return Mapping(**{name: getattr(self, name) for name in Mapping.model_fields} | fields)


def sample_names(rule: Rule) -> tuple[str, ...]:
    """Sample names that a rule reads, in order of preference."""
    if rule.type == "histogram":
        return (f"{rule.metric}_bucket", f"{rule.metric}_sum", f"{rule.metric}_count")
    if rule.type == "summary":
        return tuple(f"{metric}_{part}" for metric in (rule.metric, *rule.plus) for part in ("sum", "count"))
    metrics = [rule.metric, *rule.plus, *rule.minus, *filter(None, (rule.count, rule.count_minus))]
    return tuple(name for metric in metrics for name in spellings(metric, rule.type))


def spellings(metric: str, kind: str) -> tuple[str, ...]:
    """A counter may come with or without `_total`: exporters and parsers differ on it."""
    if kind != "counter":
        return (metric,)
    return (metric, metric.removesuffix("_total") if metric.endswith("_total") else f"{metric}_total")


def version_key(version: str) -> tuple[int, ...]:
    """`0.9.0.1+cpu` → (0, 9, 0, 1): enough to compare releases."""
    return tuple(int(part) for part in re.findall(r"\d+", version.split("+")[0])[:4])


def parse_mapping(data: Any, origin: str = "") -> Mapping:
    """Validate a mapping. Raises ValueError that names the origin and each fault."""
    try:
        return Mapping.model_validate(data)
    except ValidationError as error:
        faults = "; ".join(map(_said, error.errors()))
        raise ValueError(f"{origin}: {faults}".removeprefix(": ")) from None


def _said(fault: Any) -> str:
    where, what = ".".join(map(str, fault["loc"])), fault["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


def load_mapping(path: Path) -> Mapping:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return parse_mapping(yaml.load(path.read_text("utf-8"), Loader=loader), path.name)
