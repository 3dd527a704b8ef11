"""Triton's metrics page with the TensorRT-LLM backend behind it: a decoupled model whose engine queues inside.

Triton counts a request when execute() hands it over, so its own durations and its pending gauge say nothing; the
engine's gauges are those of its last iteration.
"""

from __future__ import annotations

from sidecar.simulator.one_rank import LastIteration, the_rank
from sidecar.simulator.page import Lines, buckets, rust_number
from sidecar.simulator.replica import Replica

_FIRST_RESPONSE_MS = (100, 500, 2000, 5000)
_TOKENS = (10.0, 50.0, 100.0, 500.0, 1000.0)
#: What handing a request over to the engine takes, in microseconds.
_HAND_OVER_US = 279


class TritonPage:
    """The page of Triton 25.07 with histogram_latencies=true. Numbers are written as its C++ library does."""

    content_type = "text/plain; charset=utf-8"

    def __init__(self) -> None:
        self._last = LastIteration()

    def render(self, replica: Replica) -> bytes:
        """The page as bytes. ValueError for several ranks."""
        rank = the_rank(replica, "Triton")
        row, engine = self._last.of(replica, rank), replica.config.engine
        model = {"model": replica.config.model_name, "version": "1"}
        lines = Lines()
        for name, count in (
            ("request_success", rank.received),
            ("count", rank.received),
            ("exec_count", rank.received),
            ("request_duration_us", rank.received * _HAND_OVER_US),
            ("queue_duration_us", rank.received * 40),
            ("compute_input_duration_us", rank.received * 20),
            ("compute_infer_duration_us", rank.received * 200),
            ("compute_output_duration_us", rank.received),
        ):
            lines.family(f"nv_inference_{name}", "counter", name.replace("_", " "))
            lines.sample(f"nv_inference_{name}", model, rust_number(count))
        lines.family("nv_inference_request_failure", "counter", "Number of failed inference requests")
        for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
            labels = {"model": model["model"], "reason": reason, "version": "1"}
            lines.sample("nv_inference_request_failure", labels, "0")
        lines.family(
            "nv_inference_pending_request_count", "gauge", "Instantaneous number of pending requests"
        )
        lines.sample("nv_inference_pending_request_count", model, "0")
        families: dict[str, dict[str, dict[str, float]]] = {
            "request_metrics": {
                "request_type": {
                    "waiting": row.waiting,
                    "context": 0,
                    "scheduled": row.scheduled,
                    "max": engine.max_num_seqs,
                    "active": row.scheduled + row.waiting,
                }
            },
            "kv_cache_block_metrics": {
                "kv_cache_block_type": {
                    "fraction": row.kv_used / engine.kv_blocks,
                    "tokens_per": engine.block_size,
                    "used": row.kv_used,
                    "free": engine.kv_blocks - row.kv_used,
                    "max": engine.kv_blocks,
                }
            },
            "general_metrics": {
                "general_type": {"iteration_counter": row.number, "timestamp": int(row.time * 1e6)}
            },
        }
        for family, kinds in families.items():
            name = f"nv_trt_llm_{family}"
            lines.family(name, "gauge", f"TRT LLM {family.replace('_', ' ')}")
            for label, values in kinds.items():
                for kind, value in values.items():
                    lines.sample(name, {**model, label: kind}, rust_number(value))
        name = "nv_inference_first_response_histogram_ms"
        lines.family(name, "histogram", "Duration from request to first response in milliseconds")
        first = rank.time_to_first_token
        lines.sample(f"{name}_count", model, rust_number(first.count))
        lines.sample(f"{name}_sum", model, rust_number(first.total * 1000))
        counts = [*first.cumulative([bound / 1000 for bound in _FIRST_RESPONSE_MS]), first.count]
        for edge, count in zip((*map(str, _FIRST_RESPONSE_MS), "+Inf"), counts, strict=True):
            lines.sample(f"{name}_bucket", {**model, "le": edge}, rust_number(count))
        for kind, read in (("input", rank.request_prompt_tokens), ("output", rank.request_generation_tokens)):
            name = f"nv_llm_{kind}_token_len"
            labels = {"model": model["model"], "response_metric_type": f"total_{kind}_tokens", "version": "1"}
            lines.family(name, "histogram", "TRT LLM response metrics")
            lines.sample(f"{name}_count", labels, rust_number(read.count))
            lines.sample(f"{name}_sum", labels, rust_number(read.total))
            for edge, count in buckets(read, _TOKENS):
                lines.sample(f"{name}_bucket", {**labels, "le": edge}, rust_number(count))
        return lines.text()
