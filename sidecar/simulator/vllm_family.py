"""What a family of vLLM's page is, and how each kind is read from the telemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from sidecar.simulator.page import one_two_five
from sidecar.simulator.telemetry import Histogram, Telemetry

Version = tuple[int, int, int]
Scalars = Iterable[tuple[dict[str, str], float]]

V1: Version = (0, 8, 0)  # the engine that replaced V0; from here on the page is another
NEVER: Version = (999, 0, 0)

BETWEEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
REQUEST = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
LONGER: Version = (0, 8, 5)  # the histograms got their upper bounds


def version_of(text: str) -> Version:
    """`0.11` or `0.9.2` as a tuple; a suffix such as `rc1` or `+cpu` is dropped. ValueError for anything
    else."""
    numbers = text.split("+")[0].split(".")[:3]
    parts = [int("".join(c for c in number if c.isdigit()) or "x") for number in numbers]
    return (*parts, 0, 0, 0)[:3]  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class View:
    """What a family may look at: one rank, and how the page is asked for."""

    rank: Telemetry
    version: Version
    longest: int  # max_model_len
    rust: bool = False
    rates: tuple[float, float] = (0.0, 0.0)  # prompt and generated tokens a second of late


@dataclass(frozen=True, slots=True)
class Family:
    """One family, in the versions from `since` up to but not including `until`. A counter's `name` is without
    `_total`. A gauge with `late` has no sample in multi-process mode before the engine's first step."""

    name: str
    kind: str
    text: str
    scalars: Callable[[View], Scalars] | None = None
    histogram: Callable[[Telemetry], Histogram] | None = None
    bounds: Callable[[View], tuple[float, ...]] | None = None
    since: Version = (0, 0, 0)
    until: Version = NEVER
    late: bool = True
    rust: bool = True
    older_texts: tuple[tuple[Version, str], ...] = field(default=())  # (until, text)

    def exists_in(self, version: Version) -> bool:
        return self.since <= version < self.until

    def help_in(self, version: Version) -> str:
        return next((text for until, text in self.older_texts if version < until), self.text)


class More(TypedDict, total=False):
    """The fields of a family that have a default."""

    since: Version
    until: Version
    late: bool
    rust: bool
    older_texts: tuple[tuple[Version, str], ...]


Read = Callable[[Telemetry], Histogram]


def gauge(name: str, text: str, value: Callable[[Telemetry], float], **more: Unpack[More]) -> Family:
    return Family(name, "gauge", text, lambda view: [({}, value(view.rank))], **more)


def counter(name: str, text: str, value: Callable[[Telemetry], float], **more: Unpack[More]) -> Family:
    return Family(name, "counter", text, lambda view: [({}, value(view.rank))], **more)


def counts(name: str, text: str, read: Read, bounds: tuple[float, ...], **more: Unpack[More]) -> Family:
    return Family(name, "histogram", text, None, read, lambda *_: bounds, **more)


def _length_bounds(view: View) -> tuple[float, ...]:
    """The Rust front end doesn't know the model's length: it goes to 131,072 and ends with that."""
    return (*one_two_five(131_072), 131_072.0) if view.rust else one_two_five(view.longest)


def tokens(name: str, text: str, read: Read, **more: Unpack[More]) -> Family:
    return Family(name, "histogram", text, None, read, _length_bounds, **more)


def seconds(
    name: str,
    text: str,
    read: Read,
    short: tuple[float, ...],
    tail: tuple[float, ...],
    **more: Unpack[More],
) -> Family:
    """`tail` are the bounds that came with LONGER."""

    def bounds(view: View) -> tuple[float, ...]:
        return short if view.version < LONGER else short + tail

    return Family(name, "histogram", text, None, read, bounds, **more)


def request_seconds(name: str, text: str, read: Read, **more: Unpack[More]) -> Family:
    return seconds(name, text, read, REQUEST, (120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0), **more)


def between_tokens(name: str, text: str, read: Read, **more: Unpack[More]) -> Family:
    return seconds(name, text, read, BETWEEN, (5.0, 7.5, 10.0, 20.0, 40.0, 80.0), **more)


def queried(view: View) -> Scalars:
    """Look-ups of preempted requests counted too until 0.11.0; before 0.9 the unit was blocks."""
    again = view.rank.prefix_requeried if view.version < (0, 11, 1) else 0
    unit = view.rank.block_size if view.version < (0, 9, 0) else 1
    return [({}, (view.rank.prefix_queried + again) // unit)]


def hit(view: View) -> Scalars:
    again = view.rank.prefix_rehit if view.version < (0, 11, 1) else 0
    unit = view.rank.block_size if view.version < (0, 9, 0) else 1
    return [({}, (view.rank.prefix_hit + again) // unit)]


def hit_rate(rank: Telemetry) -> float:
    queried = rank.prefix_queried + rank.prefix_requeried
    return (rank.prefix_hit + rank.prefix_rehit) / queried if queried else -1.0


def by_source(view: View) -> Scalars:
    rank = view.rank
    return [
        ({"source": "local_compute"}, rank.prompt_tokens - rank.cached_tokens),
        ({"source": "local_cache_hit"}, rank.cached_tokens),
        ({"source": "external_kv_transfer"}, 0),
    ]


def by_tier(view: View) -> Scalars:
    """Counted at admission, unlike prompt_tokens_cached."""
    elsewhere = ("host", "p2p", "disk", "external_unspecified")
    return [({"source": "device"}, view.rank.prefix_hit), *(({"source": tier}, 0) for tier in elsewhere)]


def by_reason(view: View) -> Scalars:
    """A client that leaves is counted nowhere: `abort` stays 0."""
    rank = view.rank
    reasons: list[tuple[str, int, Version]] = [
        ("stop", rank.stopped, (0, 0, 0)),
        ("length", rank.length_reached, (0, 0, 0)),
        ("abort", 0, V1),
        ("error", rank.errors, (0, 13, 0)),
        ("repetition", 0, (0, 17, 0)),
    ]
    return [({"finished_reason": name}, count) for name, count, since in reasons if view.version >= since]


def sleep_state(view: View) -> Scalars:
    states = {"awake": 1, "weights_offloaded": 0, "discard_all": 0}
    return [({"sleep_state": state}, value) for state, value in states.items()]


def waiting_by_reason(view: View) -> Scalars:
    return [({"reason": "capacity"}, view.rank.waiting), ({"reason": "deferred"}, 0)]
