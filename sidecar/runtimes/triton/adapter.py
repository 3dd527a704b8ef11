"""What data can't say of Triton: what a model's numbers mean, by its config, and how its engine stands."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import ClassVar
from urllib.parse import quote

from sidecar.exposition import Reading, Sample, Shape
from sidecar.runtimes.adapter import Adapter, Answer, Endpoint, Model
from sidecar.runtimes.binding import Computed
from sidecar.runtimes.build import Build
from sidecar.runtimes.mapping import Mapping
from sidecar.runtimes.relabel import NOTHING, Relabelling, with_labels
from sidecar.runtimes.triton.frozen import LastIteration
from sidecar.runtimes.triton.models import Index, ModelConfig, read_config, read_index
from sidecar.runtimes.triton.reloads import Reloads

#: Models whose config is asked for.
MAX_CONFIGS = 512

_SUCCESS = "nv_inference_request_success"
_FAILURE = "nv_inference_request_failure"
_EXECUTIONS = "nv_inference_exec_count"
_PENDING = "nv_inference_pending_request_count"
_DURATION = "nv_inference_request_duration_us"
_COUNTS = frozenset({_SUCCESS, _FAILURE, _EXECUTIONS, "nv_inference_count"})
_REQUESTS = frozenset({_SUCCESS, _FAILURE, _DURATION, "nv_inference_request_summary_us"})
_FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"
_ENGINES = {"vllm:": "vllm", "nv_trt_llm_": "tensorrt_llm", "nv_llm_": "tensorrt_llm"}
_BACKENDS = {"vllm": "vllm", "tensorrtllm": "tensorrt_llm"}

_ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("metrics", "/metrics", page=True),
    Endpoint("health", "/v2/health/live", api=True, every=5.0),
    Endpoint("ready", "/v2/health/ready", api=True, every=5.0),
    Endpoint("version", "/v2", api=True, every=60.0),
    Endpoint("index", "/v2/repository/index", api=True, every=10.0, method="POST"),
)


class Triton(Adapter):
    folder = "triton"
    endpoints: tuple[Endpoint, ...] = _ENDPOINTS
    api_ports: ClassVar[dict[int, int]] = {8002: 8000}
    progress = (
        _SUCCESS,
        _EXECUTIONS,
        _FAILURE,
        "vllm:generation_tokens_total",
        "nv_trt_llm_general_metrics",
    )

    def __init__(self, mapping: Mapping | None = None) -> None:
        super().__init__(mapping)
        self._index: Index | None = None
        self._configs: dict[str, ModelConfig] = {}
        self._relabelling = Relabelling()
        self._reloads = Reloads()
        self._iterations: dict[tuple[str, str], LastIteration] = {}
        self._engines: dict[str, str] = {}  # of each model that shows one
        self._counters_off = False
        self._looked_at: Shape | None = None

    def restarted(self) -> None:
        super().restarted()
        self._index, self._configs = None, {}
        self._reloads.forget()
        self._iterations.clear()

    def learn(self, name: str, answer: Answer) -> None:
        if name in ("health", "ready"):
            self._learn_health(name, answer)
        elif name in ("version", "v2") and answer.ok:
            body = answer.json()
            if isinstance(body, dict) and isinstance(body.get("version"), str):
                self.known(version=body["version"])
        elif name == "index" and answer.ok:
            self._learn_index(read_index(answer.json()))
        elif name.startswith("config/") and answer.ok:
            config = read_config(answer.json())
            if config is not None:
                self._configs[config.name] = config

    def _learn_health(self, name: str, answer: Answer) -> None:
        if answer.error:
            self.known(live=False, ready=False)  # after SIGTERM the metrics port answers on its own
        elif answer.status not in (401, 403):  # a restricted API says nothing of the models
            self.known(**{"live" if name == "health" else name: answer.ok})

    def _learn_index(self, index: Index | None) -> None:
        if index is None or index == self._index:
            return
        self._index = index
        names = sorted(index.ready)[:MAX_CONFIGS]
        self._configs = {name: self._configs[name] for name in names if name in self._configs}
        self.known(models=tuple(Model(name) for name in names))
        self.endpoints = _ENDPOINTS + tuple(
            Endpoint(f"config/{name}", f"/v2/models/{quote(name, safe='')}/config", api=True, every=600.0)
            for name in names
        )

    def findings(self) -> tuple[str, ...]:
        found = [f"model {name} is {why}" for name, why in (self._index.others if self._index else ())]
        if self._counters_off:
            found.append(
                "the request counters stand still: --metrics-config counter_latencies=true starts them"
            )
        if self.facts.live is False:
            found.append(
                "the metrics port answers and the API port doesn't: the server drains, or api_url is wrong"
            )
        if self._index is None:
            found.append(
                "the API port (8000) wasn't asked: ensembles and decoupled models can't be told apart"
            )
        return tuple(found)

    # What a sample means.

    def view(self, reading: Reading) -> Reading:
        if reading.shape is not self._looked_at:
            self._look(reading.shape)
        reading = self._reloads.carry(reading)
        basis = (self._index and self._index.ready, tuple(sorted(self._configs.items())))
        return Reading(self._relabelling.shape(reading.shape, basis, self._relabel), reading.values)

    def _look(self, shape: Shape) -> None:
        self._looked_at = shape
        names = {sample.name for sample in shape.samples}
        # Without counter_latencies the counts stay on the page, at 0; the durations leave it.
        self._counters_off = _EXECUTIONS in names and _DURATION not in names
        self._engines = {
            sample.label("model"): engine
            for sample in shape.samples
            for prefix, engine in _ENGINES.items()
            if sample.name.startswith(prefix)
        }

    def _relabel(self, sample: Sample) -> Sample:
        model = sample.label("model")
        if not model:
            return sample
        if self._index is not None and model not in self._index.ready and sample.type == "gauge":
            return NOTHING
        if self._counters_off and sample.name in _COUNTS:
            return NOTHING
        config = self._configs.get(model)
        family = sample.family.removesuffix("_total")
        if config is not None and config.ensemble:
            return self._of_ensemble(sample, family, streams=self._streams(config))
        if self._is_step(model):
            if family in _REQUESTS and family != _SUCCESS:
                return NOTHING
            if family == _PENDING and self._is_step(model, streaming=True):
                return NOTHING  # one pending a streamed token, and none where it queues inside
            sample = with_labels(sample, counted="ensemble")
        if not family.startswith("nv_inference_"):
            return sample
        if model in self._engines or (config is not None and config.decoupled):
            if family == _FIRST_RESPONSE:
                return with_labels(sample, answers="many")
            return sample if family in (_SUCCESS, _FAILURE) else NOTHING
        if config is not None and family == _FIRST_RESPONSE:
            step = sample.label("counted") == "ensemble"
            return NOTHING if step else with_labels(sample, answers="one")
        return sample

    @staticmethod
    def _of_ensemble(sample: Sample, family: str, *, streams: bool) -> Sample:
        """Its version label is wrong (1 for all that it counts); queues and computes are its steps' own."""
        if family == _FIRST_RESPONSE:
            return with_labels(sample, version="", answers="many" if streams else "one")
        if family == _FAILURE:
            reason = sample.label("reason")
            counted_twice = reason in ("OTHER", "BACKEND", "")
            return with_labels(sample, version="", reason="ENSEMBLE" if counted_twice else reason)
        if family not in _REQUESTS or (streams and family not in (_SUCCESS, _FAILURE)):
            return NOTHING
        return with_labels(sample, version="")

    def _is_step(self, model: str, *, streaming: bool = False) -> bool:
        """Whether an ensemble counts this model's requests already; `streaming`: one that streams."""
        return any(
            config.ensemble and model in config.steps and (not streaming or self._streams(config))
            for config in self._configs.values()
        )

    def _streams(self, config: ModelConfig) -> bool:
        return config.decoupled or any(
            step in self._engines or ((known := self._configs.get(step)) is not None and known.decoupled)
            for step in config.steps
        )

    def observe(self, reading: Reading) -> None:
        engines = set(self._engines.values()) or {
            _BACKENDS.get(config.backend, config.backend)
            for config in self._configs.values()
            if not config.ensemble and config.backend
        }
        engine = engines.pop() if len(engines) == 1 else ""
        if engine != self.facts.engine:
            self.known(engine=engine)

    # What the engines tell by label.

    def extend(self, build: Build) -> None:
        for model, version in _served(build, "nv_trt_llm_request_metrics"):
            self._requests(build, model, version)
        for model, version in _served(build, "nv_trt_llm_kv_cache_block_metrics"):
            self._kv_cache(build, model, version)
        self._request_slots(build)

    def _fresh(self, build: Build, model: str, version: str) -> Computed:
        """1 while iterations happen, by their timestamp; always where there is none."""
        stamps = build.slots(
            "nv_trt_llm_general_metrics", model=model, version=version, general_type="timestamp"
        )
        if not stamps:
            return lambda out, raw: 1.0
        last = self._iterations.setdefault((model, version), LastIteration())
        return lambda out, raw: float(last.is_fresh(raw[stamps[0]], self.now))

    def _requests(self, build: Build, model: str, version: str) -> None:
        fresh = self._fresh(build, model, version)
        by_type = {
            kind: build.slots("nv_trt_llm_request_metrics", model=model, version=version, request_type=kind)
            for kind in ("active", "scheduled", "waiting")
        }
        if not (by_type["scheduled"] or (by_type["active"] and by_type["waiting"])):
            return

        def total(kind: str, raw: Sequence[float]) -> float:
            return sum(raw[slot] for slot in by_type[kind])

        def running(out: list[float], raw: Sequence[float]) -> float:
            if not fresh(out, raw):
                return 0.0
            if by_type["scheduled"]:
                return total("scheduled", raw)
            return max(0.0, total("active", raw) - total("waiting", raw))

        def waiting(out: list[float], raw: Sequence[float]) -> float:
            if not fresh(out, raw):
                return 0.0
            if by_type["waiting"]:
                return total("waiting", raw)
            return max(0.0, total("active", raw) - total("scheduled", raw))

        labels = build.labels(model, {"model_version": version})
        build.computed("requests_running", labels, running)
        build.took("requests_running")
        if by_type["waiting"] or by_type["active"]:
            build.computed("requests_waiting", labels, waiting)
            build.took("requests_waiting", 0 if by_type["waiting"] else 1)

    def _kv_cache(self, build: Build, model: str, version: str) -> None:
        fresh = self._fresh(build, model, version)
        block = {
            kind: build.slots(
                "nv_trt_llm_kv_cache_block_metrics", model=model, version=version, kv_cache_block_type=kind
            )
            for kind in ("fraction", "used", "max", "tokens_per")
        }

        def usage(out: list[float], raw: Sequence[float]) -> float:
            if not fresh(out, raw):
                return nan
            if block["fraction"]:
                return raw[block["fraction"][0]]
            most = raw[block["max"][0]]
            return raw[block["used"][0]] / most if most > 0 else nan

        def capacity(out: list[float], raw: Sequence[float]) -> float:
            return raw[block["max"][0]] * raw[block["tokens_per"][0]] or nan

        labels = build.labels(model, {"model_version": version})
        if block["fraction"] or (block["used"] and block["max"]):
            for signal in ("kv_cache_usage_ratio", "kv_cache_usage_max_ratio"):
                build.computed(signal, labels, usage)
                build.took(signal)
        if block["max"] and block["tokens_per"]:
            build.computed("kv_cache_capacity_tokens", labels, capacity)
            build.took("kv_cache_capacity_tokens")

    def _request_slots(self, build: Build) -> None:
        """How many requests classic models execute at once, by their configs."""
        told = [config for name in build.models if (config := self._configs.get(name)) and config.slots]
        for config in told:
            build.constant("request_slots", build.labels(config.name, {}), float(config.slots or 0))
        if told:
            build.took("request_slots")


def _served(build: Build, name: str) -> list[tuple[str, str]]:
    """(model, version) of the series of a family."""
    found = [(sample.label("model"), sample.label("version")) for _, sample in build.by_name.get(name, ())]
    return list(dict.fromkeys(found))
