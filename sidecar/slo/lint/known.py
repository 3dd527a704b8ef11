"""Which metrics there are, of what type, with which labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from prometheus_client.parser import text_string_to_metric_families

from sidecar.schema import PREFIX, SIGNALS
from sidecar.schema.model import Kind


class Type(StrEnum):
    """How a series may be used."""

    GAUGE = "gauge"
    COUNTER = "counter"  # a part of a histogram too
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; `labels` is None where any may be there."""

    type: Type
    labels: frozenset[str] | None


#: On every series that the sidecar shows, or on those of some targets.
COMMON = frozenset({"target", "runtime", "model_name", "model_version", "adapter", "rank"})

#: Labels that scraping adds, as Prometheus, the operator and the usual relabelling do.
ADDED = frozenset(
    {
        "job",
        "instance",
        "namespace",
        "pod",
        "container",
        "node",
        "service",
        "endpoint",
        "cluster",
        "region",
        "zone",
        "host",
        "hostname",
        "replica",
        "prometheus",
        "prometheus_replica",
        "app",
        "deployment",
        "environment",
        "env",
        "team",
        "__name__",
    }
)

#: What Prometheus itself makes.
PROMETHEUS = ("up", "ALERTS", "ALERTS_FOR_STATE", "scrape_duration_seconds", "scrape_samples_scraped")

_PARTS = ("_bucket", "_sum", "_count")


@dataclass(frozen=True, slots=True)
class Known:
    """Metrics by name."""

    metrics: Mapping[str, Metric]

    def find(self, name: str) -> Metric | None:
        return self.metrics.get(name)

    def nearest(self, name: str) -> str:
        near = get_close_matches(name, self.metrics, 1, 0.75)
        return near[0] if near else ""


def known_metrics(target: Mapping[str, Iterable[str]], recorded: Iterable[str] = ()) -> Known:
    """The schema, a target's own metrics (name → labels), and series that rules record."""
    metrics = {name: Metric(Type.UNKNOWN, None) for name in (*PROMETHEUS, *recorded)}
    for name, labels in target.items():
        counts = name.endswith(("_total", *_PARTS))
        metrics[name] = Metric(Type.COUNTER if counts else Type.UNKNOWN, frozenset(labels))
    for signal in SIGNALS.values():
        labels = COMMON | frozenset(signal.labels)
        if signal.kind is Kind.HISTOGRAM:
            for part in _PARTS:
                own = labels | {"le"} if part == "_bucket" else labels
                metrics[signal.family + part] = Metric(Type.COUNTER, own)
        else:
            kind = Type.COUNTER if signal.kind is Kind.COUNTER else Type.GAUGE
            metrics[signal.family] = Metric(kind, labels)
    return Known(metrics)


def metrics_of_page(text: str) -> dict[str, frozenset[str]]:
    """Metrics of a target's own page, name → labels, for `known_metrics`. ValueError when it is no page."""
    labels: dict[str, frozenset[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels[sample.name] = labels.get(sample.name, frozenset()) | sample.labels.keys()
    return labels


def ours(name: str) -> bool:
    """Whether a metric claims to be one of the schema's."""
    return name.startswith(PREFIX)
