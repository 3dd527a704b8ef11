"""The rest of vLLM's page, which belongs to no rank: the process, the cache's configuration, HTTP."""

from __future__ import annotations

from sidecar.simulator.page import Lines, buckets, python_number
from sidecar.simulator.replica import Replica
from sidecar.simulator.telemetry import Histogram, seconds_histogram

_HIGHR = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5),
    *(10.0, 30.0, 60.0),
)
_LOWR = (0.1, 0.5, 1.0)
_SIZE = (
    "Content length of {} by handler. Only value of header is respected. Otherwise ignored. No percentile "
    "calculated. "
)
_REQUESTS = "Total number of requests by method, status and handler."
_MANY = (
    "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. "
)
_FEW = (
    "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. "
)

Rows = list[tuple[dict[str, str], Histogram, tuple[float, ...]]]

_CACHE_032 = {
    "_block_size_resolved": "True",
    "cache_hit_alignment_tokens": "None",
    "enable_mamba_shared_prefix_checkpoint": "False",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "kv_cache_dtype_skip_layers": "[]",
    "kv_cache_layout": "None",
    "kv_cache_memory_bytes": "None",
    "kv_offloading_backend": "native",
    "kv_offloading_size": "None",
    "kv_sharing_fast_prefill": "False",
    "mamba_block_size": "None",
    "mamba_cache_dtype": "auto",
    "mamba_cache_mode": "none",
    "mamba_page_size_padded": "None",
    "mamba_ssm_cache_dtype": "float32",
    "num_gpu_blocks_override": "None",
    "prefix_cache_retention_interval": "0",
    "prefix_caching_hash_algo": "sha256",
    "prefix_match_unit": "None",
    "replayssm_buffer_len": "16",
    "skip_page_size_padded": "None",
    "sliding_window": "None",
    "swa_bounded_replay": "True",
    "use_kda_recoverssm": "False",
    "use_replayssm": "False",
    "user_specified_block_size": "False",
}
"""Labels of cache_config_info in 0.32 that say nothing about this engine."""


def cache_config(replica: Replica, rank: int, version: tuple[int, int, int]) -> dict[str, str]:
    """Labels of `vllm:cache_config_info`, sorted. From V1 on one block, the null block, is never used and
    is not among the blocks that usage is a share of."""
    engine = replica.config.engine
    null_block = 1 if version >= (0, 8, 0) else 0
    labels = {
        "block_size": str(engine.block_size),
        "cache_dtype": "auto",
        "enable_prefix_caching": str(engine.prefix_caching),
        "gpu_memory_utilization": "0.9",
        "num_cpu_blocks": "None" if version >= (0, 11, 0) else "0",
        "num_gpu_blocks": str(engine.kv_blocks + null_block),
    }
    if version >= (0, 8, 5):
        labels["engine"] = str(rank)
    if version >= (0, 32, 0):
        labels |= _CACHE_032
        labels["effective_attention_block_size"] = str(engine.block_size)
        labels["gpu_memory_utilization"] = "0.92"
        labels["kv_cache_size_tokens"] = str((engine.kv_blocks + 1) * engine.block_size)
        labels["kv_cache_max_concurrency"] = str(
            round((engine.kv_blocks + 1) * engine.block_size / engine.max_model_len, 2)
        )
    return dict(sorted(labels.items()))


def process(lines: Lines, replica: Replica) -> None:
    """The Python process's own figures; only its start and its CPU seconds mean something here."""
    for name, text, counts in (
        ("python_gc_objects_collected_total", "Objects collected during gc", (14789, 3066, 389)),
        ("python_gc_objects_uncollectable_total", "Uncollectable objects found during GC", (0, 0, 0)),
        ("python_gc_collections_total", "Number of times this generation was collected", (1587, 144, 10)),
    ):
        lines.family(name, "counter", text)
        for generation, count in enumerate(counts):
            lines.sample(name, {"generation": str(generation)}, python_number(count))
    lines.family("python_info", "gauge", "Python platform information")
    python = {"implementation": "CPython", "major": "3", "minor": "12", "patchlevel": "11"}
    lines.sample("python_info", {**python, "version": "3.12.11"}, "1.0")
    busy = sum(rank.busy_seconds for rank in replica.ranks)
    started = round(replica.epoch + replica.started, 2)
    for name, kind, text, value in (
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", 2.027450368e09),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", 6.5124352e08),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            started,
        ),
        (
            "process_cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            round(10.0 + busy / 20, 2),
        ),
        ("process_open_fds", "gauge", "Number of open file descriptors.", 50),
        ("process_max_fds", "gauge", "Maximum number of open file descriptors.", 20000),
    ):
        lines.family(name, kind, text)
        lines.sample(name, {}, python_number(value))


def front_end_python(lines: Lines, replica: Replica, created: str) -> None:
    exchanges = replica.front.exchanges
    born = python_number(replica.epoch + replica.ready_at)

    def end(name: str, text: str, series: list[dict[str, str]]) -> None:
        if created and series:
            lines.family(f"{name}_created", "gauge", text)
            for labels in series:
                lines.sample(f"{name}_created", labels, born)

    def histogram(name: str, labels: dict[str, str], seen: Histogram, bounds: tuple[float, ...]) -> None:
        for edge, count in buckets(seen, bounds):
            edges = dict(sorted({**labels, "le": edge}.items()))
            lines.sample(f"{name}_bucket", edges, python_number(count))
        lines.sample(f"{name}_count", labels, python_number(seen.count))
        lines.sample(f"{name}_sum", labels, python_number(seen.total))

    if not created and not exchanges:  # multi-process mode shows no family without a sample, but this one
        lines.family("http_request_duration_highr_seconds", "histogram", _MANY)
        histogram("http_request_duration_highr_seconds", {}, _all(replica), _HIGHR)
        return
    lines.family("http_requests_total", "counter", _REQUESTS)
    series = []
    for (handler, method, status), exchange in exchanges.items():
        labels = {"handler": handler, "method": method, "status": status}
        lines.sample("http_requests_total", labels, python_number(exchange.count))
        series.append(labels)
    end("http_requests", _REQUESTS, series)

    handlers: dict[str, list[int]] = {}
    for (handler, _, _), exchange in exchanges.items():
        sums = handlers.setdefault(handler, [0, 0, 0])
        for place, number in enumerate((exchange.count, exchange.bytes_in, exchange.bytes_out)):
            sums[place] += number
    for name, what, place in (("request", "incoming requests", 1), ("response", "outgoing responses", 2)):
        text = _SIZE.format(what)
        lines.family(f"http_{name}_size_bytes", "summary", text)
        for handler, sums in handlers.items():
            lines.sample(f"http_{name}_size_bytes_count", {"handler": handler}, python_number(sums[0]))
            lines.sample(f"http_{name}_size_bytes_sum", {"handler": handler}, python_number(sums[place]))
        end(f"http_{name}_size_bytes", text, [{"handler": handler} for handler in handlers])

    lines.family("http_request_duration_highr_seconds", "histogram", _MANY)
    histogram("http_request_duration_highr_seconds", {}, _all(replica), _HIGHR)
    end("http_request_duration_highr_seconds", _MANY, [{}])
    lines.family("http_request_duration_seconds", "histogram", _FEW)
    durations = _by_handler(replica)
    for (handler, method), seen in durations.items():
        histogram("http_request_duration_seconds", {"handler": handler, "method": method}, seen, _LOWR)
    end(
        "http_request_duration_seconds",
        _FEW,
        [{"handler": handler, "method": method} for handler, method in durations],
    )


def front_end_rust(lines: Lines, replica: Replica) -> None:
    exchanges = replica.front.exchanges
    if not exchanges:
        return
    lines.family("http_requests", "counter", _REQUESTS)
    for (handler, method, status), exchange in exchanges.items():
        labels = {"method": method, "status": status, "handler": handler}
        lines.sample("http_requests_total", labels, str(exchange.count))
    many: Rows = [({}, _all(replica), _HIGHR)]
    few: Rows = [
        ({"method": method, "handler": handler}, seen, _LOWR)
        for (handler, method), seen in _by_handler(replica).items()
    ]
    for name, text, rows in (
        ("http_request_duration_highr_seconds", _MANY, many),
        ("http_request_duration_seconds", _FEW, few),
    ):
        lines.family(name, "histogram", text.rstrip())
        for labels, seen, bounds in rows:
            lines.sample(f"{name}_sum", labels, python_number(seen.total))
            lines.sample(f"{name}_count", labels, str(seen.count))
            for edge, count in buckets(seen, bounds):
                lines.sample(f"{name}_bucket", {"le": edge, **labels}, str(count))


def _by_handler(replica: Replica) -> dict[tuple[str, str], Histogram]:
    merged: dict[tuple[str, str], Histogram] = {}
    for (handler, method, _), exchange in replica.front.exchanges.items():
        merged.setdefault((handler, method), seconds_histogram()).add(exchange.seconds)
    return merged


def _all(replica: Replica) -> Histogram:
    merged = seconds_histogram()
    for exchange in replica.front.exchanges.values():
        merged.add(exchange.seconds)
    return merged
