"""Windows of multi-window, multi-burn-rate alerts, as data.

The shares are those of the SRE workbook (chapter 5), as the usual generators ship them. A factor is never
below 1: an objective that burns slower than 1 is going to be met, so nobody needs to act.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from sidecar.slo import formulas

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


class Severity(StrEnum):
    """Who is told: a page wakes somebody, a ticket waits for the morning."""

    PAGE = "page"
    TICKET = "ticket"


@dataclass(frozen=True, slots=True)
class AlertWindow:
    """One condition of an alert: both windows (seconds) burn faster than a factor.

    The factor follows from `share`, the share of the period's budget that is gone when it fires, unless
    `fixed_factor` gives it.
    """

    severity: Severity
    short: float
    long: float
    share: float = 0.0
    fixed_factor: float = 0.0

    def factor(self, period: float) -> float:
        """The burn rate above which this condition holds."""
        return self.fixed_factor or max(1.0, formulas.factor(self.share, period, self.long))


STANDARD: tuple[AlertWindow, ...] = (
    AlertWindow(Severity.PAGE, 5 * MINUTE, HOUR, 0.02),
    AlertWindow(Severity.PAGE, 30 * MINUTE, 6 * HOUR, 0.05),
    AlertWindow(Severity.TICKET, 2 * HOUR, DAY, 0.10),
    AlertWindow(Severity.TICKET, 6 * HOUR, 3 * DAY, 0.10),
)

_UNITS = {"ms": 0.001, "s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def duration(text: str) -> float:
    """Seconds of `800ms`, `5m`, `1h30m`, `7d`. ValueError for anything else."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration: write 800ms, 5m, 1h or 7d")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def duration_text(seconds: float) -> str:
    """The shortest way to write a duration in PromQL: `5m`, `1d`, `90s`, `500ms`."""
    milliseconds = round(seconds * 1000)
    for unit in ("d", "h", "m", "s"):
        size = round(_UNITS[unit] * 1000)
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"
