"""What the TensorRT-LLM backend tells by label: requests and KV blocks of its last iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan

from sidecar.runtimes.build import Build
from sidecar.snapshot import Labels

_REQUESTS = "nv_trt_llm_request_metrics"
_BLOCKS = "nv_trt_llm_kv_cache_block_metrics"

#: Whether an iteration happened lately, by the page's raw values.
Fresh = Callable[[Sequence[float]], bool]


class TrtLlmModel:
    """One model of the backend. `fresh` judges the timestamp of its last iteration, once bound to its slot."""

    def __init__(self, build: Build, model: str, version: str, is_fresh: Callable[[float], bool]) -> None:
        self._build = build
        self._own = {"model": model, "version": version}
        self._labels: Labels = build.labels(model, {"model_version": version})
        stamps = build.slots("nv_trt_llm_general_metrics", **self._own, general_type="timestamp")
        self._fresh: Fresh = (lambda raw: is_fresh(raw[stamps[0]])) if stamps else (lambda raw: True)

    def bind(self) -> None:
        self._requests()
        self._kv_cache()

    def _slots(self, name: str, label: str, *kinds: str) -> dict[str, list[int]]:
        return {kind: self._build.slots(name, **self._own, **{label: kind}) for kind in kinds}

    def _requests(self) -> None:
        slots = self._slots(_REQUESTS, "request_type", "active", "scheduled", "waiting")
        if not (slots["scheduled"] or (slots["active"] and slots["waiting"])):
            return

        def total(kind: str, raw: Sequence[float]) -> float:
            return sum(raw[slot] for slot in slots[kind])

        def running(out: list[float], raw: Sequence[float]) -> float:
            if not self._fresh(raw):
                return 0.0
            if slots["scheduled"]:
                return total("scheduled", raw)
            return max(0.0, total("active", raw) - total("waiting", raw))

        def waiting(out: list[float], raw: Sequence[float]) -> float:
            if not self._fresh(raw):
                return 0.0
            if slots["waiting"]:
                return total("waiting", raw)
            return max(0.0, total("active", raw) - total("scheduled", raw))

        self._build.computed("requests_running", self._labels, running)
        self._build.took("requests_running")
        if slots["waiting"] or slots["active"]:
            self._build.computed("requests_waiting", self._labels, waiting)
            self._build.took("requests_waiting", 0 if slots["waiting"] else 1)

    def _kv_cache(self) -> None:
        slots = self._slots(_BLOCKS, "kv_cache_block_type", "fraction", "used", "max", "tokens_per")

        def usage(out: list[float], raw: Sequence[float]) -> float:
            if not self._fresh(raw):
                return nan
            if slots["fraction"]:
                return raw[slots["fraction"][0]]
            most = raw[slots["max"][0]]
            return raw[slots["used"][0]] / most if most > 0 else nan

        def capacity(out: list[float], raw: Sequence[float]) -> float:
            return raw[slots["max"][0]] * raw[slots["tokens_per"][0]] or nan

        if slots["fraction"] or (slots["used"] and slots["max"]):
            for signal in ("kv_cache_usage_ratio", "kv_cache_usage_max_ratio"):
                self._build.computed(signal, self._labels, usage)
                self._build.took(signal)
        if slots["max"] and slots["tokens_per"]:
            self._build.computed("kv_cache_capacity_tokens", self._labels, capacity)
            self._build.took("kv_cache_capacity_tokens")


def served(build: Build) -> list[tuple[str, str]]:
    """(model, version) of the models that the backend serves."""
    found = [
        (sample.label("model"), sample.label("version"))
        for name in (_REQUESTS, _BLOCKS)
        for _, sample in build.by_name.get(name, ())
    ]
    return list(dict.fromkeys(found))
