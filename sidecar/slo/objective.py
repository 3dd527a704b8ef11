"""What an objective is: plain values, whatever form the configuration has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import Any

from sidecar.schema import PROBE, RUNTIME
from sidecar.schema.model import Kind
from sidecar.slo import formulas
from sidecar.slo.windows import DAY, STANDARD, AlertWindow, Severity, duration

AVAILABILITY = "availability"
GOODPUT = "goodput"

#: Histograms that an objective may judge, by the name that a user writes.
LATENCIES: dict[str, str] = {
    signal.name.removesuffix("_seconds"): signal.name
    for signal in (*RUNTIME, *PROBE)
    if signal.kind is Kind.HISTOGRAM and signal.unit == "seconds"
}
#: Those of them that the sidecar's own probes observe, not the runtime.
PROBED = frozenset(LATENCIES) & {signal.name.removesuffix("_seconds") for signal in PROBE}

#: Outcomes of a request that availability counts; `cancelled` is the client's own doing and not among them.
GOOD_OUTCOMES = ("success",)
BAD_OUTCOMES = ("error", "timeout", "rejected")

#: Fewer bad events than this in a long window fire nothing, however large their share.
MIN_BAD_EVENTS = 5


@dataclass(frozen=True, slots=True)
class Objective:
    """A share of events that shall be good, over a trailing period.

    `signal` is a key of LATENCIES, `availability` or `goodput`; `threshold` is in seconds (latencies only);
    `limits` are the signals and thresholds that a request must all meet (goodput only). `method` is `share`,
    or `mean` to judge each interval by its mean where a runtime has only sum and count.
    """

    name: str
    signal: str
    objective: float
    period: float = 7 * DAY
    threshold: float | None = None
    limits: tuple[tuple[str, float], ...] = ()
    models: tuple[str, ...] = ("*",)
    targets: tuple[str, ...] = ("*",)
    method: str = "share"
    windows: tuple[AlertWindow, ...] = STANDARD
    min_bad_events: int = MIN_BAD_EVENTS

    @property
    def budget(self) -> float:
        return formulas.budget(self.objective)

    @property
    def probed(self) -> bool:
        """Whether it judges the sidecar's probes instead of the runtime's requests."""
        return self.signal in PROBED

    @property
    def terms(self) -> tuple[tuple[str, float], ...]:
        """Latency signals (as in the schema, without prefix) and thresholds that it consists of."""
        if self.signal == GOODPUT:
            return tuple((LATENCIES[signal], limit) for signal, limit in self.limits)
        if self.signal in LATENCIES and self.threshold is not None:
            return ((LATENCIES[self.signal], self.threshold),)
        return ()

    @property
    def spans(self) -> tuple[float, ...]:
        """All windows of its alerts, ascending, in seconds."""
        return tuple(sorted({span for one in self.windows for span in (one.short, one.long)}))

    @property
    def threshold_text(self) -> str:
        """The label `threshold`: seconds, or the limits of a goodput."""
        if self.signal == GOODPUT:
            return ",".join(f"{signal}={limit:g}" for signal, limit in self.limits)
        return "" if self.threshold is None else f"{self.threshold:g}"

    @property
    def fingerprint(self) -> str:
        """Changes when old events no longer tell anything about this objective."""
        judged = (self.name, self.signal, self.threshold, self.limits, self.method)
        return blake2b(repr(judged).encode(), digest_size=8).hexdigest()

    def covers(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    def covers_target(self, target: str) -> bool:
        return any(fnmatchcase(target, pattern) for pattern in self.targets)


def objectives_from_config(entries: Iterable[object]) -> tuple[Objective, ...]:
    """Objectives of a loaded configuration: its sections, or mappings with the keys that a user writes.

    Durations may be seconds, timedeltas or text (`800ms`), shares may be ratios or text (`95%`). ValueError
    or KeyError name what can't be understood; whether it makes sense is for `check`.
    """
    return tuple(_objective(_mapping(entry)) for entry in entries)


def _mapping(entry: object) -> Mapping[str, Any]:
    if isinstance(entry, Mapping):
        return entry
    names: Iterable[str] = getattr(type(entry), "model_fields", ()) or getattr(
        entry, "__dataclass_fields__", ()
    )
    return {name: getattr(entry, name) for name in names}


def _objective(entry: Mapping[str, Any]) -> Objective:
    signal = str(entry["signal"]).removeprefix("inference_").removesuffix("_seconds")
    threshold = entry.get("threshold")
    limits = entry.get("thresholds") or {}
    period = entry.get("period")
    least = entry.get("min_bad_events")
    return Objective(
        name=str(entry["name"]),
        signal=signal,
        objective=_share(entry["objective"]),
        period=7 * DAY if period is None else _seconds(period),
        threshold=None if threshold is None else _seconds(threshold),
        limits=tuple((str(one), _seconds(limit)) for one, limit in dict(limits).items()),
        models=tuple(entry.get("models") or ("*",)),
        targets=tuple(entry.get("targets") or ("*",)),
        method=str(entry.get("method") or "share"),
        windows=tuple(_window(_mapping(one)) for one in entry.get("windows") or ()) or STANDARD,
        min_bad_events=MIN_BAD_EVENTS if least is None else int(least),
    )


def _window(entry: Mapping[str, Any]) -> AlertWindow:
    return AlertWindow(
        Severity(str(entry["severity"])),
        _seconds(entry["short"]),
        _seconds(entry["long"]),
        _share(entry.get("budget") or 0.0),
        float(entry.get("factor") or 0.0),
    )


def _seconds(value: object) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return duration(value) if isinstance(value, str) else float(value)  # type: ignore[arg-type]


def _share(value: object) -> float:
    if isinstance(value, str) and value.endswith("%"):
        return round(float(value[:-1]) / 100, 12)
    return float(value)  # type: ignore[arg-type]
