"""What a signal is called over OTLP, in which unit and with which attributes.

Latencies of a request follow the conventions for generative AI, GPUs those for hardware; everything else has
its Prometheus name with dots, so that a backend that turns dots back has the names of `/metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from sidecar.schema import Kind, Signal
from sidecar.snapshot import Labels, Layout

Attributes = dict[str, str | int]

#: The schema's units as UCUM writes them; what is counted stands in braces.
UNITS = {
    "seconds": "s",
    "bytes": "By",
    "joules": "J",
    "watts": "W",
    "celsius": "Cel",
    "hertz": "Hz",
    "ratio": "1",
}

_GEN_AI = {
    "e2e_request_latency_seconds": "gen_ai.server.request.duration",
    "time_to_first_token_seconds": "gen_ai.server.time_to_first_token",
    "time_per_output_token_seconds": "gen_ai.server.time_per_output_token",
}

#: Name and fixed attributes.
_HARDWARE: dict[str, tuple[str, Attributes]] = {
    "gpu_utilization_ratio": ("hw.gpu.utilization", {"hw.gpu.task": "general"}),
    "gpu_encoder_utilization_ratio": ("hw.gpu.utilization", {"hw.gpu.task": "encoder"}),
    "gpu_decoder_utilization_ratio": ("hw.gpu.utilization", {"hw.gpu.task": "decoder"}),
    "gpu_memory_total_bytes": ("hw.gpu.memory.limit", {}),
    "gpu_memory_used_bytes": ("hw.gpu.memory.usage", {}),
    "gpu_pcie_transmit_bytes_total": ("hw.gpu.io", {"network.io.direction": "transmit"}),
    "gpu_pcie_receive_bytes_total": ("hw.gpu.io", {"network.io.direction": "receive"}),
    "gpu_power_watts": ("hw.power", {}),
    "gpu_energy_joules_total": ("hw.energy", {}),
    "gpu_temperature_celsius": ("hw.temperature", {}),
}
_UP_AND_DOWN = {"hw.gpu.memory.limit", "hw.gpu.memory.usage"}


@dataclass(frozen=True, slots=True)
class Name:
    """`adds` says whether the convention wants a sum where the schema has a gauge."""

    name: str
    unit: str
    adds: bool = False


def name_of(signal: Signal) -> Name:
    if signal.name in _GEN_AI:
        return Name(_GEN_AI[signal.name], "s")
    unit = UNITS.get(signal.unit, f"{{{signal.unit.removesuffix('s')}}}" if signal.unit else "")
    if signal.name in _HARDWARE:
        name = _HARDWARE[signal.name][0]
        return Name(name, unit, name in _UP_AND_DOWN)
    if signal.family.endswith("_per_second"):
        unit += "/s"
    return Name(dotted(signal.family), unit)


def dotted(family: str) -> str:
    return family.replace("_", ".")


def attributes_of(signal: Signal, labels: Labels, layout: Layout, servers: dict[str, str]) -> Attributes:
    """A series' labels as attributes; `servers` maps targets to their URLs, `layout` holds `gpu_info`."""
    given = {name: value for name, value in labels if value}
    if signal.name in _GEN_AI:
        return _gen_ai(given, servers)
    if signal.name in _HARDWARE:
        return {**_HARDWARE[signal.name][1], **_hardware(given, layout)}
    return dict(given)


def _gen_ai(given: dict[str, str], servers: dict[str, str]) -> Attributes:
    # An engine doesn't say which of a request's operations it timed: the conventions allow a name of one's own.
    attributes: Attributes = {
        "gen_ai.operation.name": "inference",
        "gen_ai.provider.name": given.pop("runtime", "custom"),
    }
    if "model_name" in given:
        attributes["gen_ai.request.model"] = given.pop("model_name")
    url = urlsplit(servers.get(given.get("target", ""), ""))
    if url.hostname:
        attributes["server.address"] = url.hostname
        attributes["server.port"] = url.port or (443 if url.scheme == "https" else 80)
    return attributes | given


def _hardware(given: dict[str, str], layout: Layout) -> Attributes:
    uuid, instance = given.pop("gpu_uuid", ""), given.pop("gpu_instance", "")
    attributes: Attributes = {"hw.id": f"{uuid}/{instance}" if instance else uuid, "hw.type": "gpu"}
    if instance:
        attributes["hw.parent"] = uuid
    if "sensor" in given:
        attributes["hw.sensor_location"] = given.pop("sensor")
    for info in layout.find("gpu_info", gpu_uuid=uuid):
        for label, name in (("name", "hw.model"), ("vendor", "hw.vendor"), ("index", "hw.name")):
            if value := info.label(label):
                attributes[name] = f"gpu{value}" if label == "index" else value
    return attributes | given


def is_cumulative(signal: Signal) -> bool:
    return signal.kind is not Kind.GAUGE
