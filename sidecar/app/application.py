"""The whole sidecar: targets, state, reload, listener; started, run until told to stop, stopped in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from contextlib import suppress

from yarl import URL

from sidecar.app.board import Board
from sidecar.app.gpus import Gpus
from sidecar.app.inherit import inherit
from sidecar.app.parts import engine_of, otlp_of, probe_of, registry_of, signals_of
from sidecar.app.runner import TargetRunner
from sidecar.background import Background
from sidecar.config import Config, ConfigError, ConfigFile, Target
from sidecar.gpu.loss import EXIT_CODE
from sidecar.gpu.reading import GpuSource
from sidecar.outputs import drain
from sidecar.outputs.access import Access
from sidecar.outputs.http import http_app
from sidecar.outputs.otlp import OtlpOutput
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import Listener, listen
from sidecar.probe import Figures
from sidecar.slo.engine import SloEngine
from sidecar.slo.store import StateStore
from sidecar.snapshot import Block, Provenance, Snapshot
from sidecar.targets.discover import Found, look

log = logging.getLogger(__name__)

SAVE_EVERY = 15.0
LOOK_EVERY = 5.0
WATCH_EVERY = 1.0
LAST_READING_WITHIN = 2.0
SPREAD_PER_TARGET = 0.005

#: Runtimes whose own page has GPU families: the last resort where neither NVML nor an exporter answers.
GPUS_ON_THEIR_PAGE = frozenset({"triton", "nim"})


class _Judge:
    """The SLO engine as a stage that a reload can exchange under running targets."""

    provenance: tuple[Provenance, ...] = ()

    def __init__(self, engine: SloEngine) -> None:
        self.engine = engine

    def feed(self, snapshot: Snapshot) -> Block | None:
        return self.engine.feed(snapshot)


class Application:
    """One sidecar process. `start` returns with the listener up; `run` goes on until `stop`."""

    def __init__(
        self, config: Config, file: ConfigFile | None = None, *, gpu_source: GpuSource | None = None
    ) -> None:
        """`gpu_source` stands in for the config's. Raises ConfigError when a mapping can't be used."""
        self.config = config
        self.board = Board()
        self.itself = SelfMetrics()
        self.runners: dict[str, TargetRunner] = {}
        self.listener: Listener | None = None
        self.exit_code = 0  # what the process should end with
        self._file = file
        self._registry = registry_of(config)
        self._access = Access(config.web_config_file) if config.web_config_file is not None else None
        self._otlp = self._push(config)
        self._store = StateStore(config.state_file) if config.state_file is not None else None
        self._saved = self._store.load() if self._store is not None else {}
        self._judge = _Judge(engine_of(config, self._saved))
        self.gpus = Gpus(
            lambda block: self.board.share("gpu", (block,)),
            lambda: self.config.targets,
            self._runtimes_with_gpus,
            gpu_source,
            self._gpu_lost,
        )
        self._background = Background("the sidecar")
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._drains = drain.Drains()
        self._probed: dict[str, Figures] = {}  # counters, which a reload must not set back
        self._found: list[Target] = []  # by looking, where no target is configured
        self._stopping = asyncio.Event()
        self._reload_asked = asyncio.Event()
        self._told: set[str] = set()
        if self._store is not None:
            self.itself.keeps_state()

    @property
    def url(self) -> str:
        """Where the sidecar's own pages are, once started."""
        assert self.listener is not None
        return self.listener.url

    def stop(self) -> None:
        self._stopping.set()

    def _gpu_lost(self, why: str) -> None:
        if not self._stopping.is_set():
            log.error("ending with exit code %d, as gpu.exit_on_loss asks: %s", EXIT_CODE, why)
            self.exit_code = EXIT_CODE
            self.stop()

    async def start(self) -> None:
        """Listen and begin to read. Raises ListenError."""
        app = http_app(self.board.publication, self.itself)
        drain.routes(app, self.board.publication, self._drains)
        if self._access is not None:
            self._access.protect(app)
        tls = self._access.tls if self._access is not None else None
        self.listener = await listen(app, str(self.config.listen), tls=tls)
        log.info("serving %s/metrics", self.url)
        self.itself.config_loaded(time.time())
        self.board.swap()
        for target in self.config.targets:
            self._begin(target)
        if self._otlp is not None:
            self._otlp.start()
        self._background.spawn(self.itself.watch_loop())
        self._background.spawn(self._tell_problems())
        self._background.spawn(self._keep_gpus())
        if not self.config.targets:
            self._background.spawn(self._discover())
        if self._file is not None:
            self._background.spawn(self._watch())
        if self._store is not None:
            self._background.spawn(self._keep_state())
        if self.config.autoscaling.fleet is not None:
            fleet = self.config.autoscaling.fleet
            self._background.spawn(inherit(fleet, self.runners.values, self.board.publication))

    async def run(self) -> None:
        """Start, work until `stop` or SIGTERM, SIGINT; then one last reading, state saved, closed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload_asked.set)
        await self.start()
        gc.collect()
        gc.freeze()  # what stands now stands for good: later collections need not walk it
        await self._stopping.wait()
        await self.close()

    async def close(self) -> None:
        for runner in self.runners.values():
            runner.stop(LAST_READING_WITHIN)
        await asyncio.gather(*self._polls.values(), return_exceptions=True)
        await self._background.close()
        await self.gpus.close()
        if self._otlp is not None:
            await self._otlp.close()
        await self._save()
        if self.listener is not None:
            await self.listener.close()

    def _begin(self, target: Target) -> None:
        runner = TargetRunner(
            target,
            self._registry,
            [self._judge] if self.config.slos else [],
            signals_of(self.config, target, gpus=lambda: self.gpus.figures(target.name), saved=self._saved),
            self.board.publish,
            self.itself.series_dropped,
            spread=SPREAD_PER_TARGET * len(self.config.targets),
            probe=probe_of(self.config, target),
            probed=self._probed.setdefault(target.name, Figures(target.name)),
            leaving=lambda: self._drains.covers(target.name),
        )
        self.runners[target.name] = runner
        self._polls[target.name] = asyncio.create_task(runner.run())

    async def _end(self, name: str) -> Target:
        """Stop reading a target; what was read."""
        runner = self.runners.pop(name)
        runner.stop()
        await asyncio.gather(self._polls.pop(name), return_exceptions=True)
        self.board.remove(name)
        return runner.config

    async def _discover(self) -> None:
        """Look for runtimes on localhost until there is one, or a config names a target."""
        told = False
        while not self.config.targets:
            found = await look(self._registry.detector, self.config.timeout)
            targets = _targets_of(found)
            if targets:
                for one in found:
                    if one.runtime:
                        log.info("found %s at %s (%s)", one.runtime, one.url, one.reason)
                self._found = targets
                self.config = self.config.with_targets(targets)
                for target in self.config.targets:
                    self._begin(target)
                return
            if not told:
                told = True
                tried = ", ".join(f"{one.url}: {one.reason}" for one in found)
                log.warning("no target is configured and none was found yet (%s); looking on", tried)
            await asyncio.sleep(LOOK_EVERY)

    async def _watch(self) -> None:
        """Reload the config when its file changes or SIGHUP asks for it."""
        assert self._file is not None
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_EVERY):
                    await self._reload_asked.wait()
            if self._reload_asked.is_set() or self._file.changed():
                self._reload_asked.clear()
                await self.reload()

    async def reload(self) -> bool:
        """Take the file's config, all or nothing: a bad file keeps the old one and says so."""
        assert self._file is not None
        try:
            config = self._file.reload()
            registry = registry_of(config)
            engine = self._judge.engine
            if config.slos != self.config.slos:
                engine = engine_of(config, engine.saved())
            otlp = self._push(config) if config.outputs != self.config.outputs else self._otlp
        except (ConfigError, ValueError) as error:
            self.itself.config_refused()
            log.error("the new config is refused, the old one stays in force:\n%s", error)
            return False
        if not config.targets:
            config = config.with_targets(self._found)
            if self.config.targets and not self._found:
                self._background.spawn(self._discover())
        old, self.config = self.config, config
        if (config.listen, config.web_config_file) != (old.listen, old.web_config_file):
            log.warning("a change of listen or web_config_file takes effect with the next start")
        for runner in self.runners.values():
            self._saved |= runner.signals.saved()
        shared = ("mappings", "autoscaling", "cost", "probe")
        mended = any(getattr(config, key) != getattr(old, key) for key in shared) or config.slos != old.slos
        self._registry, self._judge.engine = registry, engine
        wanted = {target.name: target for target in config.targets}
        for name in list(self.runners):
            if mended or wanted.get(name) != self.runners[name].config:
                was = await self._end(name)
                if name in wanted and wanted[name].url == was.url:
                    engine.resume(name)
                else:
                    engine.forget(name)
                    del self._probed[name]
        for name, target in wanted.items():
            if name not in self.runners:
                self._begin(target)
        await self.gpus.use(config.gpu)
        await self._push_with(otlp)
        self.itself.config_loaded(time.time())
        log.info("config reloaded: %d targets", len(config.targets))
        return True

    def _push(self, config: Config) -> OtlpOutput | None:
        return otlp_of(
            config,
            self.board.publication,
            self.itself,
            lambda: {one.name: one.url for one in self.config.targets},
        )

    async def _push_with(self, otlp: OtlpOutput | None) -> None:
        old, self._otlp = self._otlp, otlp
        if old is otlp:
            return
        if otlp is not None:
            otlp.start()
        if old is not None:
            await old.close()

    def _runtimes_with_gpus(self) -> list[str]:
        """Pages of runtimes that tell of GPUs themselves."""
        return [
            runner.page_url
            for runner in self.runners.values()
            if runner.pipeline.runtime in GPUS_ON_THEIR_PAGE
        ]

    async def _keep_gpus(self) -> None:
        """Open the source of GPUs, and anew when the config or what is known of the runtimes has changed."""
        while True:
            await self.gpus.use(self.config.gpu)
            await asyncio.sleep(LOOK_EVERY)

    async def _keep_state(self) -> None:
        while True:
            await asyncio.sleep(SAVE_EVERY)
            await self._save()

    async def _save(self) -> None:
        if self._store is not None:
            state = self._judge.engine.saved()
            for runner in self.runners.values():
                state |= runner.signals.saved()
            saved = await asyncio.to_thread(self._store.save, state)
            self.itself.state_saved(time.time() if saved else None)

    async def _tell_problems(self) -> None:
        """Log once what the judge and the derived signals could not do."""
        while True:
            rooms = [self._judge.engine.problems, *(one.signals.problems for one in self.runners.values())]
            for problem in [one for problems in rooms for one in problems if one not in self._told]:
                self._told.add(problem)
                log.warning("%s", problem)
            await asyncio.sleep(LOOK_EVERY)


def _targets_of(found: list[Found]) -> list[Target]:
    """One target for each address where a runtime was found; a lone one is called local."""
    by_port: dict[int | None, Found] = {}
    for one in found:
        if one.runtime:
            by_port.setdefault(URL(one.url).port, one)
    alone = len(by_port) == 1
    return [
        Target(
            name="local" if alone else f"{one.runtime}-{port}",
            url=str(URL(one.url).origin()),
            metrics_path=URL(one.url).path,
        )
        for port, one in by_port.items()
    ]
