"""The probe as a stage of a target's line: sees each snapshot, now and then asks for a completion, tells of it.

A probe begins right after a poll. What is shorter than the poll's interval is then seen by no gauge: an idle
replica stays idle on the page, in the demand and for a drain.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from sidecar.probe.ask import Asker
from sidecar.probe.figures import Figures
from sidecar.probe.lone import LoneGap
from sidecar.probe.request import PROMPT, Dialect, Question, dialect_of, path_of, question
from sidecar.probe.stream import Outcome
from sidecar.runtimes.adapter import Adapter, Endpoint
from sidecar.snapshot import Block, Provenance, Snapshot
from sidecar.targets.poll import phase_of
from sidecar.targets.target import Address

log = logging.getLogger(__name__)

#: Models of one target that are probed, in turn.
MOST_MODELS = 16
#: Longest pause after failures, in seconds, where the interval isn't longer.
BACK_OFF = 300.0
#: The first probes of all targets begin within this, in seconds: the moment before traffic comes is a short one.
FIRST_WITHIN = 5.0
_JITTER = 0.1


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in seconds. None: the runtime's own. `url` is the API's address."""

    interval: float = 60.0
    timeout: float = 30.0
    max_tokens: int = 8
    url: str | None = None
    path: str | None = None
    model: str | None = None
    prompt: str = PROMPT


class Prober:
    """Probes one target. `adapter` tells the runtime as it is known at the moment; `seed` is given the gap of a
    lone request, in seconds, whenever it is known anew and the target serves one model; `leaving` says whether
    somebody waits for the target to become idle.

    One request at a time, in turn over the models; none while the target is down, not ready, wedged or leaving.
    After n consecutive failures the pause is interval · 2^(n-1), at most five minutes but never less than an
    interval.
    """

    def __init__(
        self,
        target: str,
        settings: Settings,
        address: Address,
        asker: Asker,
        adapter: Callable[[], Adapter | None],
        seed: Callable[[float], None],
        figures: Figures | None = None,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self.settings = settings
        self._target = target
        self._address = address.at(settings.url) if settings.url else address
        self._asker = asker
        self._adapter = adapter
        self._seed = seed
        self._figures = figures or Figures(target)
        self._leaving = leaving
        self._lone = LoneGap()
        self._models: tuple[str, ...] = ()
        self._turn = 0
        self._due: float | None = None
        self._failures = 0
        self._plain: set[str] = set()  # models whose server refused what it doesn't know
        self._told: dict[str, str] = {}
        self._epoch = 0
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        return self._figures.provenance

    def feed(self, snapshot: Snapshot) -> Block | None:
        """The figures at this snapshot; a probe that is due begins right after it."""
        if snapshot.epoch != self._epoch:
            self._epoch = snapshot.epoch
            self._lone.forget()
        if self._lone.watch(snapshot) and len(self._models) == 1 and (gap := self._lone.value) is not None:
            self._seed(gap)
        if self._leaving():
            self._stand_back()
        due = self._due is None or snapshot.mono >= self._due
        if due and self._task is None and not self._stopped and _serves(snapshot):
            self._begin(snapshot)
        return self._figures.block(snapshot.runtime, snapshot.mono)

    async def once(self, snapshot: Snapshot, deadline: float) -> tuple[str, Outcome] | None:
        """One probe now, whatever is due, of the first model, counted nowhere; None when no model is known."""
        adapter = self._adapter()
        path = self.settings.path or (adapter.completions if adapter is not None else "")
        models = self._models_of(snapshot, adapter, path) if adapter is not None else ()
        if adapter is None or not models:
            return None
        for self._plain in (set(), set(models)):
            outcome = await self._asker.ask(self._question(adapter, path, models[0]), deadline)
            if outcome.result != "bad_request":
                break
        return models[0], outcome

    def stop(self) -> None:
        """Send nothing any more; what is under way is cut and not counted."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self, snapshot: Snapshot) -> None:
        now, adapter = snapshot.mono, self._adapter()
        if self._due is None:
            self._due = now + phase_of(self._target) * min(FIRST_WITHIN, self.settings.interval)
        if now < self._due or adapter is None:
            return
        path = self.settings.path or adapter.completions
        self._models = self._models_of(snapshot, adapter, path)
        if not self._models:
            return
        model = self._models[self._turn % len(self._models)]
        self._turn += 1
        if self._turn == 1:
            interval = self.settings.interval
            log.info("target %s is probed: POST %s every %g s", self._target, path, interval)
        self._lone.begin(snapshot)
        asked = self._question(adapter, path, model)
        self._task = asyncio.create_task(
            self._probe(model, asked, f"POST {path}", now + self.settings.timeout)
        )

    def _stand_back(self) -> None:
        """Cut what is under way, uncounted; the next one is due a whole pause after the last of these calls:
        whoever has drained a replica removes it now, and a drain that ended at its bound still may."""
        if self._task is not None:
            self._task.cancel()
        self._wait()

    def _question(self, adapter: Adapter, path: str, model: str) -> Question:
        endpoint = Endpoint("completions", path_of(path, model), api=True)
        return question(
            self._address.of(endpoint, adapter.api_ports),
            model,
            self._lone.tokens(self.settings.max_tokens),
            secrets.token_hex(8),
            prompt=self.settings.prompt,
            options=adapter.mapping.completion_options,
            names=adapter.names(model),
            plain=model in self._plain,
        )

    async def _probe(self, model: str, asked: Question, source: str, deadline: float) -> None:
        try:
            outcome = await self._asker.ask(asked, deadline)
            self._lone.end(outcome)
            self._took(model, outcome, source)
        except Exception as error:  # the others go on, and so does this one at its next turn
            log.error("the probe of target %s has failed", self._target, exc_info=error)
            self._wait()
        finally:
            self._task = None

    def _took(self, model: str, outcome: Outcome, source: str) -> None:
        self._failures = 0 if outcome.ok else self._failures + 1
        if outcome.result == "bad_request":
            self._plain ^= {model}
        pause = self._wait()
        now = asyncio.get_running_loop().time()
        stale_at = now + 2 * pause * len(self._models) + self.settings.timeout
        self._figures.record(model, outcome, source, stale_at)
        if self._told.get(model, "ok") != outcome.result:
            if outcome.ok:
                log.info("the probe of target %s is answered again", self._target)
            else:
                log.warning("the probe of target %s: %s: %s", self._target, outcome.result, outcome.detail)
        self._told[model] = outcome.result

    def _wait(self) -> float:
        """Sets when the next probe is due; the pause in seconds."""
        interval = self.settings.interval
        steps = 1 << min(max(self._failures - 1, 0), 16)
        pause = max(min(interval * steps, BACK_OFF), interval)
        now = asyncio.get_running_loop().time()
        self._due = now + pause * random.uniform(1 - _JITTER, 1 + _JITTER)
        return pause

    def _models_of(self, snapshot: Snapshot, adapter: Adapter, path: str) -> tuple[str, ...]:
        """Models that both the API and the page name; else the API's; else the page's, but for Triton: its page
        tells of all that it serves, tokenizers too."""
        if self.settings.model is not None:
            return (self.settings.model,)
        page = dict.fromkeys(name for one in snapshot.data.layout.series if (name := one.label("model_name")))
        api = adapter.generating
        both = tuple(name for name in api if name in page)
        named = () if dialect_of(path) is Dialect.GENERATE else tuple(page)
        return (both or api or named)[:MOST_MODELS]


def _serves(snapshot: Snapshot) -> bool:
    """Whether a request would be answered by all that is known: a probe is no second alarm for what is down."""
    life = snapshot.life
    return (
        snapshot.up
        and bool(snapshot.runtime)
        and life.get("target_ready") != 0
        and life.get("target_live") != 0
        and life.get("target_wedged") != 1
    )
