"""TensorRT-LLM's two pages: `/prometheus/metrics` of 1.3, and the iteration statistics of `/metrics`.

The gauges of the page are copies of the last iteration's row; only `scheduled_batch_size` is live.
"""

from __future__ import annotations

import json
from typing import Any

from sidecar.simulator.one_rank import BETWEEN_TOKENS, TIME_TO_FIRST, LastIteration, histogram, the_rank
from sidecar.simulator.page import Lines, python_number
from sidecar.simulator.replica import Replica

_LONG = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)
_FIRST = (*TIME_TO_FIRST, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
_GAPS = (*BETWEEN_TOKENS, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_PREFILL = (
    *(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0),
    *(640.0, 2560.0),
)


class TrtLlmPage:
    """`/prometheus/metrics` of trtllm-serve 1.3 with return_perf_metrics and enable_iter_perf_stats.

    `live_batch_size` is the gauge that late builds have. Tokens and histograms are of finished requests.
    """

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def __init__(self, *, live_batch_size: bool = True) -> None:
        self._live = live_batch_size
        self._last = LastIteration()

    def render(self, replica: Replica) -> bytes:
        """The page as bytes. ValueError for several ranks."""
        rank = the_rank(replica, "TensorRT-LLM")
        row, engine = self._last.of(replica, rank), replica.config.engine
        model = {"engine_type": "pytorch", "model_name": replica.config.model_name}
        process = {**model, "pid": "217"}
        lines = Lines()

        def counter(name: str, value: float, **labels: str) -> None:
            lines.family(f"trtllm_{name}_total", "counter", name.replace("_", " "))
            lines.sample(
                f"trtllm_{name}_total", dict(sorted({**model, **labels}.items())), python_number(value)
            )

        def gauge(name: str, value: float) -> None:
            lines.family(f"trtllm_{name}", "gauge", name.replace("_", " "))
            lines.sample(f"trtllm_{name}", process, python_number(value))

        lines.family("trtllm_model_config_info", "gauge", "model config info")
        about = {"model": replica.config.model_name, "served_model_name": replica.config.model_name}
        lines.sample("trtllm_model_config_info", {**process, **about, "quantization": "none"}, "1.0")
        if self._live:
            lines.family("trtllm_scheduled_batch_size", "gauge", "scheduled batch size of one rank")
            lines.sample("trtllm_scheduled_batch_size", {**process, "rank": "0"}, python_number(rank.running))
        if rank.steps:
            gauge("num_requests_running", row.scheduled)
            gauge("num_requests_waiting", row.waiting)
            gauge("num_scheduled_requests", row.scheduled)
            gauge("max_num_active_requests", engine.max_num_seqs)
            gauge("kv_cache_utilization", row.kv_used / engine.kv_blocks)
            gauge("kv_cache_max_blocks", engine.kv_blocks)
            gauge("kv_cache_tokens_per_block", engine.block_size)
            counter("kv_cache_reused_blocks", rank.prefix_hit // engine.block_size)
            counter("kv_cache_missed_blocks", (rank.prefix_queried - rank.prefix_hit) // engine.block_size)
        if rank.finished:
            counter("prompt_tokens", rank.request_prompt_tokens.total)
            counter("generation_tokens", rank.request_generation_tokens.total)
            counter("prompt_cached_tokens", rank.request_cached_tokens.total)
            lines.family("trtllm_request_success_total", "counter", "request success")
            for reason, count in (("stop", rank.stopped), ("length", rank.length_reached)):
                if count:
                    series = dict(sorted({**model, "finished_reason": reason}.items()))
                    lines.sample("trtllm_request_success_total", series, python_number(count))
            for name, read, bounds in (
                ("e2e_request_latency", rank.end_to_end, _LONG),
                ("time_to_first_token", rank.time_to_first_token, _FIRST),
                ("time_per_output_token", rank.time_per_output_token, _GAPS),
                ("request_queue_time", rank.queue, _LONG),
                ("request_prefill_time", rank.prefill, _PREFILL),
                ("request_decode_time", rank.decode, _LONG),
                ("request_inference_time", rank.inference, _LONG),
            ):
                histogram(lines, f"trtllm_{name}_seconds", name.replace("_", " "), read, bounds, model)
        return lines.text()


class TrtLlmRows:
    """`GET /metrics` with enable_iter_perf_stats: rows since the last read, here the newest one alone."""

    content_type = "application/json"

    def __init__(self) -> None:
        self._last = LastIteration()
        self._told = 0
        self._number = 0

    def render(self, replica: Replica) -> bytes:
        """A JSON list. ValueError for several ranks."""
        rank = the_rank(replica, "TensorRT-LLM")
        row, engine = self._last.of(replica, rank), replica.config.engine
        if row.number == self._told:
            return b"[]"
        self._told = row.number
        self._number += 1  # a reader that comes each time finds no gap
        told: dict[str, Any] = {
            "iter": self._number,
            "numActiveRequests": row.scheduled,
            "numQueuedRequests": row.waiting,
            "numCompletedRequests": 0,
            "maxNumActiveRequests": engine.max_num_seqs,
            "kvCacheStats": {
                "usedNumBlocks": row.kv_used,
                "freeNumBlocks": engine.kv_blocks - row.kv_used,
                "maxNumBlocks": engine.kv_blocks,
                "tokensPerBlock": engine.block_size,
                "reusedBlocks": rank.prefix_hit // engine.block_size,
                "missedBlocks": (rank.prefix_queried - rank.prefix_hit) // engine.block_size,
            },
            "inflightBatchingStats": {"numScheduledRequests": row.scheduled, "numPausedRequests": 0},
        }
        return json.dumps([told]).encode()
