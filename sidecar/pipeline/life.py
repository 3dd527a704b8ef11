"""The life signals of a target as a block: compiled when what runs or what is covered changes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

from sidecar.runtimes.adapter import Facts
from sidecar.schema import SCRAPE_RESULTS, STARTUP_PHASES
from sidecar.snapshot import Block, Layout, LayoutBuilder, Provenance

#: Bounds of target_scrape_duration_seconds.
DURATION_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, inf)


@dataclass(slots=True)
class Health:
    """What is counted over a target's whole life, and its present state. NaN is not known."""

    up: float = 0.0
    ready: float = nan
    live: float = nan
    last_success: float = nan
    restarts: int = 0
    start_time: float = nan
    progress_age: float = nan
    wedged: float = nan
    unmapped: float = nan


class Life:
    """Builds the life block of one target."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._results = dict.fromkeys(SCRAPE_RESULTS, 0.0)
        self._durations = [0.0] * (len(DURATION_BOUNDS) + 1)
        self._layout = Layout(())
        self._ones = 0
        self._key: tuple[object, ...] = ()

    def scraped(self, result: str, duration: float) -> None:
        self._results[result] += 1
        for place in range(bisect_left(DURATION_BOUNDS, duration), len(DURATION_BOUNDS)):
            self._durations[place] += 1
        self._durations[-1] += duration

    def block(
        self,
        runtime: str,
        health: Health,
        phases: dict[str, float],
        facts: Facts,
        provenance: tuple[Provenance, ...],
    ) -> Block:
        key = (runtime, facts, provenance)
        if key != self._key:
            self._key = key
            self._compile(runtime, facts, provenance)
        values = [
            health.up,
            health.ready,
            health.live,
            health.last_success,
            *self._durations,
            *self._results.values(),
            float(health.restarts),
            health.start_time,
            *(phases.get(phase, nan) for phase in STARTUP_PHASES),
            health.progress_age,
            health.wedged,
            health.unmapped,
        ]
        return Block(self._layout, (*values, *(1.0,) * self._ones))

    def _compile(self, runtime: str, facts: Facts, provenance: Sequence[Provenance]) -> None:
        base = {"target": self._target} | ({"runtime": runtime} if runtime else {})
        build = LayoutBuilder()
        for name in ("target_up", "target_ready", "target_live", "target_last_success_timestamp_seconds"):
            build.add(name, base)
        build.add("target_scrape_duration_seconds", base, DURATION_BOUNDS)
        for result in self._results:
            build.add("target_scrapes_total", base | {"result": result})
        build.add("target_restarts_total", base)
        build.add("target_start_timestamp_seconds", base)
        for phase in STARTUP_PHASES:
            build.add("startup_phase_seconds", base | {"phase": phase})
        for name in ("progress_age_seconds", "target_wedged", "unmapped_families"):
            build.add(name, base)
        told = build.build().size
        self._infos(build, base, facts, provenance)
        self._layout = build.build()
        self._ones = self._layout.size - told

    @staticmethod
    def _infos(
        build: LayoutBuilder, base: dict[str, str], facts: Facts, provenance: Sequence[Provenance]
    ) -> None:
        runs = {
            "version": facts.version,
            "engine": facts.engine,
            "engine_version": facts.engine_version,
            "profile": facts.profile,
        }
        if any(runs.values()):
            build.add("runtime_info", base | {key: value for key, value in runs.items() if value})
        for model in facts.models:
            about = {
                "model_name": model.name,
                "model_root": model.root,
                "quantization": model.quantization,
                "max_context_tokens": model.max_context_tokens,
            }
            build.add("model_info", base | {key: value for key, value in about.items() if value})
        for record in provenance:
            known = {"method": record.method.value, "source": record.source, "scope": record.scope.value}
            build.add(
                "signal_info",
                base
                | {"signal": record.signal, "status": record.status.value}
                | (known if record.status == "ok" else {}),
            )
