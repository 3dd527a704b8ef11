"""What data can't say of Triton: what a model's numbers mean, by its config, and how its engine stands."""

from __future__ import annotations

from functools import partial
from typing import ClassVar
from urllib.parse import quote

from sidecar.exposition import Reading, Shape
from sidecar.runtimes.adapter import Adapter, Answer, Counts, Endpoint, Model
from sidecar.runtimes.build import Build
from sidecar.runtimes.mapping import Mapping
from sidecar.runtimes.relabel import Relabelling
from sidecar.runtimes.triton.frozen import LastIteration
from sidecar.runtimes.triton.meaning import EXECUTIONS, FAILURE, SUCCESS, Meaning
from sidecar.runtimes.triton.models import Index, ModelConfig, read_config, read_index
from sidecar.runtimes.triton.reloads import Reloads
from sidecar.runtimes.triton.trt_llm import TrtLlmModel, served

#: Models whose config is asked for.
MAX_CONFIGS = 512

#: TensorRT-LLM's LLM API model has names of its own for what is asked of it; by others it would take them for
#: parameters, which it ignores: one answer, of another length, at the end.
_NAMES = {"stream": "streaming", "max_tokens": "sampling_param_max_tokens", "top_k": "sampling_param_top_k"}

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
        SUCCESS,
        EXECUTIONS,
        FAILURE,
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
        self._shape: Shape | None = None
        self._meaning = Meaning(Shape((), {}, ()))
        self._health: dict[str, Answer] = {}
        self._is_api: bool | None = None
        self._revision = 0  # of what is known of the models
        self._understood = -1

    @property
    def generating(self) -> tuple[str, ...]:
        """Of the models that take text: ensembles around one that streams; without one, those that stream."""
        streams = {name for name, config in self._configs.items() if config.decoupled}
        text = {name: config for name, config in self._configs.items() if config.text}
        whole = tuple(name for name, config in text.items() if streams & set(config.steps))
        return whole or tuple(name for name in text if name in streams)

    def names(self, model: str) -> dict[str, str]:
        config = self._configs.get(model)
        return {usual: own for usual, own in _NAMES.items() if config is not None and own in config.inputs}

    def restarted(self) -> None:
        super().restarted()
        self._index, self._configs = None, {}
        self._health, self._is_api = {}, None
        self._revision += 1
        self._reloads.forget()
        self._iterations.clear()

    def learn(self, name: str, answer: Answer) -> None:
        if name in ("version", "v2"):
            self._learn_version(answer)
        elif name in ("health", "ready"):
            self._health[name] = answer
        elif name == "index" and answer.ok:
            self._learn_index(read_index(answer.json()))
        elif name.startswith("config/") and answer.ok:
            config = read_config(answer.json())
            if config is not None and config != self._configs.get(config.name):
                self._configs[config.name] = config
                self._revision += 1
        self._judge_health()

    def _learn_version(self, answer: Answer) -> None:
        body = answer.json() if answer.ok else None
        if isinstance(body, dict) and isinstance(body.get("version"), str):
            self.known(version=body["version"])
            self._is_api = True
        elif answer.ok:
            self._is_api = False  # the metrics port says 200 and nothing else, whatever it is asked

    def _judge_health(self) -> None:
        """Believed only where /v2 has shown that this is the API."""
        said = {name: self._believed(answer) for name, answer in self._health.items()}
        live, ready = said.get("health"), said.get("ready")
        if live is False:
            ready = False  # after SIGTERM the metrics port answers on its own
        self.known(live=live, ready=ready)

    def _believed(self, answer: Answer) -> bool | None:
        if not self._is_api or answer.status in (401, 403):  # a restricted API says nothing of the models
            return None
        return answer.ok

    def _learn_index(self, index: Index | None) -> None:
        if index is None or index == self._index:
            return
        self._index = index
        self._revision += 1
        names = sorted(index.ready)[:MAX_CONFIGS]
        self._configs = {name: self._configs[name] for name in names if name in self._configs}
        self.known(models=tuple(Model(name) for name in names))
        self.endpoints = _ENDPOINTS + tuple(
            Endpoint(f"config/{name}", f"/v2/models/{quote(name, safe='')}/config", api=True, every=600.0)
            for name in names
        )

    def findings(self) -> tuple[str, ...]:
        found = [f"model {name} is {why}" for name, why in (self._index.others if self._index else ())]
        if self._meaning.counters_off:
            found.append(
                "the request counters stand still: --metrics-config counter_latencies=true starts them"
            )
        if self.facts.live is False:
            found.append(
                "the metrics port answers and the API port doesn't: the server drains, or api_url is wrong"
            )
        if self._is_api is False:
            found.append("api_url leads to the metrics port: set it to the API's (8000)")
        elif self._index is None:
            found.append("the API port (8000) hasn't answered: ensembles and decoupled models can't be told")
        return tuple(found)

    def view(self, reading: Reading) -> Reading:
        if reading.shape is not self._shape or self._revision != self._understood:
            self._shape, self._understood = reading.shape, self._revision
            self._meaning = Meaning(reading.shape, self._configs, self._index)
        reading = self._reloads.carry(reading)
        shape = self._relabelling.shape(reading.shape, self._revision, self._meaning.relabel)
        return Reading(shape, reading.values, reading.below_zero)

    @property
    def counts(self) -> Counts | None:
        return self._reloads.counts

    def observe(self, reading: Reading) -> None:
        engines = set(self._meaning.engines.values()) or {
            _BACKENDS.get(config.backend, config.backend)
            for config in self._configs.values()
            if not config.ensemble and config.backend
        }
        engine = engines.pop() if len(engines) == 1 else ""
        if engine != self.facts.engine:
            self.known(engine=engine)

    def extend(self, build: Build) -> None:
        for model, version in served(build):
            last = self._iterations.setdefault((model, version), LastIteration())
            TrtLlmModel(build, model, version, partial(self._is_fresh, last)).bind()
        self._request_slots(build)

    def _is_fresh(self, last: LastIteration, stamp: float) -> bool:
        return last.is_fresh(stamp, self.now)

    def _request_slots(self, build: Build) -> None:
        """How many requests classic models execute at once, by their configs."""
        told = [config for name in build.models if (config := self._configs.get(name)) and config.slots]
        for config in told:
            build.constant("request_slots", build.labels(config.name, {}), float(config.slots or 0))
        if told:
            build.took("request_slots")
