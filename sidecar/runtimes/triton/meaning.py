"""What a sample of Triton's page means, by its model: classic, decoupled, an ensemble or a step of one."""

from __future__ import annotations

from collections.abc import Mapping as Table

from sidecar.exposition import Sample, Shape
from sidecar.runtimes.relabel import NOTHING, with_labels
from sidecar.runtimes.triton.models import Index, ModelConfig

SUCCESS = "nv_inference_request_success"
FAILURE = "nv_inference_request_failure"
EXECUTIONS = "nv_inference_exec_count"
_PENDING = "nv_inference_pending_request_count"
_DURATION = "nv_inference_request_duration_us"
_FIRST_RESPONSE = "nv_inference_first_response_histogram_ms"
#: What stands still without counter_latencies.
_COUNTS = frozenset({SUCCESS, FAILURE, EXECUTIONS, "nv_inference_count"})
#: What an ensemble counts of a request; its steps count the same request again.
_REQUESTS = frozenset({SUCCESS, FAILURE, _DURATION, "nv_inference_request_summary_us"})
_ENGINES = {"vllm:": "vllm", "nv_trt_llm_": "tensorrt_llm", "nv_llm_": "tensorrt_llm"}


class Meaning:
    """One shape of page and what is known of its models.

    `engines` are the engines that models show on the page; `counters_off` says that the counts stand still.
    """

    def __init__(
        self, shape: Shape, configs: Table[str, ModelConfig] | None = None, index: Index | None = None
    ) -> None:
        self._configs = configs or {}
        self._index = index
        names = {sample.name for sample in shape.samples}
        # Without counter_latencies the counts stay on the page, at 0; the durations leave it.
        self.counters_off = EXECUTIONS in names and _DURATION not in names
        self.engines = {
            sample.label("model"): engine
            for sample in shape.samples
            for prefix, engine in _ENGINES.items()
            if sample.name.startswith(prefix)
        }
        ensembles = [config for config in self._configs.values() if config.ensemble]
        self._steps = frozenset(step for config in ensembles for step in config.steps)
        self._streaming_steps = frozenset(
            step for config in ensembles if self._streams(config) for step in config.steps
        )

    def relabel(self, sample: Sample) -> Sample:
        """The sample as the mapping shall see it; NOTHING when its model doesn't mean what it says."""
        model = sample.label("model")
        if not model:
            return sample
        if self._index is not None and model not in self._index.ready and sample.type == "gauge":
            return NOTHING  # unloaded, or not loaded yet
        if self.counters_off and sample.name in _COUNTS:
            return NOTHING
        config = self._configs.get(model)
        family = sample.family.removesuffix("_total")
        if config is not None and config.ensemble:
            return self._of_ensemble(sample, family, streams=self._streams(config))
        if model in self._steps:
            if family in _REQUESTS and family != SUCCESS:
                return NOTHING
            if family == _PENDING and model in self._streaming_steps:
                return NOTHING  # one pending a streamed token, and none where it queues inside
            sample = with_labels(sample, counted="ensemble")
        if not family.startswith("nv_inference_"):
            return sample
        if model in self.engines or (config is not None and config.decoupled):
            if family == _FIRST_RESPONSE:
                return with_labels(sample, answers="many")
            return sample if family in (SUCCESS, FAILURE) else NOTHING
        if config is not None and family == _FIRST_RESPONSE:
            return NOTHING if model in self._steps else with_labels(sample, answers="one")
        return sample

    @staticmethod
    def _of_ensemble(sample: Sample, family: str, *, streams: bool) -> Sample:
        """Its version label is wrong (1 for all that it counts); queues and computes are its steps' own."""
        if family == _FIRST_RESPONSE:
            return with_labels(sample, version="", answers="many" if streams else "one")
        if family == FAILURE:
            reason = sample.label("reason")
            counted_twice = reason in ("OTHER", "BACKEND", "")
            return with_labels(sample, version="", reason="ENSEMBLE" if counted_twice else reason)
        if family not in _REQUESTS or (streams and family != SUCCESS):
            return NOTHING
        return with_labels(sample, version="")

    def _streams(self, config: ModelConfig) -> bool:
        """Whether a model, or any step of an ensemble, answers more than once."""
        return config.decoupled or any(
            step in self.engines or ((known := self._configs.get(step)) is not None and known.decoupled)
            for step in config.steps
        )
