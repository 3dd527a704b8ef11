"""NIM 1.x's metrics page (`/v1/metrics`): unprefixed names, one series a family, no start of the counters."""

from __future__ import annotations

from sidecar.simulator.one_rank import BETWEEN_TOKENS, TIME_TO_FIRST, histogram, the_rank
from sidecar.simulator.page import Lines, one_two_five, python_number
from sidecar.simulator.replica import Replica

_WHOLE_REQUEST = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)
_LONGEST = 100_000


class NimPage:
    """The page of an LLM NIM 1.x, whatever engine runs inside."""

    content_type = "text/plain; version=0.0.4; charset=utf-8"

    def render(self, replica: Replica) -> bytes:
        """The page as bytes. ValueError for several ranks."""
        rank = the_rank(replica, "NIM")
        model = {"model_name": replica.config.model_name}
        lines = Lines()
        lines.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch.")
        lines.sample("process_start_time_seconds", {}, python_number(replica.epoch + replica.started))
        for name, text, value in (
            ("num_requests_running", "Number of requests currently running on GPU.", rank.running),
            ("num_requests_waiting", "Number of requests waiting to be processed.", rank.waiting),
            (
                "num_request_max",
                "Max number of concurrently running requests.",
                replica.config.engine.max_num_seqs,
            ),
            ("gpu_cache_usage_perc", "GPU KV-cache usage. 1 means 100 percent usage.", rank.kv_usage),
        ):
            lines.family(name, "gauge", text)
            lines.sample(name, model, python_number(value))
        for name, text, value in (
            ("prompt_tokens_total", "Number of prefill tokens processed.", rank.prompt_tokens),
            ("generation_tokens_total", "Number of generation tokens processed.", rank.generation_tokens),
        ):
            lines.family(name, "counter", text)
            lines.sample(name, model, python_number(value))
        lengths = one_two_five(_LONGEST)
        for name, text, read, bounds in (
            ("time_to_first_token_seconds", "Time to first token.", rank.time_to_first_token, TIME_TO_FIRST),
            ("time_per_output_token_seconds", "Time per output token.", rank.inter_token, BETWEEN_TOKENS),
            ("e2e_request_latency_seconds", "End to end request latency.", rank.end_to_end, _WHOLE_REQUEST),
            ("request_prompt_tokens", "Number of prefill tokens.", rank.request_prompt_tokens, lengths),
            (
                "request_generation_tokens",
                "Number of generation tokens.",
                rank.request_generation_tokens,
                lengths,
            ),
        ):
            histogram(lines, name, text, read, bounds, model)
        cancelled = rank.cancelled_running + rank.cancelled_waiting
        lines.family("request_finish_total", "counter", "Count of finished requests by finish reason.")
        for reason, count in (
            ("stop", rank.stopped),
            ("length", rank.length_reached),
            ("cancelled", cancelled),
            ("error", rank.errors),
        ):
            if count:
                lines.sample(
                    "request_finish_total", {"finished_reason": reason, **model}, python_number(count)
                )
        lines.family("request_success_total", "counter", "Count of successful requests.")
        lines.sample("request_success_total", model, python_number(rank.stopped + rank.length_reached))
        lines.family("request_failure_total", "counter", "Count of failed requests.")
        lines.sample("request_failure_total", model, python_number(rank.errors + cancelled))
        return lines.text()
