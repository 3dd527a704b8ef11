"""One pass over one GPU, in the child: which calls, in which order, how often."""

from __future__ import annotations

import ctypes

from sidecar.gpu.nvml.asker import Asker, LostGpu, code_of
from sidecar.gpu.nvml.gpm import METRICS, PIPES, GpmWindow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ALL_LINKS = 0xFFFFFFFF

#: Of the whole board, at every pass, all in one call: memory temperature, PCIe bytes and replays, NVLink KiB,
#: time that the clocks were held down, ECC, remapped rows, retired pages, recovery action.
FIELDS = (
    *((number, 0) for number in (82, 197, 198, 94)),
    (138, ALL_LINKS),
    (139, ALL_LINKS),
    *((number, 0) for number in (74, 76, 269, 270, 271, 3, 4, 142, 143, 144, 145, 29, 30, 31, 230)),
)
ECC_LIFETIME = ((5, 0), (6, 0))
LINK_BYTES = (202, 204)  # NVLink 5 counts bytes by link
LINK_ERRORS = (161, 162, 163)  # replay, recovery, CRC; NVLink 5 has its own
LINK_ERRORS_5 = (208, 211, 213, 214, 215)

SLOWLY = 60.0  # seconds: what seldom changes isn't asked for at every pass


class Gpu:
    """A GPU by its handle. Raises LostGpu from its constructor and from `read`."""

    def __init__(
        self, nvml: Any, index: int, handle: Any, options: dict[str, Any], clock: Callable[[], float]
    ) -> None:
        self.index = index
        self.handle = handle
        self._nvml = nvml
        self._clock = clock
        self._retry = float(options.get("retry", 900.0))
        self._optional = frozenset(options.get("optional", ()))
        self._slowly = float(options.get("slowly", SLOWLY))
        self._ask = Asker(nvml, handle, clock, self._retry)
        self.uuid: str = nvml.nvmlDeviceGetUUID(handle)
        self.facts = self._facts()
        self._gpm_metrics = METRICS + (PIPES if self._wants("gpu_pipe_active_ratio") else ())
        support = self._ask.get("gpm", ("nvmlGpmQueryDeviceSupport",)) if options.get("gpm", True) else None
        self._has_gpm = bool(support and support.isSupportedDevice)
        self._windows: dict[int | None, GpmWindow] = {}
        self._leaves: dict[str, Leaf] = {}
        self._mig = False
        self._links: tuple[int, ...] = ()
        self._slow: dict[str, Any] = {}
        self._slow_due = 0.0

    def _wants(self, signal: str) -> bool:
        return signal in self._optional

    def _facts(self) -> dict[str, Any]:
        """What doesn't change while the driver is loaded."""
        get = self._ask.get
        pci = get("pci", ("nvmlDeviceGetPciInfo_v3",), ("nvmlDeviceGetPciInfo",))
        facts = {
            "name": get("name", ("nvmlDeviceGetName",)),
            "pci": _text(pci.busId) if pci is not None else None,
            "arch": get("architecture", ("nvmlDeviceGetArchitecture",)),
            "clock_max_sm": get("clock_max_sm", ("nvmlDeviceGetMaxClockInfo", 1)),
            "clock_max_mem": get("clock_max_mem", ("nvmlDeviceGetMaxClockInfo", 2)),
            "pcie_gen_max": get("pcie_gen_max", ("nvmlDeviceGetMaxPcieLinkGeneration",)),
            "pcie_width_max": get("pcie_width_max", ("nvmlDeviceGetMaxPcieLinkWidth",)),
            "reasons_supported": get(
                "reasons_supported",
                ("nvmlDeviceGetSupportedClocksEventReasons",),
                ("nvmlDeviceGetSupportedClocksThrottleReasons",),
            ),
        }
        if self._wants("gpu_serial"):
            facts["serial"] = get("serial", ("nvmlDeviceGetSerial",))
        if self._wants("gpu_compute_mode"):
            facts["compute_mode"] = get("compute_mode", ("nvmlDeviceGetComputeMode",))
        if self._wants("gpu_temperature_threshold_celsius"):
            for i in range(4):
                facts[f"threshold_{i}"] = get(f"threshold_{i}", ("nvmlDeviceGetTemperatureThreshold", i))
        return {name: value for name, value in facts.items() if value is not None}

    def read(self) -> dict[str, Any]:
        """One pass: numbers by name as NVML gives them, and the codes of what it didn't give."""
        if self._clock() >= self._slow_due:
            self._slow = self._seldom()
            self._slow_due = self._clock() + self._slowly
        found = self._board() | self._slow
        modes = self._ask.get("mig_mode", ("nvmlDeviceGetMigMode",))
        if modes is not None:
            found["mig_mode"] = [int(mode) for mode in modes]
        if bool(modes and modes[0]) != self._mig:
            self._mig = not self._mig
            self._ask.forget()
            self._free_windows()
        entry: dict[str, Any] = {"index": self.index, "uuid": self.uuid, "facts": self.facts}
        if self._mig:
            entry["mig"] = self._slices()
        else:
            found |= self._leaf(self._ask, None)
        entry["read"] = {name: value for name, value in found.items() if value is not None}
        entry["codes"] = dict(self._ask.codes)
        return entry

    def _board(self) -> dict[str, Any]:
        get = self._ask.get
        use = None if self._mig else get("utilization", ("nvmlDeviceGetUtilizationRates",))
        fields = [*FIELDS, *(ECC_LIFETIME if self._wants("gpu_ecc_lifetime_errors") else ())]
        if self._links and "138" in self._ask.codes:
            fields += [(number, link) for number in LINK_BYTES for link in self._links]
        found: dict[str, Any] = {
            "utilization": use.gpu if use is not None else None,
            "memory_busy": use.memory if use is not None else None,
            "power": get("power", ("nvmlDeviceGetPowerUsage",)),
            "energy": get("energy", ("nvmlDeviceGetTotalEnergyConsumption",)),
            "temperature": get(
                "temperature", ("nvmlDeviceGetTemperatureV", 0), ("nvmlDeviceGetTemperature", 0)
            ),
            "margin": get("margin", ("nvmlDeviceGetMarginTemperature",)),
            "clock_sm": get("clock_sm", ("nvmlDeviceGetClockInfo", 1)),
            "clock_mem": get("clock_mem", ("nvmlDeviceGetClockInfo", 2)),
            "reasons": get(
                "reasons",
                ("nvmlDeviceGetCurrentClocksEventReasons",),
                ("nvmlDeviceGetCurrentClocksThrottleReasons",),
            ),
            "fields": self._ask.fields(fields),
        }
        return found | self._opted_in()

    def _opted_in(self) -> dict[str, Any]:
        get, found = self._ask.get, {}
        for coder, function in (("encoder", "Encoder"), ("decoder", "Decoder")):
            if self._wants(f"gpu_{coder}_utilization_ratio"):
                use = get(coder, (f"nvmlDeviceGet{function}Utilization",))
                found[coder] = use[0] if use is not None else None
        if self._wants("gpu_bar1_used_bytes"):
            bar1 = get("bar1", ("nvmlDeviceGetBAR1MemoryInfo",))
            found["bar1_used"] = bar1.bar1Used if bar1 is not None else None
        if self._wants("gpu_performance_state"):
            found["pstate"] = get("pstate", ("nvmlDeviceGetPerformanceState",))
        for way, name in enumerate(
            ("gpu_pcie_transmit_bytes_per_second", "gpu_pcie_receive_bytes_per_second")
        ):
            if self._wants(name) and not self._has_gpm:  # blocks for 20 ms
                found[f"pcie_kbps_{way}"] = get(f"pcie_kbps_{way}", ("nvmlDeviceGetPcieThroughput", way))
        return found

    def _seldom(self) -> dict[str, Any]:
        get = self._ask.get
        states: dict[int, int] = {}
        for link in range(getattr(self._nvml, "NVML_NVLINK_MAX_LINKS", 18)):
            state = get(f"nvlink.{link}", ("nvmlDeviceGetNvLinkState", link))
            if state is None:
                break  # links are numbered from 0: there are no more
            states[link] = int(state)
        self._links = tuple(states)
        errors = [(number, link) for number in (*LINK_ERRORS, *LINK_ERRORS_5) for link in states]
        found = {
            "power_limit": get("power_limit", ("nvmlDeviceGetEnforcedPowerLimit",)),
            "pcie_gen": get("pcie_gen", ("nvmlDeviceGetCurrPcieLinkGeneration",)),
            "pcie_width": get("pcie_width", ("nvmlDeviceGetCurrPcieLinkWidth",)),
            "links": list(states.values()) or None,
            "link_errors": self._ask.fields(errors) or None,
        }
        if self._wants("gpu_fabric_state"):
            found["fabric"] = self._fabric()
        return found

    def _fabric(self) -> list[int] | None:
        try:
            info = self._nvml.c_nvmlGpuFabricInfoV_t()
        except AttributeError:
            return None
        answer = self._ask.get("fabric", ("nvmlDeviceGetGpuFabricInfoV", ctypes.byref(info)))
        return [int(info.state), int(info.status)] if answer is not None else None

    def _leaf(self, ask: Asker, instance: int | None) -> dict[str, Any]:
        """What is measured on a GPU instance, or on a GPU that is not sliced."""
        newer = getattr(self._nvml, "nvmlMemory_v2", None)
        memory = ask.get("memory", ("nvmlDeviceGetMemoryInfo", newer), ("nvmlDeviceGetMemoryInfo",))
        sizes = None
        if memory is not None:  # the older struct counts what the driver reserves as used
            sizes = [memory.total, memory.used, memory.free, getattr(memory, "reserved", None)]
        return {"memory": sizes, "gpm": self._gpm(instance), **self._processes(ask)}

    def _processes(self, ask: Asker) -> dict[str, Any]:
        found: dict[str, Any] = {}
        kinds = ["Compute"]
        if self._wants("gpu_process_memory_bytes") or self._wants("gpu_memory_used_bytes"):
            kinds += ["Graphics", "MPSCompute"]
        for kind in kinds:
            name = f"processes_{kind.lower()}"
            getter = f"nvmlDeviceGet{kind}RunningProcesses"
            listed = ask.get(name, (getter,), (f"{getter}_v2",))
            if listed is not None:
                found[name] = [[one.pid, one.usedGpuMemory] for one in listed]
        return found

    def _gpm(self, instance: int | None) -> dict[str, float] | None:
        if not self._has_gpm:
            return None
        try:
            window = self._windows.get(instance)
            if window is None:
                window = self._windows[instance] = GpmWindow(self._nvml, self.handle, instance, self._clock)
            return window.read(self._gpm_metrics)
        except LostGpu:
            raise
        except Exception as error:
            self._ask.codes["gpm"] = code_of(error)
            return None

    def _slices(self) -> list[dict[str, Any]]:
        """Compute instances, looked up at each pass: slots are sparse, and reborn when the GPU is sliced anew."""
        found = []
        for i in range(self._ask.get("mig_slots", ("nvmlDeviceGetMaxMigDeviceCount",)) or 0):
            try:
                handle = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(self.handle, i)
                uuid = self._nvml.nvmlDeviceGetUUID(handle)
            except Exception:  # an empty slot, or one that vanished between the two calls
                continue
            leaf = self._leaves.get(uuid)
            if leaf is None:
                leaf = self._leaves[uuid] = Leaf(Asker(self._nvml, handle, self._clock, self._retry))
            leaf.ask.handle = handle
            found.append((uuid, leaf))
        self._leaves = dict(found)
        seen: set[int] = set()
        entries = []
        for uuid, leaf in found:
            if leaf.gi is None:
                continue
            entry = {"uuid": uuid, "gi": leaf.gi, "ci": leaf.ci, "name": leaf.name, "codes": leaf.ask.codes}
            if leaf.gi not in seen:  # compute instances share their GPU instance's memory
                seen.add(leaf.gi)
                read = self._leaf(leaf.ask, leaf.gi)
                entry["read"] = {name: value for name, value in read.items() if value is not None}
            entries.append(entry)
        for instance in [one for one in self._windows if one not in seen]:
            self._windows.pop(instance).free()
        return entries

    def _free_windows(self) -> None:
        for window in self._windows.values():
            window.free()
        self._windows.clear()

    def close(self) -> None:
        self._free_windows()


class Leaf:
    """A compute instance of a MIG-sliced GPU."""

    def __init__(self, ask: Asker) -> None:
        self.ask = ask
        self.gi: int | None = ask.get("gi", ("nvmlDeviceGetGpuInstanceId",))
        self.ci: int | None = ask.get("ci", ("nvmlDeviceGetComputeInstanceId",))
        self.name: str = ask.get("name", ("nvmlDeviceGetName",)) or ""


def _text(value: Any) -> str:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
