"""What a GPU source gives: a block, whether it was obtained, and for `doctor` what is not there and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sidecar.snapshot import EMPTY_BLOCK, Block

#: Why a reading or a collection failed: the label `reason` of `gpu_collect_errors_total`.
REASONS: tuple[str, ...] = (
    "library",  # no binding, or no libnvidia-ml.so.1 in this container
    "driver",  # not loaded
    "mismatch",  # the driver was upgraded under its library
    "lifecycle",  # a GPU is lost, needs a reset, or isn't found
    "permission",
    "timeout",  # the driver did not answer in time
    "unknown",
    "implausible",  # a number that can't be, with a success code
    "unsupported",  # no GPU, or none of its readings
    "parse",  # a line of a page, or an answer, that makes no sense
    "fetch",  # a page could not be fetched
    "stale",  # a page that answers and no longer moves
)

#: Signals that are left out unless they are asked for by name. So are two labels of `gpu_info`, by the names
#: `gpu_serial` and `gpu_compute_mode`.
OPTIONAL: frozenset[str] = frozenset(
    (
        "gpu_pipe_active_ratio",
        "gpu_encoder_utilization_ratio",
        "gpu_decoder_utilization_ratio",
        "gpu_bar1_used_bytes",
        "gpu_temperature_threshold_celsius",
        "gpu_performance_state",
        "gpu_fabric_state",
        "gpu_ecc_lifetime_errors",
        "gpu_process_memory_bytes",
    )
)

Row = tuple[str, tuple[tuple[str, str], ...], float]  # signal, labels, value


@dataclass(frozen=True, slots=True)
class GpuNote:
    """Something that is not available. `gpu` is a UUID or empty, `what` a signal or a reading.

    `reason` is one of REASONS, or a word of its own where nothing has failed (`not_supported`): not counted.
    """

    gpu: str
    what: str
    reason: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One collection. `time` is the Unix time of the newest good one, 0 before the first.

    `block` holds the GPUs' series while that is not older than three intervals, and `gpu_collect_*` always,
    unless nobody asked for a GPU and there is none.
    """

    block: Block
    ok: bool
    source: str
    time: float
    notes: tuple[GpuNote, ...] = ()


NO_READING = GpuReading(EMPTY_BLOCK, False, "none", 0.0)


class GpuSource(Protocol):
    async def read(self, deadline: float) -> GpuReading:
        """One collection within `deadline` seconds. Raises nothing but CancelledError."""
        ...

    async def close(self) -> None:
        """Let the GPUs go: no library stays loaded, no handle open."""
        ...


def row(signal: str, value: float, **labels: str) -> Row:
    """A row with its labels in the order given; empty ones are left out."""
    return signal, tuple((name, text) for name, text in labels.items() if text), value


def scaled(value: float, factor: float) -> float:
    """`value` in a unit `factor` times as large; what is a division stays one, so that 41 % is 0.41."""
    return value * factor if factor >= 1 else value / round(1 / factor)


def bus_id(text: str) -> str:
    """`00000000:83:00.0` → `0000:83:00.0`: four digits of domain as in sysfs, lower case."""
    domain, colon, rest = text.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if colon else text
