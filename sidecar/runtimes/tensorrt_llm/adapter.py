"""What data can't say of trtllm-serve: running, waiting and KV usage from what is freshest."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from sidecar.exposition import Reading, Sample, Shape
from sidecar.runtimes.adapter import Adapter, Answer, Endpoint, Model
from sidecar.runtimes.build import Build
from sidecar.runtimes.mapping import Mapping
from sidecar.runtimes.relabel import NOTHING, Relabelling, with_labels
from sidecar.runtimes.tensorrt_llm.iterations import Iterations
from sidecar.runtimes.tensorrt_llm.pids import Pids
from sidecar.snapshot import Labels

_PROMETHEUS = Endpoint("metrics", "/prometheus/metrics", page=True)
_ROWS = Endpoint("iterations", "/metrics", page=True)
_CHEAP = (
    Endpoint("health", "/health", api=True, every=5.0),
    Endpoint("version", "/version", api=True, every=60.0),
    Endpoint("models", "/v1/models", api=True, every=60.0),
)
#: What TensorRT-LLM 1.1 and 1.2 say of a model whose name they were not told.
_UNDEFINED = "undefined"


class TensorRtLlm(Adapter):
    folder = "tensorrt_llm"
    endpoints: tuple[Endpoint, ...] = (_PROMETHEUS, _ROWS, *_CHEAP)
    #: The page's counters move when a request ends: a long answer would look like a wedge.
    progress = ("json:rows",)

    def __init__(self, mapping: Mapping | None = None) -> None:
        super().__init__(mapping)
        self.iterations = Iterations()
        self._pids = Pids()
        self._relabelling = Relabelling()
        self._told: Shape | None = None
        self._pages: frozenset[str] = frozenset()

    def read(self, pages: dict[str, Answer], now: float = nan) -> Reading:
        # A reader of rows takes them from everybody else: only where there is no other page, or we may.
        has_prometheus = any(not _is_rows(answer) for answer in pages.values())
        self._pages = frozenset("rows" if _is_rows(answer) else "prometheus" for answer in pages.values())
        self.endpoints = (_PROMETHEUS, *(() if has_prometheus and not self.draining else (_ROWS,)), *_CHEAP)
        return super().read(pages, now)

    def decode(self, name: str, answer: Answer) -> Reading:
        if _is_rows(answer):
            return self.iterations.read(answer.body, self.now)
        return super().decode(name, answer)

    def learn(self, name: str, answer: Answer) -> None:
        if name == "health":
            self.known(live=bool(answer.status) and not answer.error, ready=answer.ok)
        elif name == "version" and answer.ok:
            body = answer.json()
            version = body.get("version") if isinstance(body, dict) else None
            if isinstance(version, str):
                self.known(version=version, engine="tensorrt_llm", engine_version=version)
        elif name == "models" and answer.ok:
            body = answer.json()
            rows = body.get("data") if isinstance(body, dict) else None
            if not isinstance(rows, list):
                return
            names = [str(row.get("id", "")) for row in rows if isinstance(row, dict)]
            if names and not self.facts.models:
                self.known(models=tuple(Model(name) for name in names[:64]))

    def findings(self) -> tuple[str, ...]:
        found = []
        if self.iterations.lost:
            found.append(
                f"{self.iterations.lost} iteration rows went to another reader of /metrics: each GET drains "
                "them, let one process read; sums over rows are lower bounds"
            )
        if "rows" in self._pages and not self.iterations.seen:
            found.append(
                "/metrics gives no iteration rows: the engine is idle, enable_iter_perf_stats is off, or another "
                "process reads them"
            )
        if self._pages == {"rows"}:
            found.append("return_perf_metrics: true serves /prometheus/metrics with latencies and tokens")
        return tuple(found)

    def view(self, reading: Reading) -> Reading:
        self._pids.watch(reading)
        names = tuple(model.name for model in self.facts.models)
        only = names[0] if len(names) == 1 else ""

        def relabel(sample: Sample) -> Sample:
            if not self._pids.speaks(sample):
                return NOTHING
            if sample.label("model_name") == _UNDEFINED or sample.name.startswith("json:"):
                return with_labels(sample, model_name=only)
            return sample

        basis = (only, tuple(self._pids.chosen.items()))
        shape = self._relabelling.shape(reading.shape, basis, relabel)
        return Reading(shape, reading.values, reading.below_zero)

    def observe(self, reading: Reading) -> None:
        super().observe(reading)
        if reading.shape is self._told:
            return
        self._told = reading.shape
        models: dict[str, Model] = {}
        for sample in reading.shape.samples:
            name = sample.label("model_name")
            if sample.name.endswith("_model_config_info"):
                models[name] = Model(
                    name,
                    root=sample.label("model"),
                    max_context_tokens=sample.label("max_model_len"),
                    quantization=sample.label("quantization").replace("none", ""),
                )
        if models:
            self.known(models=tuple(models.values()), engine="tensorrt_llm")

    def extend(self, build: Build) -> None:
        for model in build.models or ("",):
            _Present(build, model).bind()


def _is_rows(answer: Answer) -> bool:
    return answer.body.lstrip()[:1] == b"["


class _Present:
    """Binds what a model does now. Three sources: a live gauge, the rows, and the last drained row's gauges."""

    def __init__(self, build: Build, model: str) -> None:
        self._build = build
        self._labels: Labels = build.labels(model, {})
        self._model = {"model_name": model} if model else {}

    def _slots(self, name: str) -> list[int]:
        """Raw slots of a sample; rows don't say whose they are, and a server has one model."""
        found = self._build.slots(name, **self._model)
        return found or (self._build.slots(name) if len(self._build.models) < 2 else [])

    def bind(self) -> None:
        self._running()
        self._waiting()
        self._kv_cache()

    def _running(self) -> None:
        live = self._slots("trtllm_scheduled_batch_size")
        rows = self._slots("json:running")
        stale = self._slots("trtllm_num_scheduled_requests") or self._slots("trtllm_num_requests_running")
        slots = live or rows or stale
        if not slots:
            return
        self._build.computed("requests_running", self._labels, lambda out, raw: _sum(raw, slots))
        self._build.took("requests_running", 0 if live else 1 if rows else 2)

    def _waiting(self) -> None:
        rows = self._slots("json:queued") + self._slots("json:unscheduled")
        if rows:
            self._build.computed("requests_waiting", self._labels, lambda out, raw: _sum(raw, rows))
            self._build.took("requests_waiting", 0)
            return
        queued = self._slots("trtllm_num_requests_waiting")
        active = self._slots("trtllm_num_requests_running")
        scheduled = self._slots("trtllm_num_scheduled_requests")
        live = self._slots("trtllm_scheduled_batch_size")
        if not queued:
            return

        def waiting(out: list[float], raw: Sequence[float]) -> float:
            if live and not _sum(raw, live):
                return 0.0  # nothing runs: the row is of before
            held = _sum(raw, active) - _sum(raw, scheduled) if scheduled else 0.0
            return _sum(raw, queued) + max(0.0, held)

        self._build.computed("requests_waiting", self._labels, waiting)
        self._build.took("requests_waiting", 1)

    def _kv_cache(self) -> None:
        used, most = (
            self._slots("json:kvCacheStats.usedNumBlocks"),
            self._slots("json:kvCacheStats.maxNumBlocks"),
        )
        told = self._slots("trtllm_kv_cache_utilization")
        if used and most:
            self._build.computed(
                "kv_cache_usage_ratio",
                self._labels,
                lambda out, raw: _ratio(_sum(raw, used), _sum(raw, most)),
            )
            self._build.computed(
                "kv_cache_usage_max_ratio",
                self._labels,
                lambda out, raw: max(
                    (_ratio(raw[u], raw[m]) for u, m in zip(used, most, strict=True)), default=nan
                ),
            )
        elif told:
            for signal in ("kv_cache_usage_ratio", "kv_cache_usage_max_ratio"):
                self._build.computed(signal, self._labels, lambda out, raw: max(raw[slot] for slot in told))
        else:
            return
        for signal in ("kv_cache_usage_ratio", "kv_cache_usage_max_ratio"):
            self._build.took(signal, 0 if used and most else 1)
        self._capacity()

    def _capacity(self) -> None:
        blocks = self._slots("json:kvCacheStats.maxNumBlocks") or self._slots("trtllm_kv_cache_max_blocks")
        size = self._slots("json:kvCacheStats.tokensPerBlock") or self._slots(
            "trtllm_kv_cache_tokens_per_block"
        )
        if blocks and size:
            self._build.computed(
                "kv_cache_capacity_tokens",
                self._labels,
                lambda out, raw: _sum(raw, blocks) * raw[size[0]] or nan,
            )
            self._build.took("kv_cache_capacity_tokens")


def _sum(raw: Sequence[float], slots: Sequence[int]) -> float:
    return sum([raw[slot] for slot in slots])


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else nan
