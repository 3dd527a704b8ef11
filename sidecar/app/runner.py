"""One target at work: its poller, its transport and its pipeline."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from sidecar.app.parts import address_of, asker_of, fetcher_of, settings_of
from sidecar.config import Target as TargetConfig
from sidecar.pipeline import Stage, TargetPipeline
from sidecar.probe import Figures, Prober
from sidecar.probe import Settings as ProbeSettings
from sidecar.runtimes.registry import Registry
from sidecar.schema import Status
from sidecar.signals import Signals
from sidecar.snapshot import Provenance, Snapshot
from sidecar.targets.poll import Poller
from sidecar.targets.target import Target

log = logging.getLogger(__name__)

#: Statuses of a signal that the page has, and of which nothing or not all is served.
_WITHHELD = frozenset((Status.TYPE_MISMATCH, Status.CONFLICT, Status.INVALID, Status.DROPPED))


class TargetRunner:
    """Polls one target until it is stopped and hands each snapshot to `publish`."""

    def __init__(
        self,
        config: TargetConfig,
        registry: Registry,
        stages: Sequence[Stage],
        signals: Signals,
        publish: Callable[[Snapshot], None],
        dropped: Callable[[str, str, int], None],
        *,
        spread: float | None = None,
        probe: ProbeSettings | None = None,
        probed: Figures | None = None,
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        """`probe` says how the target is probed, None not at all; `probed` is what earlier probes have shown;
        while the target is `leaving` there are none."""
        self.config = config
        self.signals = signals
        self._prober = self._prober_of(probe, probed, leaving) if probe is not None else None
        first = [] if self._prober is None else [self._prober]
        self.pipeline = TargetPipeline(settings_of(config), registry, [*first, *stages, signals])
        self._fetcher = fetcher_of(config)
        self._target = Target(address_of(config), self._fetcher, limit=config.max_page_size)
        self._publish = publish
        self._dropped = dropped
        self._told = {"cap": 0, "malformed_line": 0}
        self._poller = Poller(
            config.name, self._tick, interval=config.interval, timeout=config.timeout, spread=spread
        )
        self._facts: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._epoch = 0
        self._was: tuple[bool, str, str] | None = None
        self._covered: tuple[Provenance, ...] = ()
        self._withheld: set[str] = set()

    @property
    def page_url(self) -> str:
        """Where the runtime's metrics page is."""
        page = next(one for one in self.pipeline.endpoints if one.page)
        return str(self._target.address.of(page, self._api_ports))

    async def run(self) -> None:
        try:
            await self._poller.run()
        finally:
            if self._facts is not None:
                self._facts.cancel()
            if self._expiry is not None:
                self._expiry.cancel()
            if self._prober is not None:
                await self._prober.close()
            await self._fetcher.close()

    def stop(self, last_within: float | None = None) -> None:
        """Let `run` return, after one last reading that has `last_within` seconds."""
        if self._prober is not None:
            self._prober.stop()
        self._poller.stop(last_within)

    def _prober_of(self, probe: ProbeSettings, probed: Figures | None, leaving: Callable[[], bool]) -> Prober:
        """A gap that the config gives isn't overruled by what probes show."""
        given = self.config.capacity.idle_inter_token_latency is not None
        return Prober(
            self.config.name,
            probe,
            address_of(self.config),
            asker_of(self.config),
            adapter=lambda: self.pipeline.adapter,
            seed=lambda gap: None if given else self.signals.seed(idle_gap=gap),
            figures=probed,
            leaving=leaving,
        )

    async def _tick(self, deadline: float) -> bool:
        clock = asyncio.get_running_loop().time
        began = clock()
        self._ask_facts(began, deadline)
        pages = await self._target.pages(self.pipeline.endpoints, self._api_ports, deadline)
        before = self.pipeline.adapter
        snapshot = self.pipeline.feed(pages, time=time.time(), mono=clock(), elapsed=lambda: clock() - began)
        restarted, self._epoch = snapshot.epoch != self._epoch, snapshot.epoch
        if not snapshot.up or restarted or self.pipeline.adapter is not before:
            self._target.forget()
            self._ask_facts(began, deadline)
        self._publish(snapshot)
        if snapshot.up:
            self._expire_later()
        self._tell(snapshot)
        return snapshot.up

    def _expire_later(self) -> None:
        """What this tick has read vanishes at its age, not with the first tick after: they are seconds apart.

        Never before the next reading can have come, or a short staleness would make good numbers flicker.
        """
        if self._expiry is not None:
            self._expiry.cancel()
        age = max(self.config.staleness, self._poller.interval + self._poller.timeout)
        self._expiry = asyncio.get_running_loop().call_later(age + 0.01, self._expire)

    def _expire(self) -> None:
        mono = asyncio.get_running_loop().time()
        self._publish(self.pipeline.look_again(time=time.time(), mono=mono))

    @property
    def _api_ports(self) -> dict[int, int]:
        return self.pipeline.adapter.api_ports if self.pipeline.adapter is not None else {}

    def _ask_facts(self, now: float, deadline: float) -> None:
        """Beside the page, never in front of it: a health endpoint that hangs delays no number."""
        idle = self._facts is None or self._facts.done()
        if idle and self._target.is_due(self.pipeline.endpoints, now):
            self._facts = asyncio.create_task(self._learn(now, deadline))

    async def _learn(self, now: float, deadline: float) -> None:
        answers = await self._target.facts(self.pipeline.endpoints, self._api_ports, now, deadline)
        for name, answer in answers.items():
            self.pipeline.learn(name, answer)

    def _tell(self, snapshot: Snapshot) -> None:
        """Log what changed, once; count what was left out."""
        reason = snapshot.reasons.get("scrape", "") or ("" if snapshot.runtime else self.pipeline.detection)
        now = (snapshot.up, snapshot.runtime, "" if snapshot.up and snapshot.runtime else reason)
        if self._was is None or now[:2] != self._was[:2]:
            if not snapshot.up:
                log.warning("target %s is down: %s", self.config.name, reason)
            elif snapshot.runtime:
                log.info(
                    "target %s is up: %s (%s)", self.config.name, snapshot.runtime, self.pipeline.detection
                )
            else:
                log.warning("target %s answers, but %s", self.config.name, reason)
        self._was = now
        if self.pipeline.coverage is not self._covered:
            self._tell_coverage()
        for kind, count in (("cap", self.pipeline.dropped), ("malformed_line", self.pipeline.bad_lines)):
            if count > self._told[kind]:
                self._dropped(self.config.name, kind, count - self._told[kind])
                self._told[kind] = count

    def _tell_coverage(self) -> None:
        """Log what can't be used of the page from now on, and that it can be again."""
        self._covered = self.pipeline.coverage
        withheld = {one.signal: one for one in self._covered if one.status in _WITHHELD}
        new: dict[tuple[Status, str], list[str]] = {}
        for name in withheld.keys() - self._withheld:
            new.setdefault((withheld[name].status, withheld[name].note), []).append(name)
        for (status, note), names in sorted(new.items()):
            log.warning(
                "target %s: %s: %s%s",
                self.config.name,
                status.replace("_", " "),
                ", ".join(sorted(names)),
                note and f" ({note})",
            )
        back = self._withheld & {one.signal for one in self._covered if one.status is Status.OK}
        if back:
            log.info("target %s: can be used again: %s", self.config.name, ", ".join(sorted(back)))
        self._withheld = set(withheld)
