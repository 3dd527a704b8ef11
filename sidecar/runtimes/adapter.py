"""What a runtime is to the rest of the line: endpoints to ask, answers understood, pages bound."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from sidecar.exposition import PageReader, Reading, Sample, Shape
from sidecar.runtimes.bind import bind_rules
from sidecar.runtimes.binding import Binding
from sidecar.runtimes.build import DEFAULT_MAX_SERIES, Build
from sidecar.runtimes.mapping import Mapping, load_mapping


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One URL of a target: `page` ones are read on each tick, the others every `every` seconds."""

    name: str
    path: str
    page: bool = False
    api: bool = False  # on the API's address where that differs from the metrics'
    every: float = 30.0


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
        except ValueError:
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


class Adapter:
    """One target's runtime. Subclasses say what data can't; each target has an instance of its own."""

    folder: ClassVar[str]
    endpoints: ClassVar[tuple[Endpoint, ...]] = (Endpoint("metrics", "/metrics", page=True),)
    #: Canonical sample names that grow whenever work is done.
    progress: ClassVar[tuple[str, ...]] = ()

    def __init__(self, mapping: Mapping | None = None) -> None:
        self.mapping = mapping or builtin_mapping(self.folder)
        self.facts = Facts()
        self._readers: dict[str, PageReader] = {}
        self._merged: tuple[tuple[Shape, ...], Shape] = ((), Shape((), {}, ()))

    @property
    def name(self) -> str:
        return self.mapping.runtime

    def wanted(self, sample: str) -> bool:
        return self.mapping.canonical(sample) in self.mapping.names

    def read(self, pages: dict[str, Answer]) -> Reading:
        """Raw samples of all page endpoints as one reading. Raises PageError."""
        readings = [self.decode(name, answer) for name, answer in pages.items()]
        if len(readings) == 1:
            return readings[0]
        shapes = tuple(reading.shape for reading in readings)
        if shapes != self._merged[0]:
            self._merged = (shapes, _merge(shapes))
        return Reading(self._merged[1], [value for reading in readings for value in reading.values])

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
    ) -> tuple[Binding, int]:
        """The binding of a shape, and how many rows the cap left out."""
        build = Build(self.mapping, shape, base, max_series=max_series)
        bind_rules(build, version=self.facts.version, per_rank=per_rank)
        self.extend(build)
        return build.finish(self.progress), build.dropped

    def extend(self, build: Build) -> None:
        """Add what the mapping can't say."""

    def learn(self, name: str, answer: Answer) -> None:
        """Understand the answer of an endpoint that isn't a page."""

    def observe(self, reading: Reading) -> None:
        """Facts that the page itself holds, once per shape and value: start time, versions."""
        for sample, value in zip(reading.shape.samples, reading.values, strict=True):
            if sample.name == "process_start_time_seconds":
                self.known(start_time=value)

    def restarted(self) -> None:
        """The runtime started anew: forget what was learnt of the old one."""
        self.facts = Facts()

    def known(self, **facts: Any) -> None:
        self.facts = replace(self.facts, **facts)


def _merge(shapes: tuple[Shape, ...]) -> Shape:
    samples: list[Sample] = []
    families: dict[str, str] = {}
    for shape in shapes:
        samples.extend(shape.samples)
        families |= shape.families
    return Shape(tuple(samples), families, tuple(bad for shape in shapes for bad in shape.bad_lines))


_MAPPINGS: dict[str, Mapping] = {}


def builtin_mapping(folder: str) -> Mapping:
    """The mapping that ships with the sidecar, loaded once a process."""
    if folder not in _MAPPINGS:
        _MAPPINGS[folder] = load_mapping(Path(__file__).parent / folder / "mapping.yaml")
    return _MAPPINGS[folder]
