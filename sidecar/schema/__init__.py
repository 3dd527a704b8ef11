"""The telemetry schema as data: every signal's name, type, unit, labels, aggregation and meaning.

Everybody may import it; it imports nobody.
"""

from __future__ import annotations

from sidecar.schema.derived import DERIVED, SLO
from sidecar.schema.fleet import FLEET
from sidecar.schema.gpu import GPU
from sidecar.schema.itself import ITSELF
from sidecar.schema.life import LIFE, SCRAPE_RESULTS, STARTUP_PHASES
from sidecar.schema.model import PREFIX, Agg, Kind, Method, Scope, Signal, Status
from sidecar.schema.probe import PROBE, PROBE_RESULTS
from sidecar.schema.runtime import RUNTIME

GROUPS: dict[str, tuple[Signal, ...]] = {
    "Runtime": RUNTIME,
    "Life of a target": LIFE,
    "Derived": DERIVED,
    "SLO": SLO,
    "Probe": PROBE,
    "GPU": GPU,
    "Fleet": FLEET,
    "The sidecar itself": ITSELF,
}

#: Every signal by its name without the prefix.
SIGNALS: dict[str, Signal] = {signal.name: signal for group in GROUPS.values() for signal in group}

__all__ = [
    "GROUPS",
    "PREFIX",
    "PROBE",
    "PROBE_RESULTS",
    "RUNTIME",
    "SCRAPE_RESULTS",
    "SIGNALS",
    "STARTUP_PHASES",
    "Agg",
    "Kind",
    "Method",
    "Scope",
    "Signal",
    "Status",
]
