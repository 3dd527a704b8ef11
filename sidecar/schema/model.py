"""What a signal of the schema is: its name, type, unit, labels, aggregation and meaning, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "inference_"


class Kind(StrEnum):
    """Type of a signal, as in the exposition format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Agg(StrEnum):
    """How several native series (data-parallel ranks, GPUs of one model, …) become one value."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    MEAN = "mean"  # weighted by capacity where the ranks tell theirs, else plain
    NONE = "none"  # there is one series by construction


class Method(StrEnum):
    """How a value was obtained."""

    NATIVE = "native"
    DERIVED = "derived"
    ESTIMATED = "estimated"
    ASSUMED = "assumed"
    PROBE = "probe"


class Status(StrEnum):
    """Whether a signal is there, and why not."""

    OK = "ok"
    NOT_EXPOSED = "not_exposed"
    NEEDS_FLAG = "needs_flag"
    TYPE_MISMATCH = "type_mismatch"
    CONFLICT = "conflict"
    NOT_OBSERVABLE = "not_observable"
    INVALID = "invalid"
    DROPPED = "dropped"


#: What the label `status` of `signal_info` says.
STATUSES: dict[Status, str] = {
    Status.OK: "it is there",
    Status.NOT_EXPOSED: "the runtime's page doesn't have it",
    Status.NEEDS_FLAG: "the runtime has it behind a flag, which `doctor` names",
    Status.TYPE_MISMATCH: "the page has it as another type than expected: withheld",
    Status.CONFLICT: "two metrics claim it, or several replicas answer in turn under the target's address:"
    " withheld",
    Status.NOT_OBSERVABLE: "this runtime can't tell it",
    Status.INVALID: "numbers of it on the page can't be (NaN, infinite, negative, out of range, buckets that"
    " aren't cumulative): its series with such a number are absent until it makes sense again",
    Status.DROPPED: "series of it are left out: the target has more than `max_series`",
}


class Scope(StrEnum):
    """Where the clock or counter of a measurement sits."""

    ENGINE = "engine"
    SERVER = "server"
    FRONTEND = "frontend"
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal. `name` is without the prefix; `labels` come beside `target`, `runtime`, `model_name`."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    agg: Agg = Agg.NONE

    @property
    def family(self) -> str:
        """The name on the page, e.g. `inference_requests_running`."""
        return PREFIX + self.name


def gauge(
    name: str, help: str, *, unit: str = "", labels: tuple[str, ...] = (), agg: Agg = Agg.NONE
) -> Signal:
    return Signal(name, Kind.GAUGE, help, unit, labels, agg)


def counter(
    name: str, help: str, *, unit: str = "", labels: tuple[str, ...] = (), agg: Agg = Agg.NONE
) -> Signal:
    return Signal(name, Kind.COUNTER, help, unit, labels, agg)


def histogram(
    name: str, help: str, *, unit: str = "", labels: tuple[str, ...] = (), agg: Agg = Agg.NONE
) -> Signal:
    return Signal(name, Kind.HISTOGRAM, help, unit, labels, agg)
