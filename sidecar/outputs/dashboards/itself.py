"""Health of the sidecars: do they see, are they late, what do they leave out, what do they cost."""

from __future__ import annotations

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import NAMESPACE, RUNTIME, TARGET, Dashboard, Section, datasource
from sidecar.outputs.dashboards.panels import BAD, GOOD, Query, lines, rising, stat, states
from sidecar.outputs.dashboards.tables import Column, facts, table

_SPACE = 'namespace=~"$namespace"'
_ONLY = (
    f"* {q.SAME_SIDECAR} group_left () max by (namespace, job, instance) "
    f"(inference_sidecar_build_info{{{_SPACE}}})"
)
_AGE = f"time() - {q.of('target_last_success_timestamp_seconds', where=q.TARGET)}"
_BY = "target, runtime"
_FAILED_SCRAPES = (
    q.rate("target_scrapes_total", 'result!="ok"', _BY, q.TARGET)
    + f" / ({q.rate('target_scrapes_total', '', _BY, q.TARGET)} > 0)"
)


def _own(metric: str) -> str:
    """A metric of the process, of sidecars only."""
    return f"{metric}{{{_SPACE}}} {_ONLY}"


#: A counter that has no series yet has counted nothing.
_NOTHING = f"sum (inference_sidecar_build_info{{{_SPACE}}}) * 0"


def _none(label: str) -> str:
    return f'label_replace({_NOTHING}, "{label}", "none so far", "", "")'


def _grows(counter: str) -> str:
    return f"rate(inference_sidecar_{counter}{{{_SPACE}}}[$__rate_interval])"


SIGHT = Section(
    "Do they see?",
    (
        stat(
            "Sidecars",
            "none",
            "Sidecars that Prometheus scrapes; processes of the fleet role are none.",
            Query(
                f"count (inference_sidecar_build_info{{{_SPACE}}} unless {q.SAME_SIDECAR} "
                f"inference_fleet_replicas{{{_SPACE}}})"
            ),
        ),
        stat(
            "Targets up",
            "none",
            "Targets whose last scrape was understood.",
            Query(q.total("target_up", where=q.TARGET)),
        ),
        stat(
            "Oldest numbers",
            "s",
            "Age of the target that was last read longest ago.",
            Query(f"max ({_AGE})"),
            rising(15, 60),
            decimals=0,
        ),
        stat(
            "Series left out",
            "none",
            "Series over the cap or malformed, in the time shown.",
            Query(
                f"sum (increase(inference_sidecar_series_dropped_total{{{_SPACE}}}[$__range])) or sum "
                f"(inference_sidecar_build_info{{{_SPACE}}}) * 0",
                instant=True,
            ),
            rising(1, 100),
            decimals=0,
        ),
        stat(
            "Config in force",
            "none",
            "Whether the last load of each sidecar's config succeeded, the worst.",
            Query(f"min (inference_sidecar_config_reload_success{{{_SPACE}}})"),
            words={"1": ("as written", GOOD), "0": ("an older one", BAD)},
            graph=False,
        ),
        stat(
            "Loop lag",
            "s",
            "How late the slowest event loop ran a timer.",
            Query(f"max (inference_sidecar_loop_lag_seconds{{{_SPACE}}})"),
            rising(0.1, 1),
        ),
        table(
            "Targets",
            "One row a target: how old its numbers are, how its scrapes end.",
            {"target": "Target", "runtime": "Runtime"},
            (
                Column(
                    "Up",
                    "none",
                    q.highest("target_up", by="target, runtime", where=q.TARGET),
                    words={"1": ("up", GOOD), "0": ("down", BAD)},
                ),
                Column("Age", "s", f"max by (target, runtime) ({_AGE})", rising(15, 60), decimals=0),
                Column(
                    "Scrapes/s",
                    "ops",
                    q.rate("target_scrapes_total", by="target, runtime", where=q.TARGET),
                    decimals=1,
                ),
                Column(
                    "Failed",
                    "percentunit",
                    _FAILED_SCRAPES,
                    rising(0.01, 0.2),
                    decimals=1,
                ),
                Column(
                    "Scrape p95",
                    "s",
                    q.quantile(0.95, "target_scrape_duration_seconds", "target, runtime", q.TARGET),
                ),
                Column(
                    "Families not mapped",
                    "none",
                    q.highest("unmapped_families", by="target, runtime", where=q.TARGET),
                    rising(1, 50),
                ),
            ),
            height=7,
        ),
    ),
)

SCRAPES = Section(
    "Scrapes",
    (
        lines(
            "Scrapes by result",
            "ops",
            "Everything but ok has a cause that the sidecar's log and status page name.",
            Query(q.rate("target_scrapes_total", by="result", where=q.TARGET) + " > 0", "{{result}}"),
            stack=True,
        ),
        lines(
            "Duration of a scrape",
            "s",
            "Fetch, parse and map.",
            Query(q.quantile(0.5, "target_scrape_duration_seconds", "", q.TARGET), "{{runtime}} p50"),
            Query(q.quantile(0.95, "target_scrape_duration_seconds", "", q.TARGET), "{{runtime}} p95"),
        ),
        lines(
            "Signals by status",
            "none",
            "Signals of the schema, over all targets: a fall of ok after an upgrade is a renamed metric.",
            Query(f"count by (status) ({q.of('signal_info', where=q.TARGET)})", "{{status}}"),
            stack=True,
        ),
        states(
            "Targets",
            "Whether the last scrape was understood.",
            Query(q.highest("target_up", by="target", where=q.TARGET), "{{target}}"),
            words={"1": ("up", GOOD), "0": ("down", BAD)},
            width=16,
        ),
        lines(
            "GPU readings",
            "none",
            "Whether the last pass over the GPUs succeeded, and how long it took.",
            Query(f"min by (source) (inference_gpu_collect_success{{{_SPACE}}})", "{{source}} good"),
            Query(
                f"max by (source) (inference_gpu_collect_duration_seconds{{{_SPACE}}})", "{{source}} seconds"
            ),
            height=6,
        ),
    ),
)

COST = Section(
    "What they cost",
    (
        lines(
            "Processor",
            "percentunit",
            "Share of a core, each sidecar.",
            Query(f"rate(process_cpu_seconds_total{{{_SPACE}}}[$__rate_interval]) {_ONLY}", "{{instance}}"),
        ),
        lines(
            "Memory",
            "bytes",
            "Resident memory, each sidecar.",
            Query(_own("process_resident_memory_bytes"), "{{instance}}"),
        ),
        lines(
            "Open files",
            "none",
            "Sockets and files of each sidecar, against the limit.",
            Query(_own("process_open_fds"), "{{instance}}"),
        ),
        lines(
            "Loop lag",
            "s",
            "How late the event loop ran a timer.",
            Query(f"max by (instance) (inference_sidecar_loop_lag_seconds{{{_SPACE}}})", "{{instance}}"),
        ),
        lines(
            "Errors of outputs",
            "ops",
            "By output, and of the state file where there is one.",
            Query(
                f"sum by (output) ({_grows('output_errors_total')}) or {_none('output')}",
                "{{output}}",
            ),
            Query(f"sum ({_grows('state_write_errors_total')}) or {_NOTHING}", "state file"),
        ),
        lines(
            "Series left out",
            "ops",
            "By reason: over the cap, or on a malformed line.",
            Query(
                f"sum by (target, reason) ({_grows('series_dropped_total')}) or {_none('reason')}",
                "{{target}} {{reason}}",
            ),
        ),
        facts(
            "Versions",
            "What runs.",
            f"max by (instance, version, python) (inference_sidecar_build_info{{{_SPACE}}})",
            {"instance": "Sidecar", "version": "Version", "python": "Python"},
            width=12,
        ),
        facts(
            "Signals that are not there",
            "And why: which flag, version or change of the runtime's page.",
            f"max by (target, signal, status) ({q.of('signal_info', q.NOT_OK, q.TARGET)})",
            {"target": "Target", "signal": "Signal", "status": "Status"},
            width=12,
        ),
    ),
)

ITSELF = Dashboard(
    "inference-sidecar",
    "Inference / Sidecar health",
    "Whether the sidecars see their targets, what they leave out, and what they cost.",
    (SIGHT, SCRAPES, COST),
    (datasource(), NAMESPACE, RUNTIME, TARGET),
)
