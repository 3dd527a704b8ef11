"""What probes have shown, as a block: counted over the life of the process, told while it is fresh."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from math import inf, nan

from sidecar.probe.stream import Outcome
from sidecar.schema import PROBE_RESULTS, Method, Scope, Status
from sidecar.snapshot import EMPTY_BLOCK, EMPTY_LAYOUT, Block, Layout, LayoutBuilder, Provenance

_TAIL = (0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
#: Bounds in seconds: those of vLLM's own histograms, so that a threshold which is exact there is exact here.
#: They are the same for every runtime: sums over a mixed fleet need no translation.
FIRST_BOUNDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, *_TAIL, 160.0, 640.0, 2560.0, inf)
#: Three below vLLM's shortest: there small models live.
GAP_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, *_TAIL, inf)

FIRST, GAP = "probe_time_to_first_token_seconds", "probe_inter_token_latency_seconds"
BUNDLED = "tokens come several at a time: a gap between events is none between tokens"


@dataclass(slots=True)
class _Distribution:
    """A histogram as blocks have it: cumulative counts, then the sum."""

    bounds: tuple[float, ...]
    numbers: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.numbers = [0.0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        for place in range(bisect_left(self.bounds, value), len(self.bounds)):
            self.numbers[place] += 1
        self.numbers[-1] += value


@dataclass(slots=True)
class _Model:
    first: _Distribution = field(default_factory=lambda: _Distribution(FIRST_BOUNDS))
    gaps: _Distribution = field(default_factory=lambda: _Distribution(GAP_BOUNDS))
    results: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PROBE_RESULTS, 0.0))
    prompt: float = nan
    generated: float = 0.0
    success: float = nan
    stale_at: float = -inf

    def numbers(self, now: float) -> list[float]:
        return [
            self.success if now < self.stale_at else nan,
            *self.first.numbers,
            *self.gaps.numbers,
            *self.results.values(),
            self.prompt,
            self.generated,
        ]


class Figures:
    """The counts of one target's probes, by model. They are the sidecar's own: they outlive a reload of the
    config and a restart of the runtime."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._models: dict[str, _Model] = {}
        self._source = ""
        self._recorded = 0
        self._state: tuple[object, ...] = ()  # what `_block` was made for
        self._block = EMPTY_BLOCK
        self._key: tuple[object, ...] = ()  # what `_layout` was made for
        self._layout: Layout = EMPTY_LAYOUT
        self.provenance: tuple[Provenance, ...] = ()

    def record(self, model: str, outcome: Outcome, source: str, stale_at: float) -> None:
        """Count a probe of a model. `source` is what was asked (`POST /v1/completions`); its success is told
        until `stale_at`, a moment of the snapshots' monotonic clock."""
        of = self._models.setdefault(model, _Model())
        self._source = source
        self._recorded += 1
        of.results[outcome.result] += 1
        of.success, of.stale_at = float(outcome.ok), stale_at
        of.generated += outcome.generated
        if outcome.prompt is not None:
            of.prompt = outcome.prompt + (0.0 if of.prompt != of.prompt else of.prompt)
        if outcome.ok:
            of.first.observe(outcome.first)
            for gap in outcome.gaps:
                of.gaps.observe(gap)

    def block(self, runtime: str, now: float) -> Block | None:
        """What is known at `now`; None before the first probe."""
        if not self._models:
            return None
        models = self._models.values()
        state = (runtime, self._recorded, *(now < one.stale_at for one in models))
        if state != self._state:
            self._state = state
            first = any(one.first.numbers[-2] for one in models)
            gaps = any(one.gaps.numbers[-2] for one in models)
            if (key := (runtime, self._source, len(models), first, gaps)) != self._key:
                self._key = key
                self._compile(runtime, first, gaps)
            values = [number for one in models for number in one.numbers(now)]
            self._block = Block(self._layout, (*values, *(1.0,) * len(self.provenance)))
        return self._block

    def _compile(self, runtime: str, first: bool, gaps: bool) -> None:
        base = {"target": self._target} | ({"runtime": runtime} if runtime else {})
        build = LayoutBuilder()
        for model in self._models:
            labels = base | ({"model_name": model} if model else {})
            build.add("probe_success", labels)
            build.add(FIRST, labels, FIRST_BOUNDS)
            build.add(GAP, labels, GAP_BOUNDS)
            for result in PROBE_RESULTS:
                build.add("probe_requests_total", labels | {"result": result})
            build.add("probe_prompt_tokens_total", labels)
            build.add("probe_generation_tokens_total", labels)
        self.provenance = (
            self._told("probe_success", True),
            self._told(FIRST, first),
            self._told(GAP, gaps, BUNDLED if first else ""),
        )
        for record in self.provenance:
            known = {"method": record.method.value, "source": record.source, "scope": record.scope.value}
            said = {"signal": record.signal, "status": record.status.value}
            build.add("signal_info", base | said | (known if record.status is Status.OK else {}))
        self._layout = build.build()

    def _told(self, signal: str, seen: bool, note: str = "") -> Provenance:
        status = Status.OK if seen else Status.NOT_OBSERVABLE
        why = "" if seen else note or "no probe has succeeded yet"
        return Provenance(signal, status, Method.PROBE, self._source, Scope.CLIENT, why)
