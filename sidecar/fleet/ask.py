"""What KEDA asks, and the answer from the fleet's block: pure, without gRPC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite, isnan

from sidecar.schema import PREFIX, SIGNALS, Kind
from sidecar.snapshot import Block

DEFAULT_SIGNAL, DEFAULT_TARGET = "replica_demand", 1.0
#: Sums may be asked for over all models; of the others each model has its own.
_ADD_UP = frozenset(
    {
        "fleet_replica_demand",
        "fleet_offered_load_requests",
        "fleet_requests_running",
        "fleet_requests_waiting",
        "fleet_queued_gpu_seconds",
        "fleet_router_in_flight_requests",
    }
)


class BlindError(Exception):
    """There is no value now; the message says why."""


class AskedWrongError(Exception):
    """The trigger's metadata can't be used."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A trigger's metadata. `faults` are what can't be used of it."""

    signal: str = f"fleet_{DEFAULT_SIGNAL}"
    target: float = DEFAULT_TARGET
    activation: float = 0.0
    model: str = ""
    faults: tuple[str, ...] = ()

    @property
    def metric_name(self) -> str:
        """The same for the same metadata, in every process."""
        stem = f"{PREFIX}{self.signal.removeprefix('fleet_')}".replace("_", "-")
        return f"{stem}-{_safe(self.model)}" if self.model else stem


def read_ask(metadata: Mapping[str, str]) -> Ask:
    """Keys `signal`, `target`, `activation`, `modelName`; KEDA's own are passed over. Never fails."""
    faults: list[str] = []
    given = metadata.get("signal", DEFAULT_SIGNAL).removeprefix(PREFIX)
    signal = given if given.startswith("fleet_") else f"fleet_{given}"
    known = SIGNALS.get(signal)
    if known is None or known.kind is not Kind.GAUGE:
        faults.append(f"signal {given[:60]!r} is no gauge of the fleet; replica_demand is one")
        signal = f"fleet_{DEFAULT_SIGNAL}"
    target = _number(metadata, "target", DEFAULT_TARGET, faults)
    if not target > 0:
        faults.append("target must be above 0")
        target = DEFAULT_TARGET
    activation = _number(metadata, "activation", 0.0, faults)
    return Ask(signal, target, activation, metadata.get("modelName", ""), tuple(faults))


def value_of(ask: Ask, block: Block) -> float:
    """The number asked for. Raises AskedWrongError and BlindError."""
    if ask.faults:
        raise AskedWrongError("; ".join(ask.faults))
    found = [
        block.values[series.start]
        for series in block.layout.by_signal.get(ask.signal, ())
        if ask.model in ("", series.label("model_name"))
    ]
    present = [value for value in found if not isnan(value)]
    if not present:
        raise BlindError(why_blind(block, ask))
    if len(present) > 1 and ask.signal not in _ADD_UP:
        raise AskedWrongError(f"{ask.signal} doesn't add up over models: set modelName")
    value = sum(present)
    if not isfinite(value):
        raise BlindError(f"{ask.signal} is infinite")
    return value


def is_active(ask: Ask, block: Block) -> bool:
    """Whether there is work. Never fails: while nobody can see the replicas that there are, none may be switched
    off; while there is none, nothing but work at the router wakes one."""
    try:
        return value_of(ask, block) > ask.activation
    except BlindError:
        return block.get("fleet_replicas", state="ready") > 0
    except AskedWrongError:
        return True


def why_blind(block: Block, ask: Ask) -> str:
    """One line for whoever reads KEDA's log."""
    listed, ready, answering = (
        block.get("fleet_replicas", state=state) for state in ("listed", "ready", "answering")
    )
    if not listed > 0:
        return "no sidecar is listed, and no router tells of work"
    if answering > 0:
        return f"{answering:.0f} of {listed:.0f} replicas answer and none tells {ask.signal}" + (
            f" of {ask.model}" if ask.model else ""
        )
    return f"none of {listed:.0f} replicas answers ({ready:.0f} taken for ready)"


def _number(metadata: Mapping[str, str], key: str, default: float, faults: list[str]) -> float:
    text = metadata.get(key)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if isfinite(value):
        return value
    faults.append(f"{key} {text[:20]!r} is no number")
    return default


def _safe(text: str) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in text.lower())[:40]
