"""Binds a page's series to the schema by a mapping's rules: once per shape of page, never per scrape."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from typing import Any

from sidecar.exposition import Sample
from sidecar.exposition.lines import number
from sidecar.runtimes.build import Build
from sidecar.runtimes.mapping import LabelFrom, Rule, sample_names, spellings
from sidecar.schema import RUNTIME, SIGNALS, Kind, Method, Status
from sidecar.snapshot import Labels, Provenance

UNTYPED = frozenset({"untyped", "unknown"})
Found = tuple[int, Sample]


@dataclass(slots=True)
class _Member:
    """One native histogram: a rank's, say."""

    buckets: dict[float, list[int]] = field(default_factory=dict)
    sum: list[int] = field(default_factory=list)
    count: list[int] = field(default_factory=list)
    minus: list[int] = field(default_factory=list)


def bind_rules(build: Build, *, version: str = "", per_rank: bool = False) -> None:
    """Bind every signal that the mapping has rules for, in the schema's order."""
    for signal in RUNTIME:
        rules = build.mapping.signals.get(signal.name)
        if rules:
            _Signal(build, signal.name, version, per_rank).bind(rules)


class _Signal:
    """Binds one signal."""

    def __init__(self, build: Build, name: str, version: str, per_rank: bool) -> None:
        self.build = build
        self.name = name
        self.version = version
        self.per_rank = per_rank
        self.histogram = SIGNALS[name].kind is Kind.HISTOGRAM
        self.taken: set[str] = set()  # models that an alias in front has bound

    def bind(self, rules: list[Rule]) -> None:
        aliases: dict[tuple[tuple[str, str], ...], list[Rule]] = {}
        for rule in rules:
            aliases.setdefault(tuple(sorted(rule.labels.items())), []).append(rule)
        for labels, group in aliases.items():
            known_as = ":".join((self.name, *(value for _, value in labels)))
            wrong_type = ""
            found = False
            self.taken = set()
            for rule in group:
                hit, mismatch = self._try(rule)
                if hit and not found:
                    found = True
                    self.build.note(Provenance(known_as, Status.OK, hit, rule.metric, rule.scope, rule.note))
                if hit is Method.ASSUMED or (found and self.taken.issuperset(self.build.models)):
                    break
                wrong_type = wrong_type or mismatch
            if not found:
                record = self.build.missing(known_as)
                if wrong_type:
                    record = Provenance(
                        known_as,
                        Status.TYPE_MISMATCH,
                        Method.NATIVE,
                        group[0].metric,
                        group[0].scope,
                        wrong_type,
                    )
                self.build.note(record)

    def _try(self, rule: Rule) -> tuple[Method | None, str]:
        """(how it was bound or None, why its type is wrong)."""
        if not rule.holds_for(self.version):
            return None, ""
        names = sample_names(rule)
        found = {name: self.build.by_name.get(name, []) for name in names}
        samples = [one for name in names for one in found[name]]
        if not samples:
            return (Method.ASSUMED, "") if self._assume(rule) else (None, "")
        expected = {"counter", rule.type} if rule.count else {rule.type}
        if rule.type == "part":
            expected = {"histogram", "summary"}
        wrong = {sample.type for _, sample in samples} - expected - UNTYPED
        if wrong and not (rule.type == "info" and wrong == {"gauge"}):
            return None, f"{rule.metric} is a {'/'.join(sorted(wrong))}, expected a {rule.type}"
        bound = self._histogram(rule, found) if self.histogram else self._scalar(rule, found)
        return (rule.method, "") if bound else (None, "")

    def _assume(self, rule: Rule) -> bool:
        """An announced family without samples: 0 while nothing has finished, for the models of the page."""
        announced = {self.build.mapping.canonical(family) for family in self.build.shape.families}
        if not rule.assume_zero or rule.metric not in announced:
            return False
        for model in self.build.models or ("",):
            self.build.assume_zero(self.name, self.build.labels(model, rule.labels))
        return True

    def _scalar(self, rule: Rule, found: dict[str, list[Found]]) -> bool:
        groups = self._grouped(rule, (rule.metric, *rule.plus), found)
        minus = self._grouped(rule, rule.minus, found)
        if rule.value_label is not None:
            groups = {labels: members for labels, members in groups.items() if _told(rule, members)}
        self._take(rule, groups)
        for labels, members in groups.items():
            if rule.value_label is not None:
                self.build.constant(self.name, labels, sum(_told(rule, members)) * rule.factor)
            else:
                self.build.scalar(
                    self.name,
                    labels,
                    [slot for slot, _ in members],
                    factor=rule.factor,
                    weights=self._weights(rule, members),
                    valid=rule.valid,
                    minus=[slot for slot, _ in minus.get(labels, ())],
                )
        return bool(groups)

    def _grouped(
        self, rule: Rule, metrics: Iterable[str], found: dict[str, list[Found]]
    ) -> dict[Labels, list[Found]]:
        """The samples that the rule reads of some metrics, by the labels of what they become."""
        groups: dict[Labels, list[Found]] = {}
        for metric in metrics:
            # `x_total` and `x` are two spellings of one counter: the first one on the page counts alone.
            spelt = next((name for name in spellings(metric, rule.type) if found.get(name)), metric)
            for slot, sample in found.get(spelt, ()):
                if self._matches(rule, sample):
                    groups.setdefault(self._labels(rule, sample), []).append((slot, sample))
        return groups

    def _weights(self, rule: Rule, members: list[Found]) -> list[float]:
        """Capacity of each rank by an info metric; empty when one of them doesn't tell."""
        if rule.weight is None or len(members) < 2:
            return []
        rank_labels = self.build.mapping.rank_labels
        capacity = {
            tuple(sample.label(label) for label in rank_labels): _label_number(sample, rule.weight.label)
            for _, sample in self.build.by_name.get(rule.weight.metric, ())
        }
        weights = [capacity.get(tuple(s.label(label) for label in rank_labels)) for _, s in members]
        known = [weight for weight in weights if weight]
        return known if len(known) == len(members) else []

    def _histogram(self, rule: Rule, found: dict[str, list[Found]]) -> bool:
        groups: dict[Labels, dict[Labels, _Member]] = {}
        for name, part in self._parts(rule):
            for slot, sample in found.get(name, ()):
                if not self._matches(rule, sample):
                    continue
                own = tuple(pair for pair in sample.labels if pair[0] != "le")
                member = groups.setdefault(self._labels(rule, sample), {}).setdefault(own, _Member())
                if part == "bucket":
                    bound = _number(sample.label("le"))
                    if bound is not None:
                        member.buckets.setdefault(bound, [slot])
                elif part == "sum":
                    member.sum.append(slot)
                elif part == "count":
                    member.count.append(slot)
                else:
                    member.minus.append(slot)
        self._take(rule, groups)
        bound_any = False
        for labels, members in groups.items():
            bound_any |= self._merge(rule, labels, list(members.values()))
        return bound_any

    @staticmethod
    def _parts(rule: Rule) -> list[tuple[str, str]]:
        if rule.count is not None:
            parts = [(metric, "sum") for metric in (rule.metric, *rule.plus)] + [(rule.count, "count")]
            return parts + ([(rule.count_minus, "minus")] if rule.count_minus else [])
        if rule.type == "summary":
            return [(f"{rule.metric}_count", "count")] + [
                (f"{metric}_sum", "sum") for metric in (rule.metric, *rule.plus)
            ]
        return [(f"{rule.metric}_{part}", part) for part in ("bucket", "sum", "count")]

    def _merge(self, rule: Rule, labels: Labels, members: list[_Member]) -> bool:
        """Cumulative counts add up at the bounds that all members have; the count is the +Inf bucket."""
        for member in members:
            if inf not in member.buckets and member.count:
                member.buckets[inf] = member.count
        if rule.count is not None:
            members = [member for member in members if member.sum and member.count]
        if not members:
            return False
        common = set.intersection(*(set(member.buckets) for member in members))
        if inf not in common:
            return False
        buckets = {bound: [slot for one in members for slot in one.buckets[bound]] for bound in common}
        sums = [slot for one in members for slot in one.sum] if all(one.sum for one in members) else []
        minus = [slot for one in members for slot in one.minus]
        self.build.histogram(self.name, labels, buckets, sums, rule.factor, minus)
        return True

    def _take(self, rule: Rule, groups: dict[Labels, Any]) -> None:
        """Leave out what an alias in front has bound: aliases compete for each model, and never add up."""
        models = {labels: dict(labels).get("model_name", "") for labels in groups}
        for labels, model in models.items():
            if model in self.taken:
                del groups[labels]
        self.taken.update(models.values())

    @staticmethod
    def _matches(rule: Rule, sample: Sample) -> bool:
        return all(sample.label(key) in values for key, values in rule.where.items()) and not any(
            sample.label(key) in values for key, values in rule.where_not.items()
        )

    def _labels(self, rule: Rule, sample: Sample) -> Labels:
        own: dict[str, str] = {}
        for ours, native in self.build.mapping.extra_labels.items():
            if value := sample.label(native):
                own[ours] = value
        if self.per_rank:
            rank = "/".join(filter(None, map(sample.label, self.build.mapping.rank_labels)))
            own |= {"rank": rank} if rank else {}
        own |= rule.labels
        for ours, origin in rule.labels_from.items():
            own[ours] = _translated(origin, sample)
        return self.build.labels(self.build.model_of(sample), own)


def _translated(origin: LabelFrom, sample: Sample) -> str:
    native = sample.label(origin.label)
    return origin.values.get(native, native if origin.other is None else origin.other)


def _number(text: str) -> float | None:
    try:
        value = number(text.encode())
    except ValueError:
        return None
    return value if value == value else None


def _told(rule: Rule, members: list[Found]) -> list[float]:
    """The numbers that the labels of an info metric hold; empty when one of its series doesn't tell."""
    values = [_label_number(sample, rule.value_label, rule.times_label) for _, sample in members]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def _label_number(sample: Sample, label: str | None, times: str | None = None) -> float | None:
    value = _number(sample.label(label or ""))
    if value is None or times is None:
        return value
    other = _number(sample.label(times))
    return None if other is None else value * other
