"""vLLM pages with chosen numbers, for what needs time: restarts, hangs, start-up."""

from __future__ import annotations

from sidecar.runtimes.adapter import Answer

HEAD = 'engine="0",model_name="m"'


def page(
    *,
    running: float = 0,
    waiting: float = 0,
    generated: float = 0,
    finished: float = 0,
    first_tokens: float | None = None,
    queue_sum: float = 0.0,
    kv: float = 0.0,
    start: float | None = None,
    extra: str = "",
) -> Answer:
    first = finished if first_tokens is None else first_tokens
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{{{HEAD}}} {running}",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{{{HEAD}}} {waiting}",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc{{{HEAD}}} {kv}",
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{{{HEAD}}} {generated}",
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {finished}',
        "# TYPE vllm:time_to_first_token_seconds histogram",
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="1.0",model_name="m"}} {first}',
        f'vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {first}',
        f"vllm:time_to_first_token_seconds_sum{{{HEAD}}} {first * 0.1}",
        f"vllm:time_to_first_token_seconds_count{{{HEAD}}} {first}",
        "# TYPE vllm:request_queue_time_seconds histogram",
        f'vllm:request_queue_time_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {finished}',
        f"vllm:request_queue_time_seconds_sum{{{HEAD}}} {queue_sum}",
        f"vllm:request_queue_time_seconds_count{{{HEAD}}} {finished}",
    ]
    if start is not None:
        lines += ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {start}"]
    return Answer(200, ("\n".join(lines) + "\n" + extra).encode())


REFUSED = Answer(error="refused", detail="127.0.0.1:8000: connection refused")
