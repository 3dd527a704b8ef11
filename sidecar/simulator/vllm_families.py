"""The families of vLLM's page as data.

Names, order, texts, labels and bounds are those of the real page of 0.32 and of the definitions of the older
versions.
"""

from __future__ import annotations

from sidecar.simulator.vllm_family import (
    LONGER,
    V1,
    Family,
    Version,
    between_tokens,
    by_reason,
    by_source,
    by_tier,
    counter,
    counts,
    gauge,
    hit,
    hit_rate,
    queried,
    request_seconds,
    seconds,
    sleep_state,
    tokens,
    waiting_by_reason,
)

_TIME_TO_FIRST = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_ITERATION_OLD = (1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0, 128.0, 256.0, 512.0)
_ITERATION = (1.0, 8.0, *(float(2**e) for e in range(4, 15)))
_LATENCY_TAIL = (20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
_MFU = " (for Model Flops Utilization calculations)."
_EXTERNAL = " from KV connector cross-instance cache sharing, in terms of number of "
_GONE_KV: Version = (0, 11, 0)
FAMILIES: tuple[Family, ...] = (
    counter(
        "vllm:estimated_flops_per_gpu",
        "Estimated number of floating point operations per GPU" + _MFU,
        lambda _: 0,
        since=(0, 17, 0),
    ),
    counter(
        "vllm:estimated_read_bytes_per_gpu",
        "Estimated number of bytes read from memory per GPU" + _MFU,
        lambda _: 0,
        since=(0, 17, 0),
    ),
    counter(
        "vllm:estimated_write_bytes_per_gpu",
        "Estimated number of bytes written to memory per GPU" + _MFU,
        lambda _: 0,
        since=(0, 17, 0),
    ),
    gauge(
        "vllm:num_requests_running",
        "Number of requests in model execution batches.",
        lambda rank: rank.running,
        older_texts=((V1, "Number of requests currently running on GPU."),),
    ),
    gauge(
        "vllm:num_requests_waiting", "Number of requests waiting to be processed.", lambda rank: rank.waiting
    ),
    gauge("vllm:num_requests_swapped", "Number of requests swapped to CPU.", lambda _: 0, until=V1),
    Family(
        "vllm:num_requests_waiting_by_reason",
        "gauge",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; "
        "'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked "
        "status). Sum of all "
        "reasons equals vllm:num_requests_waiting.",
        waiting_by_reason,
        since=(0, 20, 0),
    ),
    Family(
        "vllm:engine_sleep_state",
        "gauge",
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
        "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        sleep_state,
        since=(0, 11, 1),
        late=False,
        rust=False,
    ),
    gauge(
        "vllm:gpu_cache_usage_perc",
        "GPU KV-cache usage. 1 means 100 percent usage.DEPRECATED: Use vllm:kv_cache_usage_perc instead.",
        lambda rank: rank.kv_usage,
        until=_GONE_KV,
        older_texts=(((0, 9, 2), "GPU KV-cache usage. 1 means 100 percent usage."),),
    ),
    gauge(
        "vllm:cpu_cache_usage_perc", "CPU KV-cache usage. 1 means 100 percent usage.", lambda _: 0, until=V1
    ),
    gauge("vllm:cpu_prefix_cache_hit_rate", "CPU prefix cache block hit rate.", lambda _: -1, until=V1),
    gauge("vllm:gpu_prefix_cache_hit_rate", "GPU prefix cache block hit rate.", hit_rate, until=V1),
    Family(
        "vllm:gpu_prefix_cache_queries",
        "counter",
        "GPU prefix cache queries, in terms of number of queried tokens."
        "DEPRECATED: Use vllm:prefix_cache_queries instead.",
        queried,
        since=V1,
        until=_GONE_KV,
        older_texts=(
            ((0, 9, 0), "GPU prefix cache queries, in terms of number of queried blocks."),
            ((0, 9, 2), "GPU prefix cache queries, in terms of number of queried tokens."),
        ),
    ),
    Family(
        "vllm:gpu_prefix_cache_hits",
        "counter",
        "GPU prefix cache hits, in terms of number of cached tokens."
        "DEPRECATED: Use vllm:prefix_cache_hits instead.",
        hit,
        since=V1,
        until=_GONE_KV,
        older_texts=(
            ((0, 9, 0), "GPU prefix cache hits, in terms of number of cached blocks."),
            ((0, 9, 2), "GPU prefix cache hits, in terms of number of cached tokens."),
        ),
    ),
    gauge(
        "vllm:kv_cache_usage_perc",
        "KV-cache usage. 1 means 100 percent usage.",
        lambda rank: rank.kv_usage,
        since=(0, 9, 2),
    ),
    Family(
        "vllm:prefix_cache_queries",
        "counter",
        "Prefix cache queries, in terms of number of queried tokens.",
        queried,
        since=(0, 9, 2),
    ),
    Family(
        "vllm:prefix_cache_hits",
        "counter",
        "Prefix cache hits, in terms of number of cached tokens.",
        hit,
        since=(0, 9, 2),
    ),
    counter(
        "vllm:external_prefix_cache_queries",
        f"External prefix cache queries{_EXTERNAL}queried tokens.",
        lambda _: 0,
        since=(0, 11, 1),
    ),
    counter(
        "vllm:external_prefix_cache_hits",
        f"External prefix cache hits{_EXTERNAL}cached tokens.",
        lambda _: 0,
        since=(0, 11, 1),
    ),
    counter(
        "vllm:mm_cache_queries",
        "Multi-modal cache queries, in terms of number of queried items.",
        lambda _: 0,
        since=(0, 11, 1),
        rust=False,
    ),
    counter(
        "vllm:mm_cache_hits",
        "Multi-modal cache hits, in terms of number of cached items.",
        lambda _: 0,
        since=(0, 11, 1),
        rust=False,
    ),
    counter(
        "vllm:num_preemptions",
        "Cumulative number of preemption from the engine.",
        lambda rank: rank.preemptions,
    ),
    counter("vllm:prompt_tokens", "Number of prefill tokens processed.", lambda rank: rank.prompt_tokens),
    Family(
        "vllm:prompt_tokens_by_source",
        "counter",
        "Number of prompt tokens by source.",
        by_source,
        since=(0, 16, 0),
    ),
    counter(
        "vllm:prompt_tokens_cached",
        "Number of cached prompt tokens (local + external).",
        lambda rank: rank.cached_tokens,
        since=(0, 16, 0),
    ),
    counter(
        "vllm:prompt_tokens_recomputed",
        "Number of cached tokens recomputed for forward pass.",
        lambda _: 0,
        since=(0, 16, 0),
        until=(0, 20, 0),
    ),
    Family(
        "vllm:prompt_tokens_cached_by_source",
        "counter",
        "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host "
        "(offloaded to DRAM), "
        "disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at "
        "admission; sums to "
        "vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
        by_tier,
        since=(0, 32, 0),
        rust=False,
    ),
    counter(
        "vllm:generation_tokens",
        "Number of generation tokens processed.",
        lambda rank: rank.generation_tokens,
    ),
    counter("vllm:tokens", "Number of prefill plus generation tokens processed.", lambda _: 0, until=V1),
    Family("vllm:request_success", "counter", "Count of successfully processed requests.", by_reason),
    tokens(
        "vllm:request_prompt_tokens",
        "Number of prefill tokens processed.",
        lambda rank: rank.request_prompt_tokens,
    ),
    tokens(
        "vllm:request_generation_tokens",
        "Number of generation tokens processed.",
        lambda rank: rank.request_generation_tokens,
    ),
    Family(
        "vllm:iteration_tokens_total",
        "histogram",
        "Histogram of number of tokens per engine_step.",
        histogram=lambda rank: rank.step_tokens,
        bounds=lambda view: _ITERATION_OLD if view.version < LONGER else _ITERATION,
    ),
    tokens(
        "vllm:request_max_num_generation_tokens",
        "Histogram of maximum number of requested generation tokens.",
        lambda rank: rank.request_generation_tokens,
    ),
    counts(
        "vllm:request_params_n",
        "Histogram of the n request parameter.",
        lambda rank: rank.request_choices,
        (1.0, 2.0, 5.0, 10.0, 20.0),
    ),
    tokens(
        "vllm:request_params_max_tokens",
        "Histogram of the max_tokens request parameter.",
        lambda rank: rank.request_max_tokens,
    ),
    seconds(
        "vllm:time_to_first_token_seconds",
        "Histogram of time to first token in seconds.",
        lambda rank: rank.time_to_first_token,
        _TIME_TO_FIRST,
        _LATENCY_TAIL,
    ),
    between_tokens(
        "vllm:time_per_output_token_seconds",
        "Histogram of time per output token in seconds.DEPRECATED: Use "
        "vllm:inter_token_latency_seconds instead.",
        lambda rank: rank.inter_token,
        until=(0, 12, 0),
        older_texts=(((0, 10, 2), "Histogram of time per output token in seconds."),),
    ),
    between_tokens(
        "vllm:inter_token_latency_seconds",
        "Histogram of inter-token latency in seconds.",
        lambda rank: rank.inter_token,
        since=(0, 10, 2),
    ),
    between_tokens(
        "vllm:request_time_per_output_token_seconds",
        "Histogram of time_per_output_token_seconds per request.",
        lambda rank: rank.time_per_output_token,
        since=(0, 11, 0),
    ),
    request_seconds(
        "vllm:e2e_request_latency_seconds",
        "Histogram of e2e request latency in seconds.",
        lambda rank: rank.end_to_end,
        older_texts=((V1, "Histogram of end to end request latency in seconds."),),
    ),
    request_seconds(
        "vllm:request_queue_time_seconds",
        "Histogram of time spent in WAITING phase for request.",
        lambda rank: rank.queue,
    ),
    request_seconds(
        "vllm:request_inference_time_seconds",
        "Histogram of time spent in RUNNING phase for request.",
        lambda rank: rank.inference,
    ),
    request_seconds(
        "vllm:request_prefill_time_seconds",
        "Histogram of time spent in PREFILL phase for request.",
        lambda rank: rank.prefill,
    ),
    request_seconds(
        "vllm:request_decode_time_seconds",
        "Histogram of time spent in DECODE phase for request.",
        lambda rank: rank.decode,
    ),
    counts(
        "vllm:request_num_preemptions",
        "Histogram of the number of times a request was preempted.",
        lambda rank: rank.request_preemptions,
        (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0),
        since=(0, 30, 0),
        rust=False,
    ),
    tokens(
        "vllm:request_prefill_kv_computed_tokens",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        lambda rank: rank.request_computed_tokens,
        since=(0, 13, 0),
    ),
    Family(
        "vllm:avg_prompt_throughput_toks_per_s",
        "gauge",
        "Average prefill throughput in tokens/s.",
        lambda view: [({}, view.rates[0])],
        until=(0, 7, 0),
    ),
    Family(
        "vllm:avg_generation_throughput_toks_per_s",
        "gauge",
        "Average generation throughput in tokens/s.",
        lambda view: [({}, view.rates[1])],
        until=(0, 7, 0),
    ),
)
