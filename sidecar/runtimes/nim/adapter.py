"""NIM: its own page, or the page of the engine that it wraps; its endpoints are its own in any case."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from sidecar.exposition import Reading, Shape
from sidecar.runtimes.adapter import Adapter, Answer, Counts, Endpoint, Model, builtin_mapping
from sidecar.runtimes.binding import Binding, total
from sidecar.runtimes.build import DEFAULT_MAX_SERIES, Build
from sidecar.runtimes.mapping import Mapping
from sidecar.runtimes.triton.adapter import Triton
from sidecar.runtimes.vllm.adapter import Vllm

_PAGES = (
    Endpoint("metrics", "/v1/metrics", page=True),
    Endpoint("metrics_1_0", "/metrics", page=True),
    Endpoint("triton", "/metrics", page=True, port=8002),
)
_CHEAP = (
    Endpoint("health", "/v1/health/live", api=True, every=5.0),
    Endpoint("ready", "/v1/health/ready", api=True, every=5.0),
    Endpoint("release", "/v1/version", api=True, every=60.0),
    Endpoint("metadata", "/v1/metadata", api=True, every=60.0),
    Endpoint("models", "/v1/models", api=True, every=60.0),
)
#: Reads between two looks at the pages that weren't there.
_LOOK_AGAIN = 30
_CANCELLED = frozenset({"cancelled", "canceled", "abort", "aborted"})


class Nim(Adapter):
    folder = "nim"
    endpoints: tuple[Endpoint, ...] = (*_PAGES, *_CHEAP)
    progress = (
        "generation_tokens_total",
        "prompt_tokens_total",
        "request_finish_total",
        "sglang:generation_tokens_total",
    )

    def __init__(self, mapping: Mapping | None = None) -> None:
        super().__init__(mapping)
        self._inner: dict[str, Adapter] = {
            prefix: make(beside(make.folder, self.mapping))
            for prefix, make in (("vllm:", Vllm), ("nv_", Triton))
        }
        self._layer: Adapter | None = None
        self._looked_at: Shape | None = None
        self._reads = 0

    def wanted(self, sample: str) -> bool:
        return super().wanted(sample) or any(inner.wanted(sample) for inner in self._inner.values())

    def read(self, pages: dict[str, Answer], now: float = nan) -> Reading:
        self._narrow(pages)
        return super().read(pages, now)

    def _narrow(self, pages: dict[str, Answer]) -> None:
        """Ask for the pages that are there; the others now and then."""
        self._reads += 1
        here = [page for page in _PAGES if page.name in pages]
        if not here or self._reads % _LOOK_AGAIN == 0:
            here = list(_PAGES)
        self.endpoints = (*here, *_CHEAP)

    def view(self, reading: Reading) -> Reading:
        if reading.shape is not self._looked_at:
            self._looked_at = reading.shape
            names = [sample.name for sample in reading.shape.samples]
            found = (
                inner
                for prefix, inner in self._inner.items()
                if any(inner.mapping.canonical(name).startswith(prefix) for name in names)
            )
            self._layer = next(found, None)
        if self._layer is None:
            return reading
        self._layer.now = self.now
        return self._layer.view(reading)

    @property
    def rank_labels(self) -> Sequence[str]:
        return super().rank_labels if self._layer is None else self._layer.rank_labels

    @property
    def counts(self) -> Counts | None:
        return None if self._layer is None else self._layer.counts

    def observe(self, reading: Reading) -> None:
        super().observe(reading)
        engine = ""
        if self._layer is not None:
            self._layer.observe(reading)
            engine = self._layer.name
        elif any(sample.name.startswith("sglang:") for sample in reading.shape.samples):
            engine = "sglang"
        if engine != self.facts.engine:
            self.known(engine=engine)

    def bind(
        self,
        shape: Shape,
        base: dict[str, str],
        *,
        per_rank: bool = False,
        max_series: int = DEFAULT_MAX_SERIES,
        slots: int | None = None,
    ) -> tuple[Binding, int]:
        if self._layer is not None:
            return self._layer.bind(shape, base, per_rank=per_rank, max_series=max_series, slots=slots)
        return super().bind(shape, base, per_rank=per_rank, max_series=max_series, slots=slots)

    def restarted(self) -> None:
        super().restarted()
        for inner in self._inner.values():
            inner.restarted()
        self.endpoints = (*_PAGES, *_CHEAP)

    def learn(self, name: str, answer: Answer) -> None:
        if name == "health":
            self.known(live=answer.ok)
            if not answer.ok:
                self.endpoints = (*_PAGES, *_CHEAP)
        elif name == "ready":
            self.known(ready=answer.ok)
        elif answer.ok and isinstance(body := answer.json(), dict):
            self._learn(name, body)

    def _learn(self, name: str, body: dict[str, object]) -> None:
        if name in ("release", "version"):
            version = body.get("release") or body.get("version")
            if isinstance(version, str) and version != self.facts.version:
                self.known(version=version)
        elif name == "metadata":
            profile, version = body.get("selectedModelProfileId"), body.get("version")
            if isinstance(profile, str):
                self.known(profile=profile)
            if isinstance(version, str) and not self.facts.version:
                self.known(version=version)
        elif name == "models" and isinstance(rows := body.get("data"), list):
            self.known(
                models=tuple(
                    Model(
                        name=str(row.get("id", "")),
                        root=str(row.get("root") or ""),
                        max_context_tokens=str(row.get("max_model_len") or ""),
                    )
                    for row in rows[:64]
                    if isinstance(row, dict) and not row.get("parent")
                )
            )

    def extend(self, build: Build) -> None:
        for model in build.models:
            self._errors(build, model)
        if build.says("requests_total:error") is None:
            build.note(build.missing("requests_total:error"))

    def _errors(self, build: Build, model: str) -> None:
        """Failures are all ends but stop and length: a client that goes away is among them."""
        failed = build.slots("request_failure_total", model_name=model)
        gone = [
            slot
            for slot in build.slots("request_finish_total", model_name=model)
            if build.shape.samples[slot].label("finished_reason") in _CANCELLED
        ]
        if not failed:
            return

        def errors(out: list[float], raw: Sequence[float]) -> float:
            return self.risen((model, "error"), total(raw, failed) - total(raw, gone))

        build.computed("requests_total", build.labels(model, {"outcome": "error"}), errors)
        build.took("requests_total:error")


def beside(folder: str, door: Mapping) -> Mapping:
    """An engine's mapping that also knows what its wrapper puts on the page."""
    own = builtin_mapping(folder)
    return own.changed(ignored=[*own.ignored, *door.ignored], deferred={**door.deferred, **own.deferred})
