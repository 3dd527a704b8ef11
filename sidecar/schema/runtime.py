"""Signals of a runtime: what an inference engine or server tells, under one name each."""

from __future__ import annotations

from sidecar.schema.model import Agg, Signal, counter, gauge, histogram

SUM, MAX, MEAN = Agg.SUM, Agg.MAX, Agg.MEAN
S, TOK, REQ, RATIO = "seconds", "tokens", "requests", "ratio"

RUNTIME: tuple[Signal, ...] = (
    gauge("requests_running", "Requests in the execution batch now.", unit=REQ, agg=SUM),
    gauge(
        "requests_waiting",
        "Requests accepted and not yet executing: the queue depth, deferred and swapped ones included.",
        unit=REQ,
        agg=SUM,
    ),
    counter("requests_total", "Requests finished, by outcome.", unit=REQ, labels=("outcome",), agg=SUM),
    counter("requests_finished_total", "Successes by finish reason.", unit=REQ, labels=("reason",), agg=SUM),
    counter("preemptions_total", "Requests evicted from the batch to free KV cache.", unit=REQ, agg=SUM),
    counter("prompt_tokens_total", "Prompt tokens processed.", unit=TOK, agg=SUM),
    counter("generation_tokens_total", "Tokens generated.", unit=TOK, agg=SUM),
    counter(
        "cached_prompt_tokens_total", "Prompt tokens that came from the prefix cache.", unit=TOK, agg=SUM
    ),
    counter(
        "prefix_cache_queries_total",
        "Prefix cache look-ups, in tokens or blocks as signal_info says.",
        agg=SUM,
    ),
    counter("prefix_cache_hits_total", "Prefix cache hits, in the unit of the queries.", agg=SUM),
    gauge(
        "kv_cache_usage_ratio", "Share of the KV cache in use, 0 to 1, mean over ranks.", unit=RATIO, agg=MEAN
    ),
    gauge("kv_cache_usage_max_ratio", "KV cache usage of the fullest rank.", unit=RATIO, agg=MAX),
    gauge("kv_cache_capacity_tokens", "Tokens that fit into the KV cache.", unit=TOK, agg=SUM),
    gauge("request_slots", "The most requests that may run at once.", unit=REQ, agg=SUM),
    histogram("time_to_first_token_seconds", "Arrival to first output token.", unit=S, agg=SUM),
    histogram(
        "inter_token_latency_seconds",
        "Gap between two output tokens, one observation a gap.",
        unit=S,
        agg=SUM,
    ),
    histogram(
        "time_per_output_token_seconds",
        "Mean gap between output tokens of a request, one observation a request.",
        unit=S,
        agg=SUM,
    ),
    histogram(
        "e2e_request_latency_seconds",
        "Arrival to last token, or the whole request of a non-generative model.",
        unit=S,
        agg=SUM,
    ),
    histogram("request_queue_time_seconds", "Time a request waited before execution.", unit=S, agg=SUM),
    histogram("request_prefill_time_seconds", "Time a request spent in prefill.", unit=S, agg=SUM),
    histogram("request_decode_time_seconds", "Time a request spent in decode.", unit=S, agg=SUM),
    histogram(
        "request_inference_time_seconds",
        "Time a request executed: prefill and decode, or compute input, infer and output.",
        unit=S,
        agg=SUM,
    ),
    histogram("request_prompt_tokens", "Prompt tokens of a request.", unit=TOK, agg=SUM),
    histogram("request_generation_tokens", "Generated tokens of a request.", unit=TOK, agg=SUM),
    histogram("batch_size", "Requests or tokens an iteration executed.", agg=SUM),
    counter("spec_decode_draft_tokens_total", "Tokens proposed by speculative decoding.", unit=TOK, agg=SUM),
    counter("spec_decode_accepted_tokens_total", "Proposed tokens that were accepted.", unit=TOK, agg=SUM),
    gauge("adapter_running", "1 while requests of this LoRA adapter run.", labels=("adapter",), agg=SUM),
    gauge("adapter_waiting", "1 while requests of this LoRA adapter wait.", labels=("adapter",), agg=SUM),
    counter("model_executions_total", "Batches executed (non-generative serving).", agg=SUM),
    counter(
        "model_inferences_total", "Inferences executed, batched ones each (non-generative serving).", agg=SUM
    ),
    gauge("model_load_seconds", "Duration of the last load of a model.", unit=S, agg=MAX),
)
