"""One target from answers to a snapshot."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Protocol

from sidecar.exposition import PageError, PageReader, Reading, Shape, peek_families
from sidecar.pipeline.life import Health, Life
from sidecar.pipeline.progress import Progress
from sidecar.pipeline.ranks import Ranks
from sidecar.pipeline.replicas import Replicas, withheld
from sidecar.pipeline.resets import ResetDetector
from sidecar.pipeline.startup import Startup
from sidecar.runtimes.adapter import Adapter, Answer, Endpoint, Facts
from sidecar.runtimes.binding import Binding
from sidecar.runtimes.build import DEFAULT_MAX_SERIES
from sidecar.runtimes.detection import PROBES
from sidecar.runtimes.registry import Registry
from sidecar.snapshot import EMPTY_BLOCK, Block, Provenance, Snapshot

log = logging.getLogger(__name__)

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the pipeline needs to know of a target. Times in seconds."""

    name: str = "local"
    runtime: str = AUTO
    draining: bool = False  # read what the runtime gives to one reader only
    per_rank: bool = False
    staleness: float = 10.0
    wedged_after: float = 60.0
    max_series: int = DEFAULT_MAX_SERIES
    slots: int | None = None  # request_slots where the runtime doesn't tell


class Stage(Protocol):
    """A room further down the line that adds a block to each snapshot; it sees those of the stages before."""

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        """Where the values of its block come from, as far as `signal_info` speaks of them."""
        ...

    def feed(self, snapshot: Snapshot) -> Block | None: ...


class TargetPipeline:
    """Reads, binds, evaluates and judges one target. Pure: it is handed answers and clocks."""

    def __init__(self, settings: Settings, registry: Registry, stages: Sequence[Stage] = ()) -> None:
        self.settings = settings
        self.detection = ""
        self.adapter: Adapter | None = None
        self.dropped = 0
        self.bad_lines = 0
        self.shape = Shape((), {}, ())
        self.binding: Binding | None = None
        self.alternates = False  # whether several replicas answer in turn: then nothing is told
        self.coverage: tuple[Provenance, ...] = ()  # what is there of the schema now, and why not
        self._told_by: Binding | None = None  # that it is of, while
        self._unusable: list[int] = []  # of its outputs can't be used
        self._former: Adapter | None = None  # of what answered before something else seemed to
        self._page = self.shape  # as it came, that the binding is for
        self._reread = self._rebased = False
        self._answered: tuple[bool, str] = (False, "")  # the last time
        self._registry = registry
        self._stages = tuple(stages)
        self._failing: set[Stage] = set()
        self._unknown = PageReader(lambda name: False)  # only tells whether it is a metrics page
        self._learnt: dict[str, Answer] = {}
        self._by_endpoints = False
        self._bound_for: tuple[object, ...] = ()
        self._ranks = Ranks()
        self._resets = ResetDetector()
        self._replicas = Replicas()
        self._progress = Progress(settings.wedged_after)
        self._startup = Startup()
        self._life = Life(settings.name)
        self._health = Health()
        self._epoch = 0
        self._data = EMPTY_BLOCK
        self._data_at = nan
        if settings.runtime != AUTO:
            self.adapter = registry.adapter(settings.runtime, draining=settings.draining)
            self.detection = "set in the config"

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """What to ask of the target next."""
        return PROBES if self.adapter is None else self.adapter.endpoints

    @property
    def runtime(self) -> str:
        return "" if self.adapter is None else self.adapter.name

    @property
    def facts(self) -> Facts:
        return Facts() if self.adapter is None else self.adapter.facts

    def learn(self, name: str, answer: Answer) -> None:
        """An endpoint that isn't a page has answered."""
        self._learnt[name] = answer
        if self.adapter is not None:
            self.adapter.learn(name, answer)

    def pin_version(self, version: str) -> None:
        """State the runtime's version where no endpoint can be asked: a captured page."""
        answer = Answer(200, json.dumps({"version": version}).encode())
        self.learn("version", answer)

    def feed(
        self,
        pages: dict[str, Answer],
        *,
        time: float,
        mono: float,
        elapsed: Callable[[], float] = lambda: 0.0,
    ) -> Snapshot:
        """One tick: the answers of the page endpoints become a snapshot. Never raises for what they hold.

        `elapsed` tells the seconds since the tick began, fetching included.
        """
        self._reread = self._rebased = False
        good = {name: answer for name, answer in pages.items() if answer.ok}
        result, reason = "ok", ""
        if good:
            try:
                self._understand(good, time, mono)
            except PageError as error:
                result, reason = error.result, error.detail
        else:
            first = next(iter(pages.values()), Answer(error="refused"))
            result, reason = first.error or "http_error", first.detail
        if result != "ok":
            self._failed(result, time)
        self._life.scraped(result, elapsed())
        self._answered = (result == "ok", reason)
        return self._publish(*self._answered, time, mono)

    def look_again(self, *, time: float, mono: float) -> Snapshot:
        """The snapshot of a later moment without another tick: what is past its age is gone, and who gave it
        is no longer up."""
        self._reread = self._rebased = False
        if not mono - self._data_at <= self.settings.staleness:
            self._health.up = 0.0
            self._answered = (False, self._answered[1] or "not read for as long as numbers last")
        return self._publish(*self._answered, time, mono)

    def _understand(self, pages: dict[str, Answer], time: float, mono: float) -> None:
        if self.adapter is None and not self._detect(pages):
            for answer in pages.values():
                self._unknown.read(answer.body, whole=answer.whole)
            self._health.up, self._health.last_success = 1.0, time
            return
        assert self.adapter is not None
        reading = self.adapter.read(pages, time)
        if reading.shape is not self.shape:
            if self.settings.runtime == AUTO and self._changed_runtime(reading.shape):
                self._understand(pages, time, mono)
                return
            self.shape = reading.shape
            self.bad_lines += len(reading.shape.bad_lines)
        self.adapter.observe(reading)
        whole = self._ranks.keep(reading, self.adapter.rank_labels)
        binding = self._bind(whole)
        values, unusable = self._evaluated(binding, whole)
        start = self.facts.start_time
        restarted = self._resets.restarted(binding, values, start)
        told = start if self.adapter.start_is_told else None
        raw = self.adapter.counts
        if raw is None:
            self._replicas.look(binding, values, fell=self._resets.fell, start=told, mono=mono)
        else:
            self._replicas.look(raw.names, raw.values, fell=raw.fell, start=told, mono=mono)
        if self._replicas.alternate:
            self._withhold(binding.told(unusable), time, mono)
            return
        if restarted or self._replicas.settled:
            self._begin_anew(reading, restarted=restarted)
            # Again: what was held or counted up of the old process is forgotten now.
            whole, binding = reading, self._bind(reading)
            values, unusable = self._evaluated(binding, whole)
            self._resets.begin(binding, values)
        if binding is not self._told_by or unusable != self._unusable:
            self._told_by, self._unusable = binding, unusable
            self.coverage = binding.told(unusable)
        self._data, self._data_at = Block(binding.layout, values), mono
        self._progress.feed(binding, whole.values, self._data, mono)
        self._judge(time)

    def _evaluated(self, binding: Binding, reading: Reading) -> tuple[tuple[float, ...], list[int]]:
        """The numbers of a reading, and which of them can't be used."""
        unusable: list[int] = []
        values = binding.evaluate(
            reading.values,
            healthy=self.facts.live is not False,
            unusable=unusable,
            below_zero=reading.below_zero,
        )
        return values, unusable

    def _detect(self, pages: dict[str, Answer]) -> bool:
        families: dict[str, str] = {}
        for answer in pages.values():
            families |= peek_families(answer.body)
        found = self._registry.detector.detect(families, self._learnt | pages)
        self.detection = found.reason
        if not found.runtime:
            return False
        self._by_endpoints = self._registry.detector.detect(families).runtime != found.runtime
        former, self._former = self._former, None
        if former is not None and former.name == found.runtime:
            self.adapter = former  # it had only gone for a while: what it has counted goes on
        else:
            self.adapter = self._registry.adapter(found.runtime, draining=self.settings.draining)
        for name, answer in self._learnt.items():
            self.adapter.learn(name, answer)
        if former is not None and former is not self.adapter:
            self._resets, self._replicas = ResetDetector(), Replicas()
            self.alternates = False
            self._another_process()
        return True

    def _changed_runtime(self, shape: Shape) -> bool:
        """Whether another runtime answers under this address now; the next read detects it anew."""
        found = self._registry.detector.detect(shape.families)
        assert self.adapter is not None
        if not found.runtime or found.runtime == self.runtime:
            return False
        if self._by_endpoints and found.runtime in self.adapter.mapping.layers:
            return False  # the page is the engine's; what wraps it shows only in its endpoints
        self._former, self.adapter, self._learnt = self.adapter, None, {}
        return True

    def _bind(self, reading: Reading) -> Binding:
        assert self.adapter is not None
        facts = self.adapter.facts
        key = (reading.shape, facts.version, facts.engine, facts.adapters)
        if self.binding is None or key != self._bound_for:
            base = {"target": self.settings.name, "runtime": self.adapter.name}
            self.binding, dropped = self.adapter.bind(
                reading.shape,
                base,
                per_rank=self.settings.per_rank,
                max_series=self.settings.max_series,
                slots=self.settings.slots,
            )
            self.dropped += dropped
            self._bound_for = key
            self._reread, self._page = self.adapter.page is self._page, self.adapter.page
        return self.binding

    def _withhold(self, coverage: tuple[Provenance, ...], time: float, mono: float) -> None:
        """Several replicas answer in turn: what each of them says is of itself, and nothing of the target."""
        self._data, self._data_at = EMPTY_BLOCK, mono
        self._told_by = None
        if not self.alternates:
            self.coverage = withheld(coverage)
        self.alternates = True
        self._ranks.forget()
        self._progress.forget()
        self._judge(time)
        self._health.start_time = nan

    def _begin_anew(self, reading: Reading, *, restarted: bool) -> None:
        """Another process answers: the runtime has restarted, or one of several replicas is left."""
        assert self.adapter is not None
        self.alternates, self._rebased = False, not restarted
        self._another_process(restarted=restarted)
        self.adapter.restarted()
        for name, answer in self._learnt.items():
            self.adapter.learn(name, answer)
        self.adapter.observe(reading)

    def _another_process(self, *, restarted: bool = True) -> None:
        self._epoch += 1
        self._health.restarts += restarted
        self._ranks.forget()
        self._progress.forget()
        self._startup.restarted()

    def _judge(self, time: float) -> None:
        facts, health = self.facts, self._health
        health.up, health.last_success = 1.0, time
        health.live = _truth(facts.live)
        health.ready = _truth(facts.ready)
        health.start_time = nan if facts.start_time is None else facts.start_time
        health.progress_age, health.wedged = self._progress.age, self._progress.wedged
        health.unmapped = float(len(self.binding.unmapped)) if self.binding else nan
        tokens = self._data.layout.by_signal.get("generation_tokens_total", ())
        self._startup.up(
            time,
            live=facts.live,
            ready=facts.ready,
            first_token=any(self._data.values[one.start] > 0 for one in tokens),
            start_time=facts.start_time,
        )

    def _failed(self, result: str, time: float) -> None:
        health = self._health
        health.up = 0.0
        health.progress_age = health.wedged = nan  # not known now; a hang goes on through a lost scrape
        health.live, health.ready = _truth(self.facts.live), _truth(self.facts.ready)
        if result == "not_found" and self.settings.runtime == AUTO:
            # Something else answers here now.
            self._former, self.adapter, self._learnt = self.adapter or self._former, None, {}
        if result == "refused":
            health.live = health.ready = 0.0
            self._progress.forget()
            self._replicas.refused()
            self._startup.down(time)

    def _publish(self, up: bool, reason: str, time: float, mono: float) -> Snapshot:
        stale = not mono - self._data_at <= self.settings.staleness
        if stale:
            self._data = EMPTY_BLOCK
        provenance = () if stale else self.coverage
        life = self._life.block(self.runtime, self._health, self._startup.phases(), self.facts, provenance)
        snapshot = Snapshot(
            target=self.settings.name,
            runtime=self.runtime,
            time=time,
            mono=mono,
            epoch=self._epoch,
            up=up,
            data=self._data,
            life=life,
            provenance=provenance,
            reasons={"scrape": reason} if reason else {},
            reread=self._reread,
            rebased=self._rebased,
        )
        for stage in self._stages:
            block = self._fed(stage, snapshot)
            if block is not None:
                snapshot = snapshot.with_extra(block, stage.provenance)
        return snapshot

    def _fed(self, stage: Stage, snapshot: Snapshot) -> Block | None:
        """A stage's block. One that fails has none: what it derives is lost, not what the runtime says."""
        try:
            block = stage.feed(snapshot)
        except Exception as error:
            name = type(stage).__name__
            if stage not in self._failing:
                log.error("%s of target %s failed", name, self.settings.name, exc_info=error)
            self._failing.add(stage)
            snapshot.reasons[name] = f"failed: {type(error).__name__}"
            return None
        self._failing.discard(stage)
        return block


def _truth(value: bool | None) -> float:
    return nan if value is None else float(value)
