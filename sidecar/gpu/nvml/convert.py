"""A child's answer → rows of the schema, with every unit converted. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sidecar.gpu.allocation import Leaf
from sidecar.gpu.nvml.codes import (
    ARCHITECTURES,
    CLOCK_REASON_FIELDS,
    CLOCK_REASONS,
    FALSE_UTILIZATION,
    GPM_PCIE,
    GPM_PIPES,
    GPM_SIGNALS,
    NVLINK_ERRORS,
    READINGS,
    RECOVERY_ACTIONS,
    UNIFIED_MEMORY,
    explain,
)
from sidecar.gpu.plausible import plausible
from sidecar.gpu.reading import GpuNote, Row, bus_id, row, scaled

MIB = 1048576
PID_MAX = 4194304
TOP_PROCESSES = 20
THRESHOLDS = ("shutdown", "slowdown", "memory_max", "gpu_max")

Answer = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Converted:
    """`read` is the number of readings that a GPU gave; 0 of all GPUs is a failed collection.

    `up` says of each GPU with a known UUID whether it is alive. `shut` are codes of GPUs that didn't even
    give a handle, so whose UUID isn't known from this answer.
    """

    rows: list[Row]
    notes: list[GpuNote]
    leaves: list[Leaf]
    up: dict[str, bool]
    shut: list[int]
    read: int


def convert(answer: Answer, optional: frozenset[str] = frozenset()) -> Converted:
    """Rows of one pass; what can't be true is left out with a note."""
    system = answer.get("system", {})
    rows: list[Row] = []
    notes: list[GpuNote] = []
    leaves: list[Leaf] = []
    up: dict[str, bool] = {}
    shut: list[int] = []
    count = 0
    for entry in answer["gpus"]:
        if "handle" in entry:
            shut.append(entry["handle"])
            notes.append(GpuNote("", f"GPU {entry['index']}", *explain(entry["handle"])))
            continue
        uuid = entry["uuid"]
        if "lost" in entry:
            up[uuid] = False
            notes.append(GpuNote(uuid, "gpu_up", *explain(entry["lost"])))
            continue
        gpu = _Gpu(entry, system, optional)
        found, refused = plausible(gpu.rows())
        codes = set(entry["codes"].values())
        up[uuid] = bool(found) or 999 not in codes
        if up[uuid]:
            rows += [_info(entry, system), *found]
            count += sum(not name.endswith("_info") for name, _, _ in found)
        notes += [*refused, *gpu.notes, *_refusals(uuid, entry)]
        leaves += gpu.leaves()
    return Converted(rows, notes, leaves, up, shut, count)


def _refusals(uuid: str, entry: Answer) -> Iterator[GpuNote]:
    entries = [entry, *entry.get("mig", ())]
    for name, code in {name: code for one in entries for name, code in one["codes"].items()}.items():
        if code != 6 or name not in ("gi", "ci"):
            yield GpuNote(uuid, READINGS.get(name, name), *explain(code))


def _info(entry: Answer, system: Answer) -> Row:
    facts = entry["facts"]
    cuda = system.get("cuda", 0)
    return row(
        "gpu_info",
        1.0,
        gpu_uuid=entry["uuid"],
        index=str(entry["index"]),
        name=facts.get("name", ""),
        vendor=facts.get("vendor", "nvidia"),
        pci_bus_id=bus_id(facts.get("pci", "")),
        serial=str(facts.get("serial", "")),
        driver_version=system.get("driver", ""),
        cuda_driver_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        architecture=ARCHITECTURES.get(facts.get("arch", 0), ""),
        memory_kind=_memory_kind(entry),
        compute_mode=str(facts.get("compute_mode", "")),
    )


def _memory_kind(entry: Answer) -> str:
    if any("memory" in one.get("read", ()) for one in (entry, *entry.get("mig", ()))):
        return "dedicated"
    return "unified" if any(part in entry["facts"].get("name", "") for part in UNIFIED_MEMORY) else "unknown"


class _Gpu:
    def __init__(self, entry: Answer, system: Answer, optional: frozenset[str]) -> None:
        self._entry = entry
        self._read: Answer = entry["read"]
        self._facts: Answer = entry["facts"]
        self._fields: Answer = self._read.get("fields", {})
        self._optional = optional
        self._host_pids = bool(system.get("host_pids"))
        self._uuid: str = entry["uuid"]
        self.notes: list[GpuNote] = []

    def leaves(self) -> list[Leaf]:
        index = str(self._entry["index"])
        if "mig" not in self._entry:
            return [Leaf(self._uuid, index=index)]
        return [Leaf(self._uuid, str(one["gi"]), one["uuid"], index) for one in self._entry["mig"]]

    def rows(self) -> Iterator[Row]:
        yield from self._activity()
        yield from self._board()
        yield from self._clocks()
        yield from self._links()
        yield from self._health()
        if "mig" not in self._entry:
            yield from self._leaf(self._read, "")
        for one in self._entry.get("mig", ()):
            yield row(
                "gpu_mig_info",
                1.0,
                gpu_uuid=self._uuid,
                gpu_instance=str(one["gi"]),
                compute_instance=str(one["ci"]),
                mig_uuid=one["uuid"],
                profile=one["name"].rpartition(" ")[2],
            )
            yield from self._leaf(one.get("read", {}), str(one["gi"]))

    def _scaled(self, source: Answer, name: str, signal: str, factor: float, **labels: str) -> Iterator[Row]:
        value = source.get(name)
        if value is not None:
            yield row(signal, scaled(value, factor), gpu_uuid=self._uuid, **labels)

    def _activity(self) -> Iterator[Row]:
        integrated = any(part in self._facts.get("name", "") for part in FALSE_UTILIZATION)
        if not integrated or "gpu_utilization_ratio" in self._optional:
            yield from self._scaled(self._read, "utilization", "gpu_utilization_ratio", 0.01)
            yield from self._scaled(self._read, "memory_busy", "gpu_memory_controller_busy_ratio", 0.01)
        yield from self._scaled(self._read, "encoder", "gpu_encoder_utilization_ratio", 0.01)
        yield from self._scaled(self._read, "decoder", "gpu_decoder_utilization_ratio", 0.01)

    def _board(self) -> Iterator[Row]:
        read = self._read
        yield from self._scaled(read, "power", "gpu_power_watts", 0.001)
        yield from self._scaled(read, "power_limit", "gpu_power_limit_watts", 0.001)
        yield from self._scaled(read, "energy", "gpu_energy_joules_total", 0.001)
        yield from self._scaled(read, "temperature", "gpu_temperature_celsius", 1.0, sensor="gpu")
        if self._fields.get("82"):  # 0 is a board without that sensor
            yield from self._scaled(self._fields, "82", "gpu_temperature_celsius", 1.0, sensor="memory")
        yield from self._scaled(read, "margin", "gpu_temperature_margin_celsius", 1.0)
        for i, name in enumerate(THRESHOLDS):
            yield from self._scaled(
                self._facts, f"threshold_{i}", "gpu_temperature_threshold_celsius", 1.0, threshold=name
            )
        yield from self._scaled(read, "bar1_used", "gpu_bar1_used_bytes", 1.0)
        yield from self._scaled(read, "pstate", "gpu_performance_state", 1.0)

    def _clocks(self) -> Iterator[Row]:
        for clock, label in (("sm", "sm"), ("mem", "memory")):
            yield from self._scaled(self._read, f"clock_{clock}", "gpu_clock_hertz", 1e6, clock=label)
            yield from self._scaled(
                self._facts, f"clock_max_{clock}", "gpu_clock_max_hertz", 1e6, clock=label
            )
        mask = self._read.get("reasons")
        for bit, reason in CLOCK_REASONS.items():
            if mask is not None and self._facts.get("reasons_supported", ~0) & bit:
                yield row("gpu_clock_limited", float(bool(mask & bit)), gpu_uuid=self._uuid, reason=reason)
        for field, reason in CLOCK_REASON_FIELDS.items():
            yield from self._scaled(
                self._fields, field, "gpu_clock_limited_seconds_total", 1e-9, reason=reason
            )

    def _links(self) -> Iterator[Row]:
        fields, uuid = self._fields, self._uuid
        yield from self._scaled(fields, "197", "gpu_pcie_transmit_bytes_total", 1.0)
        yield from self._scaled(fields, "198", "gpu_pcie_receive_bytes_total", 1.0)
        yield from self._scaled(fields, "94", "gpu_pcie_replays_total", 1.0)
        for i, signal in enumerate(GPM_PCIE.values()):
            yield from self._scaled(self._read, f"pcie_kbps_{i}", signal, 1000.0)
        for source, state, suffix in ((self._read, "current", ""), (self._facts, "max", "_max")):
            yield from self._scaled(source, f"pcie_width{suffix}", "gpu_pcie_link_width", 1.0, state=state)
            yield from self._scaled(source, f"pcie_gen{suffix}", "gpu_pcie_link_generation", 1.0, state=state)
        for way, whole, by_link in (("transmit", "138", "202"), ("receive", "139", "204")):
            total = fields.get(whole)
            total = total * 1024 if total is not None else self._over_links(fields, by_link)
            if total is not None:
                yield row(f"gpu_nvlink_{way}_bytes_total", total, gpu_uuid=uuid)
        errors: dict[str, float] = {}
        for number, error in NVLINK_ERRORS.items():
            total = self._over_links(self._read.get("link_errors", {}), number)
            if total is not None:
                errors.setdefault(error, total)
        for error, total in errors.items():
            yield row("gpu_nvlink_errors_total", total, gpu_uuid=uuid, error=error)
        states = self._read.get("links")
        if states:
            yield row("gpu_nvlink_links", float(sum(states)), gpu_uuid=uuid, state="active")
            yield row("gpu_nvlink_links", float(len(states) - sum(states)), gpu_uuid=uuid, state="inactive")
        fabric = self._read.get("fabric")
        if fabric:
            names = ("not_supported", "not_started", "in_progress", "completed")
            state = names[fabric[0]] if fabric[0] < len(names) else str(fabric[0])
            yield row("gpu_fabric_state", 1.0, gpu_uuid=uuid, state=state, status=str(fabric[1]))

    def _over_links(self, found: Answer, number: str) -> float | None:
        """The sum over all links. One link that didn't answer would make the counter fall: absent then."""
        parts = [found.get(f"{number}/{link}") for link in range(len(self._read.get("links", ())))]
        if not parts or None in parts:
            return None
        return float(sum(part for part in parts if part is not None))

    def _health(self) -> Iterator[Row]:
        fields, uuid = self._fields, self._uuid
        for field, signal, labels in (
            ("3", "gpu_ecc_errors_total", {"severity": "corrected"}),
            ("4", "gpu_ecc_errors_total", {"severity": "uncorrected"}),
            ("5", "gpu_ecc_lifetime_errors", {"severity": "corrected"}),
            ("6", "gpu_ecc_lifetime_errors", {"severity": "uncorrected"}),
            ("142", "gpu_remapped_rows", {"cause": "correctable"}),
            ("143", "gpu_remapped_rows", {"cause": "uncorrectable"}),
            ("144", "gpu_row_remap_pending", {}),
            ("145", "gpu_row_remap_failed", {}),
            ("29", "gpu_retired_pages", {"cause": "single_bit"}),
            ("30", "gpu_retired_pages", {"cause": "double_bit"}),
            ("31", "gpu_retired_pages", {"cause": "pending"}),
        ):
            yield from self._scaled(fields, field, signal, 1.0, **labels)
        asked = fields.get("230")
        for i, action in enumerate(RECOVERY_ACTIONS):
            if asked is not None:
                yield row("gpu_recovery_action", float(i == asked), gpu_uuid=uuid, action=action)
        for state, mode in zip(("current", "pending"), self._read.get("mig_mode", ()), strict=False):
            yield row("gpu_mig_mode", float(mode), gpu_uuid=uuid, state=state)

    def _leaf(self, read: Answer, instance: str) -> Iterator[Row]:
        where = {"gpu_uuid": self._uuid, "gpu_instance": instance}
        processes = self._processes(read)
        memory = read.get("memory")
        for name, size in zip(("total", "used", "free", "reserved"), memory or (), strict=False):
            if size is not None:
                yield row(f"gpu_memory_{name}_bytes", float(size), **where)
        if memory is None and processes and "gpu_memory_used_bytes" in self._optional:
            yield row("gpu_memory_used_bytes", float(sum(processes.values())), **where)
        gpm = read.get("gpm") or {}
        for metric, signal in GPM_SIGNALS.items():
            if metric in gpm:
                yield row(signal, gpm[metric] / 100, **where)
        for metric, pipe in GPM_PIPES.items():
            if metric in gpm:
                yield row("gpu_pipe_active_ratio", gpm[metric] / 100, **where, pipe=pipe)
        for metric, signal in GPM_PCIE.items():
            if metric in gpm and not instance:  # of the whole board
                yield row(signal, gpm[metric] * MIB, gpu_uuid=self._uuid)
        if processes is None:
            return
        compute = len({pid for pid, _ in read.get("processes_compute", ())})
        if compute or self._host_pids:  # elsewhere an empty list may only mean that we may not see them
            yield row("gpu_processes", float(compute), **where)
        if "gpu_process_memory_bytes" in self._optional:
            largest = sorted(processes.items(), key=lambda one: -one[1])[:TOP_PROCESSES]
            for pid, used in largest:
                yield row("gpu_process_memory_bytes", float(used), **where, pid=str(pid))

    def _processes(self, read: Answer) -> dict[int, int] | None:
        """Memory by pid over the lists of compute, graphics and MPS clients; None when a list is garbage.

        Drivers 535.43 to 535.86 write another record: then pids are 0 or beyond what is possible, or one
        process uses more than there is. One such entry condemns the list.
        """
        listed = [
            (pid, used)
            for kind in ("compute", "graphics", "mpscompute")
            for pid, used in read.get(f"processes_{kind}", ())
        ]
        total = (read.get("memory") or (float("inf"),))[0]
        if any(not 0 < pid <= PID_MAX or (used or 0) > total for pid, used in listed):
            self.notes.append(GpuNote(self._uuid, "gpu_processes", "implausible", "a process that can't be"))
            return None
        if "processes_compute" not in read:
            return None
        return {pid: used for pid, used in listed if used is not None}
