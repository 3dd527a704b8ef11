"""Alerts beside the objectives, as data: is everything there, does it work, can it be seen.

They page only when users suffer for certain (no replica of a model is left, requests hang); all else is a
ticket, and the objectives' own alerts wake somebody if it hurts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sidecar.slo.rules.rule import Alerting, Group
from sidecar.slo.windows import Severity

PAGE, TICKET = Severity.PAGE, Severity.TICKET

#: One target as one sidecar sees it; labels that are not there match as empty.
SAME_TARGET = "on (job, instance, target)"

#: Results of a scrape that say: somebody answers, and can't be understood.
_UNREADABLE = "unauthorized|not_found|http_error|not_metrics|too_large|parse_error|tls"
_CANT_READ = (
    "sum by (job, instance, target) "
    f'(increase(inference_target_scrapes_total{{result=~"{_UNREADABLE}"}}[10m])) > 0'
)
#: 1 for each target and model of the last hours, also while the target is down.
_SERVED = """  (
    max by (job, instance, target, model_name) (last_over_time(inference_model_info[6h]))
    or
    max by (job, instance, target, model_name) (last_over_time(inference_slo_info{model_name!=""}[6h]))
  )"""
_WAS_UP = "max by (job, instance, target) (max_over_time(inference_target_up[6h])) == 1"

#: Signals that are there; who turns the probe off has lost none of the runtime's.
_THERE = 'inference_signal_info{status="ok", method!="probe"}'

#: Xids of the application's own making; the board is fine.
_APPLICATION_XIDS = "13|31|43|45|68|109"


@dataclass(frozen=True, slots=True)
class Operational:
    """One alert. `summary` and `description` are templates; the runbook's file follows from the name."""

    name: str
    group: str
    severity: Severity
    expr: str
    lasting: str
    summary: str
    description: str

    @property
    def runbook(self) -> str:
        words = re.findall(r"[A-Z][a-z0-9]*", self.name.removeprefix("Inference"))
        return "-".join(words).lower() + ".md"

    def rule(self, runbook_base: str) -> Alerting:
        return Alerting(
            self.name,
            self.expr,
            {"severity": self.severity.value},
            {
                "summary": self.summary,
                "description": self.description,
                "runbook_url": runbook_base + self.runbook,
            },
            self.lasting,
        )


def _grown(selector: str, window: str) -> str:
    """A counter that grew, or that appeared with its first event and so never showed a rise."""
    return f"increase({selector}[{window}]) > 0\nor\n({selector} unless {selector} offset {window}) > 0"


OPERATIONAL: tuple[Operational, ...] = (
    Operational(
        "InferenceModelDown",
        "target",
        PAGE,
        f"max by (model_name) (\n  inference_target_up\n  * {SAME_TARGET} group_right ()\n{_SERVED}\n) == 0",
        "2m",
        "No replica of {{ $labels.model_name }} is up",
        "None of the targets that served {{ $labels.model_name }} within the last 6 hours answers its sidecar: "
        "the best inference_target_up is {{ $value }}.",
    ),
    Operational(
        "InferenceTargetDown",
        "target",
        TICKET,
        f"inference_target_up == 0\nand {SAME_TARGET}\n({_WAS_UP})\nunless {SAME_TARGET}\n({_CANT_READ})",
        "2m",
        "The runtime {{ $labels.target }} is down",
        "{{ $labels.target }} ({{ $labels.runtime }}) on {{ $labels.instance }} was up and is not any more: "
        "inference_target_up is {{ $value }}.",
    ),
    Operational(
        "InferenceTargetNotStarted",
        "target",
        TICKET,
        f"inference_target_up == 0\nunless {SAME_TARGET}\n({_WAS_UP})\nunless {SAME_TARGET}\n({_CANT_READ})",
        "30m",
        "The runtime {{ $labels.target }} does not start",
        "{{ $labels.target }} on {{ $labels.instance }} has not been up for 30 minutes or more: "
        "inference_target_up is {{ $value }}.",
    ),
    Operational(
        "InferenceTargetWedged",
        "target",
        PAGE,
        "inference_target_wedged == 1",
        "1m",
        "The runtime {{ $labels.target }} hangs",
        "{{ $labels.target }} ({{ $labels.runtime }}) on {{ $labels.instance }} holds requests and none of "
        "its progress counters moves: inference_target_wedged is {{ $value }}.",
    ),
    Operational(
        "InferenceTargetRestartLoop",
        "target",
        TICKET,
        "increase(inference_target_restarts_total[1h]) > 2.5",
        "",
        "The runtime {{ $labels.target }} restarts again and again",
        "{{ $labels.target }} on {{ $labels.instance }} restarted {{ $value | humanize }} times in an hour.",
    ),
    Operational(
        "InferenceProbeFailing",
        "target",
        TICKET,
        "inference_probe_success == 0",
        "10m",
        "Probes of {{ $labels.model_name }} fail",
        "Completions that the sidecar on {{ $labels.instance }} asks of {{ $labels.model_name }} "
        "({{ $labels.target }}) have not been answered for 10 minutes: inference_probe_success is {{ $value }}.",
    ),
    Operational(
        "InferenceKvCacheFull",
        "load",
        TICKET,
        "(inference_kv_cache_usage_max_ratio or inference_kv_cache_usage_ratio) > 0.9\n"
        "and on (job, instance, target, model_name)\nrate(inference_preemptions_total[5m]) > 0",
        "10m",
        "The KV cache of {{ $labels.model_name }} is full and requests are preempted",
        "{{ $value | humanizePercentage }} of the KV cache of {{ $labels.model_name }} on "
        "{{ $labels.instance }} is in use and requests are being evicted to free some.",
    ),
    Operational(
        "InferenceQueueGrowing",
        "load",
        TICKET,
        "inference_requests_waiting > inference_requests_running\nand\n"
        "deriv(inference_requests_waiting[15m]) > 0\nand\nmin_over_time(inference_requests_waiting[15m]) > 0",
        "10m",
        "The queue of {{ $labels.model_name }} grows",
        "{{ $value | humanize }} requests wait for {{ $labels.model_name }} on {{ $labels.instance }}, more "
        "than run, and their number has been rising for a quarter of an hour.",
    ),
    Operational(
        "InferenceSaturated",
        "load",
        TICKET,
        'avg_over_time(inference_saturation_ratio{resource="max"}[15m]) > 0.95',
        "5m",
        "{{ $labels.model_name }} is saturated",
        "The scarcest resource of {{ $labels.model_name }} on {{ $labels.instance }} was used to "
        "{{ $value | humanizePercentage }} over the last quarter of an hour.",
    ),
    Operational(
        "InferenceGpuLost",
        "gpu",
        TICKET,
        "inference_gpu_up == 0",
        "1m",
        "GPU {{ $labels.gpu_uuid }} is lost",
        "GPU {{ $labels.gpu_uuid }} on {{ $labels.instance }} does not answer or needs a reset: "
        "inference_gpu_up is {{ $value }}.",
    ),
    Operational(
        "InferenceGpuXid",
        "gpu",
        TICKET,
        _grown(f'inference_gpu_xid_errors_total{{xid!~"{_APPLICATION_XIDS}"}}', "15m"),
        "",
        "GPU {{ $labels.gpu_uuid }} reported Xid {{ $labels.xid }}",
        "{{ $value | humanize }} events of Xid {{ $labels.xid }} on GPU {{ $labels.gpu_uuid }} of "
        "{{ $labels.instance }} in 15 minutes.",
    ),
    Operational(
        "InferenceGpuThrottled",
        "gpu",
        TICKET,
        'rate(inference_gpu_clock_limited_seconds_total{reason=~"hw_thermal|sw_thermal|power_brake"}[10m])'
        ' > 0.05\nor\navg_over_time(inference_gpu_clock_limited{reason=~"hw_thermal|sw_thermal|power_brake|'
        'hw_slowdown"}[10m]) > 0.5',
        "10m",
        "GPU {{ $labels.gpu_uuid }} is slowed down: {{ $labels.reason }}",
        "GPU {{ $labels.gpu_uuid }} on {{ $labels.instance }} was held below its clock for "
        "{{ $value | humanizePercentage }} of the time, because of {{ $labels.reason }}.",
    ),
    Operational(
        "InferenceGpuRowRemapPending",
        "gpu",
        TICKET,
        "inference_gpu_row_remap_pending == 1",
        "5m",
        "GPU {{ $labels.gpu_uuid }} waits for a reset to remap a memory row",
        "GPU {{ $labels.gpu_uuid }} on {{ $labels.instance }}: inference_gpu_row_remap_pending is "
        "{{ $value }}; drain it and reset it.",
    ),
    Operational(
        "InferenceGpuRowRemapFailed",
        "gpu",
        TICKET,
        "inference_gpu_row_remap_failed == 1",
        "5m",
        "GPU {{ $labels.gpu_uuid }} could not remap a memory row",
        "GPU {{ $labels.gpu_uuid }} on {{ $labels.instance }}: inference_gpu_row_remap_failed is "
        "{{ $value }}; the board is to be replaced.",
    ),
    Operational(
        "InferenceGpuTelemetryLost",
        "gpu",
        TICKET,
        "inference_gpu_collect_success == 0",
        "15m",
        "The GPUs of {{ $labels.instance }} can't be read",
        "Collections from {{ $labels.source }} on {{ $labels.instance }} fail: "
        "inference_gpu_collect_success is {{ $value }}.",
    ),
    Operational(
        "InferenceSidecarAbsent",
        "sidecar",
        TICKET,
        "absent(inference_sidecar_build_info)",
        "10m",
        "No sidecar is scraped",
        "Prometheus has no series of any sidecar ({{ $value }}): objectives can't be judged and no other "
        "alert of this file can fire.",
    ),
    Operational(
        "InferenceSidecarBlind",
        "sidecar",
        TICKET,
        f"inference_target_up == 0\nand {SAME_TARGET}\n({_CANT_READ})",
        "5m",
        "The sidecar can't read {{ $labels.target }}",
        "{{ $labels.target }} on {{ $labels.instance }} answers, and its metrics can't be had or understood: "
        "inference_target_up is {{ $value }}.",
    ),
    Operational(
        "InferenceSchemaCoverageFell",
        "sidecar",
        TICKET,
        f"count by (runtime) (group by (runtime, signal) ({_THERE}))\n<\n"
        f"count by (runtime) (group by (runtime, signal) ({_THERE} offset 1d))\n"
        "and on (runtime)\nmax by (runtime) (inference_target_up) == 1",
        "15m",
        "Signals of {{ $labels.runtime }} have vanished",
        "{{ $labels.runtime }} gives {{ $value }} signals of the schema, fewer than a day ago.",
    ),
    Operational(
        "InferenceMappingBroken",
        "sidecar",
        TICKET,
        'inference_signal_info{status=~"type_mismatch|conflict|invalid"} == 1',
        "15m",
        "{{ $labels.signal }} of {{ $labels.target }} is withheld: {{ $labels.status }}",
        "What the page of {{ $labels.target }} ({{ $labels.runtime }}) has of {{ $labels.signal }} can't be used "
        "({{ $labels.status }}, {{ $value }} series): none rather than a wrong one.",
    ),
    Operational(
        "InferenceSloNotMeasurable",
        "sidecar",
        TICKET,
        'inference_slo_info{status="not_measurable"} == 1',
        "1h",
        "{{ $labels.slo }} can't be judged on {{ $labels.target }}",
        "{{ $labels.target }} ({{ $labels.runtime }}) does not tell {{ $labels.signal }} of "
        "{{ $labels.model_name }} so that {{ $labels.slo }} could be judged ({{ $value }}).",
    ),
    Operational(
        "InferenceSloBlind",
        "sidecar",
        TICKET,
        'inference_slo_window_coverage_ratio{window="5m"} < 0.9\n'
        f"and {SAME_TARGET}\ninference_target_up == 1",
        "15m",
        "{{ $labels.slo }} is seen with gaps on {{ $labels.target }}",
        "Only {{ $value | humanizePercentage }} of the last 5 minutes of {{ $labels.target }} were seen, so "
        "{{ $labels.slo }} has no burn rate.",
    ),
    Operational(
        "InferenceConfigReloadFailed",
        "sidecar",
        TICKET,
        "inference_sidecar_config_reload_success == 0",
        "5m",
        "A sidecar refused its new config",
        "The sidecar on {{ $labels.instance }} goes on with its old config "
        "(inference_sidecar_config_reload_success is {{ $value }}).",
    ),
    Operational(
        "InferenceStateNotSaved",
        "sidecar",
        TICKET,
        "increase(inference_sidecar_state_write_errors_total[5m]) > 0",
        "10m",
        "A sidecar can't write its state file",
        "The sidecar on {{ $labels.instance }} failed {{ $value | humanize }} times in 5 minutes to write its "
        "state: a restart would lose the windows of its objectives.",
    ),
    Operational(
        "InferenceSeriesDropped",
        "sidecar",
        TICKET,
        _grown("inference_sidecar_series_dropped_total", "15m"),
        "",
        "The sidecar drops series of {{ $labels.target }}",
        "{{ $value | humanize }} series of {{ $labels.target }} on {{ $labels.instance }} were dropped: "
        "{{ $labels.reason }}.",
    ),
)


def operational_groups(runbook_base: str) -> list[Group]:
    """The alerts by what they are about."""
    names = dict.fromkeys(one.group for one in OPERATIONAL)
    return [
        Group(
            f"inference-{name}",
            tuple(one.rule(runbook_base) for one in OPERATIONAL if one.group == name),
        )
        for name in names
    ]
