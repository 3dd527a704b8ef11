"""Blocks in, OTLP's data model out: exact counts and bounds, the conventions' names, start times that move."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from opentelemetry.sdk.metrics.export import Gauge, Histogram, Metric, Sum

from sidecar.outputs.otlp.convert import Converter
from sidecar.outputs.otlp.names import name_of
from sidecar.outputs.otlp.sender import resource
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.schema import SIGNALS, Kind
from sidecar.snapshot import EMPTY_BLOCK, Block, Layout, LayoutBuilder, Publication, Snapshot, block_of

MODEL = {"target": "a", "runtime": "vllm", "model_name": "m"}
BEGAN = 500.0


def runtime_layout() -> Layout:
    builder = LayoutBuilder()
    builder.add("requests_running", MODEL)
    builder.add("generation_tokens_total", MODEL)
    builder.add("time_to_first_token_seconds", MODEL, (0.5, 1.0))
    builder.add("inter_token_latency_seconds", MODEL)
    return builder.build()


LAYOUT = runtime_layout()


def snapshot(values: tuple[float, ...], time: float = 1000.0, epoch: int = 0, start: float = nan) -> Snapshot:
    life = block_of(
        [
            ("target_start_timestamp_seconds", {"target": "a"}, start),
            ("target_restarts_total", {"target": "a"}, float(epoch)),
        ]
    )
    return Snapshot("a", "vllm", time, time, epoch, True, Block(LAYOUT, values), life)


def metrics(converter: Converter, *snapshots: Snapshot, shared: tuple[Block, ...] = ()) -> dict[str, Metric]:
    time = max((one.time for one in snapshots), default=2000.0)
    return {one.name: one for one in converter.metrics(Publication(time, snapshots, shared, 1))}


def converter() -> Converter:
    return Converter(lambda: {"a": "http://10.0.0.7:8000"}, BEGAN)


FULL = (3.0, 700.0, 2.0, 5.0, 9.0, 6.25, 4.0, 0.5)


def test_numbers_and_histograms_are_passed_through() -> None:
    told = metrics(converter(), snapshot(FULL, start=900.0))
    running, tokens = told["inference.requests.running"], told["inference.generation.tokens.total"]
    assert isinstance(running.data, Gauge) and running.unit == "{request}"
    assert [one.value for one in running.data.data_points] == [3.0]
    assert isinstance(tokens.data, Sum) and tokens.data.is_monotonic and tokens.unit == "{token}"
    (point,) = tokens.data.data_points
    assert (point.value, point.start_time_unix_nano, point.time_unix_nano) == (700.0, 900 * 10**9, 10**12)
    assert point.attributes == MODEL
    first = told["gen_ai.server.time_to_first_token"]
    assert isinstance(first.data, Histogram) and first.unit == "s"
    (spread,) = first.data.data_points
    assert (spread.count, spread.sum) == (9, 6.25)
    assert (tuple(spread.bucket_counts), tuple(spread.explicit_bounds)) == ((2, 3, 4), (0.5, 1.0))
    assert spread.attributes == {
        "gen_ai.operation.name": "inference",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": "m",
        "server.address": "10.0.0.7",
        "server.port": 8000,
        "target": "a",
    }
    (lone,) = told["inference.inter.token.latency.seconds"].data.data_points
    assert (tuple(lone.bucket_counts), tuple(lone.explicit_bounds)) == ((4,), ())  # type: ignore[union-attr]


def test_what_is_absent_or_torn_is_left_out() -> None:
    told = metrics(converter(), snapshot((nan, nan, 2.0, 1.0, 9.0, 6.25, nan, nan)))
    assert set(told) == {"inference.target.restarts.total"}
    told = metrics(converter(), snapshot((nan, nan, 2.0, 5.0, 9.0, nan, nan, nan)))
    (spread,) = told["gen_ai.server.time_to_first_token"].data.data_points
    assert spread.count == 9 and spread.sum is None  # type: ignore[union-attr]
    down = replace(snapshot(FULL), up=False, data=EMPTY_BLOCK)
    assert set(metrics(converter(), down)) == {"inference.target.restarts.total"}


def test_of_one_series_in_two_blocks_the_first_counts() -> None:
    twice = replace(snapshot(FULL), extra=(Block(LAYOUT, tuple(one + 1 for one in FULL)),))
    told = metrics(converter(), twice)
    assert [one.value for one in told["inference.requests.running"].data.data_points] == [3.0]  # type: ignore[union-attr]


def start_of(told: dict[str, Metric], name: str = "inference.generation.tokens.total") -> float:
    (point,) = told[name].data.data_points
    return point.start_time_unix_nano / 1e9


def test_the_start_time_moves_when_the_runtime_restarts_and_only_then() -> None:
    one = converter()
    assert start_of(metrics(one, snapshot(FULL, 1000.0))) == 1000.0
    assert start_of(metrics(one, snapshot(FULL, 1015.0))) == 1000.0
    assert start_of(metrics(one, snapshot(FULL, 1020.0, start=990.0))) == 1000.0, "once told, it stays"
    again = metrics(one, snapshot(FULL, 1030.0, epoch=1))
    assert start_of(again) == 1020.0, "counters began after the last look"
    assert start_of(again, "gen_ai.server.time_to_first_token") == 1020.0
    assert start_of(again, "inference.target.restarts.total") == BEGAN, "the sidecar's own did not restart"
    assert start_of(metrics(one, snapshot(FULL, 1060.0, epoch=2, start=1055.5))) == 1055.5
    assert start_of(metrics(one, snapshot(FULL, 1070.0, epoch=3, start=9999.0))) == 1070.0, (
        "not in the future"
    )
    metrics(one)
    assert start_of(metrics(one, snapshot(FULL, 1080.0, epoch=3))) == 1080.0, "a target that came back"


def gpus(energy: float, mig: bool = False) -> Block:
    gpu = {"gpu_uuid": "GPU-1"}
    leaf = gpu | {"gpu_instance": "7"}
    return block_of(
        [
            ("gpu_info", gpu | {"index": "0", "name": "H200", "vendor": "nvidia"}, 1.0),
            ("gpu_energy_joules_total", gpu, energy),
            ("gpu_power_watts", gpu, 310.0),
            ("gpu_utilization_ratio", gpu, 0.5),
            ("gpu_encoder_utilization_ratio", gpu, 0.25),
            ("gpu_memory_used_bytes", leaf if mig else gpu, 2.0**30),
            ("gpu_temperature_celsius", gpu | {"sensor": "memory"}, 71.0),
            ("gpu_sm_active_ratio", gpu, 0.4),
        ]
    )


def test_gpus_follow_the_hardware_conventions() -> None:
    told = metrics(converter(), shared=(gpus(100.0),))
    identity = {
        "hw.id": "GPU-1",
        "hw.type": "gpu",
        "hw.model": "H200",
        "hw.vendor": "nvidia",
        "hw.name": "gpu0",
    }
    energy, memory = told["hw.energy"], told["hw.gpu.memory.usage"]
    assert isinstance(energy.data, Sum) and energy.data.is_monotonic and energy.unit == "J"
    assert energy.data.data_points[0].attributes == identity
    assert isinstance(memory.data, Sum) and not memory.data.is_monotonic and memory.unit == "By"
    assert isinstance(told["hw.power"].data, Gauge) and told["hw.power"].unit == "W"
    tasks = {one.attributes["hw.gpu.task"]: one.value for one in told["hw.gpu.utilization"].data.data_points}  # type: ignore
    assert tasks == {"general": 0.5, "encoder": 0.25}
    (sensor,) = told["hw.temperature"].data.data_points
    assert sensor.attributes == identity | {"hw.sensor_location": "memory"}
    assert told["inference.gpu.sm.active.ratio"].unit == "1"
    (slice_,) = metrics(converter(), shared=(gpus(1.0, mig=True),))["hw.gpu.memory.usage"].data.data_points
    assert slice_.attributes is not None
    assert (slice_.attributes["hw.id"], slice_.attributes["hw.parent"]) == ("GPU-1/7", "GPU-1")


def test_a_gpu_counter_that_falls_began_anew() -> None:
    one = converter()
    times = []
    for time, energy in ((100.0, 50.0), (110.0, 60.0), (120.0, 5.0), (130.0, 6.0)):
        (metric,) = (
            told
            for told in one.metrics(Publication(time, (), (gpus(energy),), 1))
            if told.name == "hw.energy"
        )
        times.append(metric.data.data_points[0].start_time_unix_nano / 1e9)
    assert times == [100.0, 100.0, 110.0, 110.0]


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=SIGNALS)
def test_every_signal_has_a_name_that_turns_back(signal: object) -> None:
    told = name_of(signal)  # type: ignore[arg-type]
    if told.name.startswith("inference."):
        assert told.name.replace(".", "_") == signal.family  # type: ignore[attr-defined]
    else:
        assert told.name.startswith(("gen_ai.server.", "hw."))
    assert told.unit or signal.kind is not Kind.HISTOGRAM or signal.name == "batch_size"  # type: ignore[attr-defined]


def test_its_own_metrics_go_along() -> None:
    itself = SelfMetrics()
    itself.output_failed("otlp")
    told = {one.name: one for one in converter().metrics(Publication(1000.0, (), (), 1), itself.collect())}
    (errors,) = told["inference.sidecar.output.errors.total"].data.data_points
    assert errors.attributes == {"output": "otlp"} and errors.value == 1  # type: ignore[union-attr]
    assert isinstance(told["process.resident.memory.bytes"].data, Gauge)
    assert isinstance(told["process.cpu.seconds.total"].data, Sum)


def test_the_resource_comes_from_the_downward_api(monkeypatch: pytest.MonkeyPatch) -> None:
    pod = {"POD_NAME": "llama-0", "POD_UID": "u-1", "POD_NAMESPACE": "prod", "NODE_NAME": "n1"}
    told = dict(resource(pod, "host:9845").attributes)
    assert told["service.name"] == "inference-sidecar" and told["service.instance.id"] == "u-1"
    assert (told["k8s.pod.name"], told["k8s.namespace.name"], told["k8s.node.name"]) == (
        "llama-0",
        "prod",
        "n1",
    )
    assert dict(resource({}, "host:9845").attributes)["service.instance.id"] == "host:9845"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=mine,team=ml")
    told = dict(resource(pod, "x").attributes)
    assert (told["service.name"], told["team"]) == ("mine", "ml")


def test_infinity_and_integers() -> None:
    told = metrics(converter(), snapshot((inf, 2.0**53, *FULL[2:])))
    assert [one.value for one in told["inference.requests.running"].data.data_points] == [inf]  # type: ignore[union-attr]
