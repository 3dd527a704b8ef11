"""The derived signals of one target as a stage of its line: a block for each snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import nan
from operator import itemgetter

from sidecar.schema import Status
from sidecar.signals.accepted import Objectives
from sidecar.signals.catalogue import FORMULAS
from sidecar.signals.energy import COST, ENERGY, Meter
from sidecar.signals.formula import Formula, Way, choose, provenance, unusable
from sidecar.signals.gap_line import FROM_GAPS, IDLE_GAP
from sidecar.signals.inputs import bind, models_of
from sidecar.signals.model import ABSENT_ROWS, ROWS, ModelSignals
from sidecar.signals.peaks import GAUGES
from sidecar.signals.service_time import FROM_CONFIG, SERVICE_TIME
from sidecar.signals.settings import GpuFigures, ReadGpus, Settings
from sidecar.signals.state import Remembered, freeze
from sidecar.snapshot import (
    EMPTY_LAYOUT,
    Block,
    Labels,
    Layout,
    LayoutBuilder,
    Provenance,
    Series,
    Snapshot,
    is_absent,
)

#: Models of one target that are derived for; beyond these a model's own signals are still there.
MOST_MODELS = 256

_SAFE = next(place for place, (signal, _) in enumerate(ROWS) if signal == "safe_to_remove")
#: One of these is there wherever anything of a model's work is.
_FROM_A_MODEL = ("compute_seconds_total", "queue_seconds_total", "arrivals_total", *GAUGES)
_TOLD_GAPS = tuple(Formula(IDLE_GAP.signal, (FROM_GAPS,)) if one is IDLE_GAP else one for one in FORMULAS)
_UNKNOWN_GPUS = GpuFigures()


class Signals:
    """Derives the signals of one target. Feed it each snapshot of it, after the stage of the objectives.

    Absent while the target's own data is absent, but for energy and cost: these a runtime causes that is down,
    too. `saved` is what an earlier process's `saved()` returned; state that can't be used is told in
    `problems`.
    """

    def __init__(
        self,
        settings: Settings = Settings(),  # noqa: B008  (frozen)
        *,
        gpus: ReadGpus | None = None,
        saved: Mapping[str, bytes] | None = None,
    ) -> None:
        self.settings = settings
        self.problems: list[str] = []
        self.provenance: tuple[Provenance, ...] = ()
        self._gpus = gpus
        self._facts = _facts(settings, _UNKNOWN_GPUS)
        self._saved = saved or {}
        self._remembered: Remembered | None = None
        self._meter = Meter(settings.gpu_hour_price)
        self._objectives = Objectives()
        self._models: dict[str, ModelSignals] = {}
        self._active: list[ModelSignals] = []
        self._seen: Layout | None = None
        self._told_by: tuple[Provenance, ...] = ()  # what was said of the runtime's signals then
        self._layout: Layout = EMPTY_LAYOUT
        self._pick: Callable[[Sequence[float]], tuple[float, ...]] = tuple
        self._values: list[float] = []
        self._last: Snapshot | None = None

    def feed(self, snapshot: Snapshot) -> Block | None:
        """The block of this snapshot's moment; None before the target ever had data."""
        seen = self._gpus() if self._gpus is not None else _UNKNOWN_GPUS
        gpus = self._with_given(seen)
        self._meter.feed(snapshot.mono, gpus)
        self._last = snapshot
        if (facts := _facts(self.settings, seen)) != self._facts:
            self._facts, self._seen = facts, None  # what can be told is more or less now
        data = snapshot.data
        if not data.layout.size:
            return self._block([nan] * len(self._values), present=nan)
        objectives_changed = self._objectives.read(snapshot.extra)
        if data.layout is not self._seen or objectives_changed or snapshot.provenance != self._told_by:
            self._compile(snapshot)
        if snapshot.rebased:
            for one in self._models.values():
                one.polls.rebase()
        if not snapshot.up:
            return self._block(self._held(), present=1.0)
        age = snapshot.time - snapshot.life.get("target_start_timestamp_seconds")
        values: list[float] = []
        for model in self._active:
            values += model.feed(
                data.values,
                snapshot.mono,
                epoch=snapshot.epoch,
                age=age,
                held=self._objectives.held(model.name),
                gpus=gpus,
            )
        self._values = values
        return self._block(values, present=1.0)

    def seed(self, *, service_time: float | None = None, idle_gap: float | None = None) -> None:
        """Take over what a probe or the fleet knows of replicas like this one, in seconds: it counts until the
        replica itself has shown it. None leaves a seed as it is."""
        now = self.settings
        self.settings = replace(
            now,
            service_time=now.service_time if service_time is None else service_time,
            idle_gap=now.idle_gap if idle_gap is None else idle_gap,
        )
        self._facts = _facts(self.settings, _UNKNOWN_GPUS)
        self._seen = None  # what can be told may be more now
        for model in self._models.values():
            model.decision.seed(service_time, idle_gap)

    def saved(self) -> dict[str, bytes]:
        """What a later process goes on from, by key, for a store."""
        if self._last is None or not self._models:
            return {}
        return freeze(self._last, self._models)

    def _with_given(self, seen: GpuFigures) -> GpuFigures:
        given = self.settings.gpus
        if given is None or seen.count == seen.count:
            return seen
        return GpuFigures(given, seen.joules, seen.memory_used_ratio)

    def _held(self) -> list[float]:
        """The last values while those of the runtime are held: but nobody knows whether it is idle now."""
        values = list(self._values)
        values[_SAFE :: len(ROWS)] = [nan] * len(self._active)
        return values

    def _block(self, values: list[float], *, present: float) -> Block | None:
        if self._layout is EMPTY_LAYOUT:
            return None
        times = [model.decision.service_time for model in self._active]
        seeded = any(one.seed for one in times) and all(one.measured is None for one in times)
        return Block(
            self._layout,
            self._pick(
                [
                    *values,
                    self._meter.joules,
                    self._meter.cost,
                    present,
                    nan if seeded else present,
                    present if seeded else nan,
                ]
            ),
        )

    # When series have changed ---------------------------------------------------------------------

    def _compile(self, snapshot: Snapshot) -> None:
        self._seen, self._told_by = snapshot.data.layout, snapshot.provenance
        base: Labels = (("target", snapshot.target), ("runtime", snapshot.runtime))
        places: list[int] = []
        build = LayoutBuilder()
        self._active = []
        chosen = choose((ENERGY, COST), self._facts)
        models = list(models_of(snapshot.data.layout).items())
        self._tell_of_more(snapshot.target, len(models))
        lost: set[str] = set()
        for name, series in models[:MOST_MODELS]:
            usable = _usable(series, snapshot)
            ways = self._ways(name, usable)
            if usable is not series:
                lost |= self._ways(name, series).keys() - ways.keys()
                series = usable
            if not any(signal in ways for signal in _FROM_A_MODEL):
                continue
            chosen = ways | chosen
            model = self._model(name, snapshot)
            model.bind(bind(series, ways, model.decision.objective), ways)
            available = self._facts | {one.signal.name for one in series} | ways.keys()
            labels = (*base, ("model_name", name)) if name else base
            for place, signal, own in model.rows(available):
                places.append(len(self._active) * len(ROWS) + place)
                build.add(signal, (*labels, *own))
            self._active.append(model)
        self._values = ABSENT_ROWS * len(self._active)
        self._forget_the_oldest()
        places += self._add_of_target(build, base, chosen, lost)
        self._layout = build.build() if places else EMPTY_LAYOUT
        self._pick = itemgetter(*places) if len(places) > 1 else lambda values: (values[places[0]],)

    def _ways(self, model: str, series: tuple[Series, ...]) -> dict[str, Way]:
        available = self._facts | {one.signal.name for one in series}
        if self._objectives.judge(model):
            available |= {"slo_burn_rate"}
        return choose(FORMULAS if self.settings.gaps_from_tokens else _TOLD_GAPS, available)

    def _model(self, name: str, snapshot: Snapshot) -> ModelSignals:
        if self._remembered is None:
            self._remembered = Remembered(self._saved, snapshot, self.problems)
        model = self._models.get(name)
        if model is None:
            model = self._remembered.model(name, self.settings)
        self._models.pop(name, None)
        self._models[name] = model  # the newest stands last
        return model

    def _tell_of_more(self, target: str, models: int) -> None:
        told = f"target {target} serves more than {MOST_MODELS} models: those beyond have no derived signals"
        if models > MOST_MODELS and told not in self.problems:
            self.problems.append(told)

    def _forget_the_oldest(self) -> None:
        for name in list(self._models)[: max(len(self._models) - MOST_MODELS, 0)]:
            del self._models[name]

    def _add_of_target(
        self, build: LayoutBuilder, base: Labels, chosen: dict[str, Way], lost: set[str]
    ) -> list[int]:
        """Series that belong to the target as a whole; with one model they are that model's. `lost` are the
        signals that would be there if what the page says could be used."""
        first = len(self._active) * len(ROWS)
        energy, cost, present, measured, seeded = range(first, first + 5)
        places = []
        only = self._active[0].name if len(self._active) == 1 else ""
        labels = (*base, ("model_name", only)) if only else base
        if "energy_joules_total" in chosen:
            build.add("energy_joules_total", labels)
            places.append(energy)
        if "cost_total" in chosen:
            build.add("cost_total", (*labels, ("currency", self.settings.currency)))
            places.append(cost)
        self.provenance = tuple(
            unusable(formula) if formula.signal in lost else provenance(formula, chosen.get(formula.signal))
            for formula in FORMULAS
        )
        for record in self.provenance:
            told = _told(record)
            build.add("signal_info", (*base, *told))
            if record.signal != SERVICE_TIME.signal or chosen.get(record.signal) in (None, FROM_CONFIG):
                places.append(present)
                continue
            places.append(measured)
            build.add("signal_info", (*base, *_told(provenance(SERVICE_TIME, FROM_CONFIG))))
            places.append(seeded)
        return places


def _usable(series: tuple[Series, ...], snapshot: Snapshot) -> tuple[Series, ...]:
    """The series without those that are on the page with a number that can't be."""
    invalid = {one.signal.partition(":")[0] for one in snapshot.provenance if one.status is Status.INVALID}
    if not invalid:
        return series
    values = snapshot.data.values
    return tuple(
        one
        for one in series
        if one.signal.name not in invalid
        or not is_absent(values[one.start] + (values[one.sum_index] if one.bounds else 0.0))
    )


def _facts(settings: Settings, gpus: GpuFigures) -> frozenset[str]:
    """What is known beside a target's own signals, by the names that formulas use."""
    facts: set[str] = set()
    if gpus.count == gpus.count:
        facts.add("gpu_info")
    if gpus.joules == gpus.joules:
        facts.add("gpu_energy_joules_total")
    if gpus.memory_used_ratio == gpus.memory_used_ratio:
        facts |= {"gpu_memory_used_bytes", "gpu_memory_total_bytes"}
    if settings.gpus is not None:
        facts.add("targets.capacity.gpus")
    if settings.gpu_hour_price is not None:
        facts.add("cost.gpu_hour_price")
    if settings.service_time is not None:
        facts.add("targets.capacity.service_time")
    return frozenset(facts)


def _told(record: Provenance) -> Labels:
    """Labels of a row of `signal_info`, as those of a runtime's signals have them."""
    known: Labels = (("signal", record.signal), ("status", record.status.value))
    if record.status != "ok":
        return known
    return (
        *known,
        ("method", record.method.value),
        ("source", record.source),
        ("scope", record.scope.value),
    )
