"""Stories of series for `promtool test rules`: what each alert is told, minute by minute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

LABELS = 'job="sidecar", instance="pod-a:9845", target="local", runtime="vllm"'
MODEL = f'{LABELS}, model_name="m"'
GPU = 'job="sidecar", instance="pod-a:9845", gpu_uuid="GPU-1"'


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge: its value while all is well, and while it isn't. None is no sample."""

    well: float | None
    ill: float | None

    def values(self, ill: Sequence[bool]) -> Iterator[float | None]:
        return (self.ill if now else self.well for now in ill)


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter: what it grows by a minute while all is well, and while it isn't."""

    well: float
    ill: float
    start: float = 0.0

    def values(self, ill: Sequence[bool]) -> Iterator[float | None]:
        value = self.start
        for now in ill:
            value += self.ill if now else self.well
            yield value


@dataclass(frozen=True, slots=True)
class Rising:
    """A gauge that climbs while things are ill and is back at once when they are well."""

    well: float
    slope: float

    def values(self, ill: Sequence[bool]) -> Iterator[float | None]:
        value = self.well
        for now in ill:
            value = value + self.slope if now else self.well
            yield value


Part = Gauge | Counter | Rising


@dataclass(frozen=True, slots=True)
class Story:
    """Well for `before` minutes, ill for `ill`, well for `after`, ill again, then nothing is seen any more.

    The alert fires from `fires` minutes of illness on and not within `silent`; it resolves when all is well,
    and when nothing is seen for `forgets` minutes.
    """

    alert: str
    parts: dict[str, Part]
    fires: int
    silent: int = 0
    before: int = 30
    ill: int = 30
    after: int = 30
    forgets: int = 6
    says: str = ""  # the description, as it is rendered

    def case(self) -> dict[str, Any]:
        course = [False] * self.before + [True] * self.ill + [False] * self.after + [True] * self.ill
        series = [
            {"series": selector, "values": f"{notation(part.values(course))} stale _x{self.forgets + 5}"}
            for selector, part in self.parts.items()
        ]
        mend = self.before + self.ill
        expected = dict.fromkeys(range(0, self.before, 5), 0)
        expected |= {
            self.before + self.silent: 0,
            self.before + self.fires: 1,
            mend - 1: 1,
            mend + self.after - 1: 0,
            len(course) - 1: 1,
            len(course) + self.forgets: 0,
        }
        return case(self.alert, self.alert, series, expected)


def case(
    name: str, alert: str, series: list[dict[str, str]], expected: dict[int, int], minutes: int = 1
) -> dict[str, Any]:
    """One case of promtool: how many of an alert fire at which step."""
    expression = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)'
    return {
        "name": name,
        "interval": f"{minutes}m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": expression,
                "eval_time": f"{step * minutes}m",
                "exp_samples": [{"labels": "{}", "value": firing}],
            }
            for step, firing in expected.items()
        ],
    }


def notation(values: Iterator[float | None]) -> str:
    return " ".join("_" if value is None else f"{value:.10g}" for value in values)


def up(well: float | None = 1, ill: float = 1) -> dict[str, Part]:
    return {f"inference_target_up{{{LABELS}}}": Gauge(well, ill)}


STORIES: tuple[Story, ...] = (
    Story(
        "InferenceModelDown",
        {f"inference_model_info{{{MODEL}}}": Gauge(1, None), **up(1, 0)},
        fires=3,
        silent=1,
    ),
    Story(
        "InferenceTargetDown",
        up(1, 0),
        fires=3,
        silent=1,
        says="local (vllm) on pod-a:9845 was up and is not any more: inference_target_up is 0.",
    ),
    Story("InferenceTargetNotStarted", up(None, 0), fires=31, silent=29, ill=40),
    Story("InferenceTargetWedged", {f"inference_target_wedged{{{LABELS}}}": Gauge(0, 1)}, fires=2, silent=0),
    Story(
        "InferenceTargetRestartLoop",
        {f"inference_target_restarts_total{{{LABELS}}}": Counter(0, 0.1)},
        fires=40,
        silent=15,
        ill=50,
        after=70,
        forgets=60,
    ),
    Story(
        "InferenceProbeFailing",
        {f"inference_probe_success{{{MODEL}}}": Gauge(1, 0)},
        fires=11,
        silent=9,
        says="Completions that the sidecar on pod-a:9845 asks of m (local) have not been answered for 10 "
        "minutes: inference_probe_success is 0.",
    ),
    Story(
        "InferenceKvCacheFull",
        {
            f"inference_kv_cache_usage_max_ratio{{{MODEL}}}": Gauge(0.97, 0.97),
            f"inference_preemptions_total{{{MODEL}}}": Counter(0, 3),
        },
        fires=13,
        silent=9,
        says="97% of the KV cache of m on pod-a:9845 is in use and requests are being evicted to free some.",
    ),
    Story(
        "InferenceQueueGrowing",
        {
            f"inference_requests_waiting{{{MODEL}}}": Rising(0, 20),
            f"inference_requests_running{{{MODEL}}}": Gauge(16, 16),
        },
        fires=28,
        silent=20,
        ill=35,
    ),
    Story(
        "InferenceSaturated",
        {f'inference_saturation_ratio{{{MODEL}, resource="max"}}': Gauge(0.5, 1.1)},
        fires=21,
        silent=8,
        forgets=21,
        says="The scarcest resource of m on pod-a:9845 was used to 110% over the last quarter of an hour.",
    ),
    Story("InferenceGpuLost", {f"inference_gpu_up{{{GPU}}}": Gauge(1, 0)}, fires=2, silent=0),
    Story(
        "InferenceGpuXid",
        {f'inference_gpu_xid_errors_total{{{GPU}, xid="79"}}': Gauge(None, 1)},
        fires=0,
        silent=-1,
        ill=10,
        forgets=20,
        says="1 events of Xid 79 on GPU GPU-1 of pod-a:9845 in 15 minutes.",
    ),
    Story(
        "InferenceGpuThrottled",
        {f'inference_gpu_clock_limited_seconds_total{{{GPU}, reason="hw_thermal"}}': Counter(0, 30)},
        fires=14,
        silent=9,
        forgets=15,
    ),
    Story(
        "InferenceGpuRowRemapPending",
        {f"inference_gpu_row_remap_pending{{{GPU}}}": Gauge(0, 1)},
        fires=6,
        silent=4,
    ),
    Story(
        "InferenceGpuRowRemapFailed",
        {f"inference_gpu_row_remap_failed{{{GPU}}}": Gauge(0, 1)},
        fires=6,
        silent=4,
    ),
    Story(
        "InferenceGpuTelemetryLost",
        {'inference_gpu_collect_success{job="sidecar", instance="pod-a:9845", source="nvml"}': Gauge(1, 0)},
        fires=16,
        silent=14,
    ),
    Story(
        "InferenceSidecarBlind",
        {
            **up(1, 0),
            f'inference_target_scrapes_total{{{LABELS}, result="unauthorized"}}': Counter(0, 6),
        },
        fires=7,
        silent=4,
    ),
    Story(
        "InferenceMappingBroken",
        {
            f'inference_signal_info{{{LABELS}, signal="requests_waiting", status="invalid"}}': Gauge(None, 1),
        },
        fires=16,
        silent=14,
    ),
    Story(
        "InferenceSloNotMeasurable",
        {f'inference_slo_info{{{MODEL}, slo="ttft", signal="x", status="not_measurable"}}': Gauge(None, 1)},
        fires=61,
        silent=59,
        ill=70,
    ),
    Story(
        "InferenceSloBlind",
        {
            f'inference_slo_window_coverage_ratio{{{MODEL}, slo="ttft", window="5m"}}': Gauge(1, 0.4),
            **up(),
        },
        fires=16,
        silent=14,
        says="Only 40% of the last 5 minutes of local were seen, so ttft has no burn rate.",
    ),
    Story(
        "InferenceConfigReloadFailed",
        {'inference_sidecar_config_reload_success{job="sidecar", instance="pod-a:9845"}': Gauge(1, 0)},
        fires=6,
        silent=4,
    ),
    Story(
        "InferenceStateNotSaved",
        {'inference_sidecar_state_write_errors_total{job="sidecar", instance="pod-a:9845"}': Counter(0, 4)},
        fires=12,
        silent=9,
    ),
    Story(
        "InferenceSeriesDropped",
        {f'inference_sidecar_series_dropped_total{{{LABELS}, reason="limit"}}': Counter(0, 2)},
        fires=2,
        silent=-1,
        forgets=16,
    ),
)
