"""Objectives, as far as their form goes; what they mean for alerts is judged where the burn rates are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from sidecar.config.forms import Choice, Form, Word, Words, nearest
from sidecar.config.numbers import Count, Duration, Number, OneOfDurations, Share
from sidecar.config.problem import Mistake, shown
from sidecar.config.section import Section
from sidecar.config.targets import NAME

DAY = 86_400.0
PERIODS = (7 * DAY, 28 * DAY, 30 * DAY)

LATENCY_SIGNALS = (
    "time_to_first_token",
    "inter_token_latency",
    "time_per_output_token",
    "e2e_request_latency",
    "request_queue_time",
)
#: Of the sidecar's own probes: one observation a probe, or a gap of one.
PROBE_SIGNALS = ("probe_time_to_first_token", "probe_inter_token_latency")
SloSignal = Literal[
    "time_to_first_token",
    "inter_token_latency",
    "time_per_output_token",
    "e2e_request_latency",
    "request_queue_time",
    "probe_time_to_first_token",
    "probe_inter_token_latency",
    "availability",
    "goodput",
]

_THRESHOLD = Duration(low=0, high=86_400, above=True)
_PATTERN = Words(
    each=Word(pattern=r"[^\x00-\x1f]{1,256}", what="a pattern", like='"llama-*"'),
    many="patterns",
    empty=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds(Form):
    """Latency signals and the threshold of each."""

    def read(self, value: Any) -> dict[str, float]:
        if not isinstance(value, dict):
            raise Mistake("isn't a mapping", "write it like {time_to_first_token: 1s}", echo=False)
        read = {}
        for name, threshold in value.items():
            if name not in LATENCY_SIGNALS:
                mend = nearest(name, LATENCY_SIGNALS) or f"there are {', '.join(LATENCY_SIGNALS)}"
                raise Mistake(f"{shown(name)} isn't a latency signal", mend, echo=False)
            try:
                read[name] = _THRESHOLD.read(threshold)
            except Mistake as mistake:
                raise Mistake(
                    f"{name}: {shown(threshold)} {mistake.says}", mistake.mend, echo=False
                ) from None
        return read

    def write(self, value: dict[str, float]) -> dict[str, str]:
        return {name: _THRESHOLD.write(threshold) for name, threshold in value.items()}

    def describe(self) -> str:
        return "mapping of latency signals to durations"


class AlertWindow(Section):
    """One pair of windows; it fires while both burn faster than the factor."""

    model_config = ConfigDict(validate_default=True)

    severity: Annotated[Literal["page", "ticket"], Choice(), "Who is told."]
    short: Annotated[float, Duration(low=10, high=30 * DAY), "Short window: how fast the alert ends."]
    long: Annotated[float, Duration(low=60, high=30 * DAY), "Long window: how sure the alert is."]
    budget: Annotated[
        float | None,
        Share(above=True, optional="null"),
        "Share of the period's error budget that is spent when it fires; or give `factor`.",
    ] = None
    factor: Annotated[
        float | None,
        Number(low=0, high=10_000, above=True, optional="null"),
        "Burn rate from which it fires.",
    ] = None

    @field_validator("long")
    @classmethod
    def _longer(cls, long: float, info: ValidationInfo) -> float:
        if long <= info.data.get("short", 0.0):
            raise Mistake("is not longer than short", "the long window is usually 12 times the short one")
        return long

    @field_validator("factor", mode="after")
    @classmethod
    def _one_of_two(cls, factor: float | None, info: ValidationInfo) -> float | None:
        if "budget" in info.data and (info.data["budget"] is None) == (factor is None):
            raise Mistake("budget and factor say the same", "give one of the two", echo=False)
        return factor


class Slo(Section):
    """An objective: the share of good events over a period."""

    model_config = ConfigDict(validate_default=True)  # what is missing depends on the signal

    name: Annotated[str, NAME, "Value of the label `slo`; unique."]
    signal: Annotated[SloSignal, Choice(), "What is judged."]
    threshold: Annotated[
        float | None,
        Duration(low=0, high=86_400, above=True, optional="null"),
        "A latency signal's event is good up to here; required for these and for no other.",
    ] = None
    thresholds: Annotated[
        dict[str, float],
        Thresholds(),
        "`goodput`: a request is good that keeps every one of these; known as bounds.",
    ] = Field(default={})
    objective: Annotated[float, Share(above=True, below=True), "Share of good events."]
    period: Annotated[float, OneOfDurations(seconds=PERIODS), "Period of the error budget."] = 7 * DAY
    models: Annotated[tuple[str, ...], _PATTERN, "Patterns of the models' names."] = ("*",)
    targets: Annotated[tuple[str, ...], _PATTERN, "Patterns of the targets' names."] = ("*",)
    method: Annotated[
        Literal["share", "mean"],
        Choice(),
        "`mean` judges the mean of each interval, where a runtime has only sums; marked as estimated.",
    ] = "share"
    windows: Annotated[
        tuple[AlertWindow, ...], "Own alert windows; empty is the usual four pairs, 5m and 1h to 6h and 3d."
    ] = ()
    min_bad_events: Annotated[
        int, Count(low=1, high=1_000_000), "Bad events in the long window below which no alert fires."
    ] = 5

    @field_validator("threshold")
    @classmethod
    def _threshold_fits(cls, threshold: float | None, info: ValidationInfo) -> float | None:
        signal = info.data.get("signal")
        if signal in (*LATENCY_SIGNALS, *PROBE_SIGNALS) and threshold is None:
            raise Mistake(f"required for {signal}", "write it like threshold: 800ms", echo=False)
        if signal in ("availability", "goodput") and threshold is not None:
            mend = "give thresholds instead" if signal == "goodput" else "leave it out"
            raise Mistake(f"{signal} has none", mend, echo=False)
        return threshold

    @field_validator("thresholds")
    @classmethod
    def _thresholds_fit(cls, thresholds: dict[str, float], info: ValidationInfo) -> dict[str, float]:
        signal = info.data.get("signal")
        if signal == "goodput" and not thresholds:
            raise Mistake(
                "required for goodput",
                "write it like {time_to_first_token: 1s, time_per_output_token: 50ms}",
                echo=False,
            )
        if signal and signal != "goodput" and thresholds:
            raise Mistake(f"{signal} has none", "they belong to the signal goodput", echo=False)
        return thresholds

    @field_validator("method")
    @classmethod
    def _mean_of_latency(cls, method: str, info: ValidationInfo) -> str:
        if method == "mean" and info.data.get("signal") in ("availability", "goodput"):
            raise Mistake(f"{info.data['signal']} has no mean", "leave method out", echo=False)
        return method
