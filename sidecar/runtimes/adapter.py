"""What a runtime is to the rest of the line: endpoints to ask, answers understood, pages bound."""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from pathlib import Path
from typing import Any, ClassVar

from sidecar.exposition import PageReader, Reading, Sample, Shape
from sidecar.runtimes.bind import bind_rules
from sidecar.runtimes.binding import Binding
from sidecar.runtimes.build import DEFAULT_MAX_SERIES, Build
from sidecar.runtimes.mapping import Mapping, load_mapping
from sidecar.runtimes.relabel import NOTHING
from sidecar.schema import Method, Scope, Status
from sidecar.snapshot import Labels, Provenance

_START_TIME = "process_start_time_seconds"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One URL of a target: `page` ones are read on each tick, the others every `every` seconds."""

    name: str
    path: str
    page: bool = False
    api: bool = False  # on the API's address where that differs from the metrics'
    every: float = 30.0
    method: str = "GET"
    port: int | None = None  # another port of the same host


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint said: an HTTP status and body, or the class of the failure."""

    status: int = 0
    body: bytes = b""
    whole: bool = True
    error: str = ""  # one of schema.SCRAPE_RESULTS
    detail: str = ""
    server: str = ""

    @property
    def ok(self) -> bool:
        return self.status == 200 and not self.error

    def json(self) -> Any:
        """The body as JSON, None when it isn't."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True, slots=True)
class Model:
    """What `model_info` says of one served model; an unknown part is empty."""

    name: str
    root: str = ""
    max_context_tokens: str = ""
    quantization: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cheap endpoints and the page say of a runtime beside its signals. None: not known."""

    live: bool | None = None
    ready: bool | None = None
    version: str = ""
    engine: str = ""
    engine_version: str = ""
    profile: str = ""
    models: tuple[Model, ...] = ()
    start_time: float | None = None
    adapters: tuple[str, ...] = ()  # names of LoRA adapters


@dataclass(frozen=True, slots=True)
class Counts:
    """What a page counted, before anything was made of it, and whether any count fell."""

    names: tuple[Hashable, ...]
    values: tuple[float, ...]
    fell: bool


class Adapter:
    """One target's runtime. Subclasses say what data can't; each target has an instance of its own."""

    folder: ClassVar[str]
    #: What to ask; an adapter may ask for more once it has learnt what there is.
    endpoints: tuple[Endpoint, ...] = (Endpoint("metrics", "/metrics", page=True),)
    #: Where the API listens when the metrics have a port of their own: metrics port → API port.
    api_ports: ClassVar[dict[int, int]] = {}
    #: Canonical sample names that grow whenever work is done.
    progress: ClassVar[tuple[str, ...]] = ()
    #: Whether the start time is as the page tells it at this moment, so that it tells processes apart.
    start_is_told: ClassVar[bool] = True

    def __init__(self, mapping: Mapping | None = None) -> None:
        self.mapping = mapping or builtin_mapping(self.folder)
        self.facts = Facts()
        self.draining = False  # whether to read what the runtime gives to one reader only
        self.now = nan
        self.page = Shape((), {}, ())  # the last page as it came, before `view`
        # Bounds of estimated counters only ever rise; they outlive a change of the page's series.
        self._highest: dict[tuple[str, str], float] = {}
        self._seen: Shape | None = None
        self._start_slot: int | None = None
        self._readers: dict[str, PageReader] = {}
        self._merged: tuple[tuple[Shape, ...], Shape] = ((), Shape((), {}, ()))

    @property
    def name(self) -> str:
        return self.mapping.runtime

    @property
    def rank_labels(self) -> Sequence[str]:
        """Labels that tell the ranks of the present page apart."""
        return self.mapping.rank_labels

    @property
    def completions(self) -> str:
        """Path of a completion that streams; `{model}` in it stands for the model's name."""
        return self.mapping.completions or "/v1/completions"

    @property
    def generating(self) -> tuple[str, ...]:
        """Models that can be asked for a completion, by the names that the API knows; empty: not known."""
        return tuple(model.name for model in self.facts.models if model.name)

    def names(self, model: str) -> dict[str, str]:
        """What a model calls the parts of a request that it has other names for: the usual one → its own."""
        return {}

    @property
    def counts(self) -> Counts | None:
        """The counts of the last page before `view` carried them on; None where it doesn't."""
        return None

    def wanted(self, sample: str) -> bool:
        return self.mapping.canonical(sample) in self.mapping.names

    def read(self, pages: dict[str, Answer], now: float = nan) -> Reading:
        """Raw samples of all page endpoints as one reading, as the mapping shall see them. Raises PageError.

        `now` is the Unix time of the answers: what freezes is known by its age.
        """
        self.now = now
        reading = self._joined([self.decode(name, answer) for name, answer in pages.items()])
        self.page = reading.shape
        return self.view(reading)

    def view(self, reading: Reading) -> Reading:
        """The reading with other names or labels (see `Relabelling`), or values; the same slots."""
        return reading

    def _joined(self, readings: list[Reading]) -> Reading:
        if len(readings) == 1:
            return readings[0]
        shapes = tuple(reading.shape for reading in readings)
        if shapes != self._merged[0]:
            self._merged = (shapes, _merge(shapes))
        values = [value for reading in readings for value in reading.values]
        return Reading(self._merged[1], values, any(reading.below_zero for reading in readings))

    def decode(self, name: str, answer: Answer) -> Reading:
        """One page's raw samples; a page that isn't exposition text is decoded by the subclass."""
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = PageReader(self.wanted)
        return reader.read(answer.body, whole=answer.whole)

    def bind(
        self,
        shape: Shape,
        base: dict[str, str],
        *,
        per_rank: bool = False,
        max_series: int = DEFAULT_MAX_SERIES,
        slots: int | None = None,
    ) -> tuple[Binding, int]:
        """The binding of a shape, and how many rows the cap left out.

        `slots` is what the config says of the requests that may run at once, where the runtime doesn't tell.
        """
        build = Build(self.mapping, shape, base, max_series=max_series)
        bind_rules(build, version=self.facts.version, per_rank=per_rank)
        self.extend(build)
        known = build.says("request_slots")
        if slots is not None and (known is None or known.status is not Status.OK):
            for model in build.models:
                build.constant("request_slots", build.labels(model, {}), float(slots))
            build.note(
                Provenance("request_slots", Status.OK, Method.ASSUMED, "config: capacity.slots", Scope.SERVER)
            )
        return build.finish(self.progress), build.dropped

    def extend(self, build: Build) -> None:
        """Add what the mapping can't say."""

    def learn(self, name: str, answer: Answer) -> None:
        """Understand the answer of an endpoint that isn't a page."""

    def findings(self) -> tuple[str, ...]:
        """What an operator should know of this runtime beside the signals: a sentence each, with the mend."""
        return ()

    def observe(self, reading: Reading) -> None:
        """Facts that the page itself holds. Called on each tick: look series up once per shape."""
        if reading.shape is not self._seen:
            self._seen = reading.shape
            names = [sample.name for sample in reading.shape.samples]
            self._start_slot = names.index(_START_TIME) if _START_TIME in names else None
        if self._start_slot is not None:
            start = reading.values[self._start_slot]
            if start != self.facts.start_time and 0 < start < inf:
                self.known(start_time=start)

    def restarted(self) -> None:
        """The runtime started anew: forget what was learnt of the old one."""
        self.facts = Facts()
        self._highest.clear()

    def risen(self, key: tuple[str, str], bound: float) -> float:
        """The highest value that an estimate has had, 0 at least; NaN and infinity lose against a number."""
        self._highest[key] = value = max(self._highest.get(key, 0.0), bound if bound < inf else 0.0)
        return value

    def known(self, **facts: Any) -> None:
        self.facts = replace(self.facts, **facts)


def _merge(shapes: tuple[Shape, ...]) -> Shape:
    """The series of several pages; one that stands on two of them is read from the first."""
    samples: list[Sample] = []
    families: dict[str, str] = {}
    seen: set[tuple[str, Labels]] = set()
    for shape in shapes:
        own = [(sample.name, sample.labels) for sample in shape.samples]
        samples += [
            NOTHING if key in seen else sample for key, sample in zip(own, shape.samples, strict=True)
        ]
        seen.update(own)
        families |= shape.families
    return Shape(tuple(samples), families, tuple(bad for shape in shapes for bad in shape.bad_lines))


_MAPPINGS: dict[str, Mapping] = {}


def builtin_mapping(folder: str) -> Mapping:
    """The mapping that ships with the sidecar, loaded once a process."""
    if folder not in _MAPPINGS:
        _MAPPINGS[folder] = load_mapping(Path(__file__).parent / folder / "mapping.yaml")
    return _MAPPINGS[folder]
