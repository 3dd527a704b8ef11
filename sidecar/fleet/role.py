"""The role at work: finds sidecars, reads them, publishes what they add up to, answers HTTP and gRPC."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from sidecar.background import Background
from sidecar.exposition import PageError
from sidecar.fleet.discover import DiscoveryError, Source
from sidecar.fleet.fleet import Fleet
from sidecar.fleet.router import Router
from sidecar.outputs.access import Access
from sidecar.outputs.http import http_app
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import Listener, listen
from sidecar.snapshot import Block, Publication
from sidecar.targets.auth import Auth, Tls
from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher
from sidecar.targets.poll import Poller

log = logging.getLogger(__name__)

PUBLISH_EVERY = 1.0
TELL_EVERY = 10.0
_PAGE_LIMIT = 8 * 1024 * 1024
_STALE_INTERVALS, _STALE_LEAST = 3, 10.0


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """`grpc_listen` None serves no gRPC. Seconds everywhere."""

    source: Source
    listen: str = "0.0.0.0:9845"
    grpc_listen: str | None = None
    grpc_cert: Path | None = None
    grpc_key: Path | None = None
    grpc_client_ca: Path | None = None
    interval: float = 5.0
    timeout: float = 4.0
    auth: Auth = field(default_factory=Auth)
    tls: Tls = field(default_factory=Tls)
    router: Router | None = None
    utilisation: float = 0.9
    web_config_file: Path | None = None

    @property
    def stale_after(self) -> float:
        return max(_STALE_INTERVALS * self.interval, _STALE_LEAST)


class FleetRole:
    """One process of the role. `start` returns with the listeners up."""

    def __init__(self, settings: FleetSettings) -> None:
        """Raises ConfigError when web.yml can't be used."""
        self.settings = settings
        self.fleet = Fleet(stale_after=settings.stale_after, utilisation=settings.utilisation)
        self.fleet.router = settings.router
        self.itself = SelfMetrics()
        self.listener: Listener | None = None
        self.grpc_port = 0
        self._access = Access(settings.web_config_file) if settings.web_config_file is not None else None
        self._publication = Publication(0.0)
        self._block: Block = self.fleet.block(time.monotonic())
        self._pollers: dict[str, tuple[Poller, asyncio.Task[None]]] = {}
        self._background = Background("the fleet role")
        self._stopping = asyncio.Event()
        self._discovery_error = ""
        self._listed = -1
        self._told_of: tuple[float, Counter[str]] = (0.0, Counter())
        self._scaler: Any = None
        self._server: Any = None

    @property
    def url(self) -> str:
        assert self.listener is not None
        return self.listener.url

    def stop(self) -> None:
        self._stopping.set()

    async def start(self) -> None:
        """Listen and begin to read. Raises ListenError, OSError for a certificate that can't be read, and
        ImportError without the extra `keda`."""
        app = http_app(lambda: self._publication, self.itself)
        app.router.add_get("/v1/fleet", self._members)
        app.router.add_get("/v1/seeds", self._seeds)
        if self._access is not None:
            self._access.protect(app)
        tls = self._access.tls if self._access is not None else None
        self.listener = await listen(app, self.settings.listen, tls=tls)
        if self.settings.grpc_listen is not None:
            await self._serve_grpc(self.settings.grpc_listen)
        self.itself.config_loaded(time.time())
        self._background.spawn(self._discover())
        self._background.spawn(self._publish())
        self._background.spawn(self.itself.watch_loop())
        if self.settings.router is not None:
            self._background.spawn(self._read_router(self.settings.router))

    async def run(self) -> None:
        """Start, work until SIGTERM or SIGINT, close."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            await self.start()
            log.info("serving %s/metrics", self.url)
            await self._stopping.wait()
        finally:
            await self.close()

    async def close(self) -> None:
        pollers = [task for _, task in self._pollers.values()]
        for task in pollers:
            task.cancel()
        await asyncio.gather(*pollers, return_exceptions=True)
        await self._background.close()
        if self._server is not None:
            await self._server.close()
        if self.listener is not None:
            await self.listener.close()

    async def _serve_grpc(self, address: str) -> None:
        from sidecar.fleet.scaler import Scaler, ScalerTls, serve

        given = self.settings
        tls = None
        if given.grpc_cert is not None and given.grpc_key is not None:
            tls = ScalerTls(given.grpc_cert, given.grpc_key, given.grpc_client_ca)
        self._scaler = Scaler(lambda: self._block, self.fleet.answered)
        self._server = await serve(self._scaler, address, tls)
        self.grpc_port = self._server.port
        log.info("serving KEDA's external scaler on port %d, TLS %s", self.grpc_port, "on" if tls else "off")

    # Reading --------------------------------------------------------------------------------------

    async def _discover(self) -> None:
        source = self.settings.source
        while True:
            try:
                self.fleet.list(await source.addresses(), vouched=source.vouched)
                self._discovery_error = ""
            except DiscoveryError as error:
                if self.fleet.discovered is not False:
                    log.warning("the sidecars can't be listed, the last list holds: %s", error)
                self.fleet.list_failed()
                self._discovery_error = str(error)
            if len(self.fleet.members) != self._listed:
                self._listed = len(self.fleet.members)
                log.info("sidecars listed: %d", self._listed)
            self._follow()
            await asyncio.sleep(self.settings.interval)

    def _follow(self) -> None:
        """A poller for each member, none for who is gone."""
        for address in [one for one in self._pollers if one not in self.fleet.members]:
            poller, _ = self._pollers.pop(address)
            poller.stop()
        for address in self.fleet.members:
            if address not in self._pollers:
                fetcher = Fetcher(address, self.settings.auth, self.settings.tls)
                poller = Poller(
                    address,
                    self._reading(fetcher, address),
                    interval=self.settings.interval,
                    timeout=self.settings.timeout,
                    first_within=min(1.0, self.settings.interval / 5),
                )
                self._pollers[address] = (poller, asyncio.create_task(_poll(poller, fetcher)))

    def _reading(self, fetcher: Fetcher, address: str) -> Callable[[float], Awaitable[bool]]:
        url = address + "/metrics"

        async def tick(deadline: float) -> bool:
            try:
                page = await fetcher.get(url, deadline=deadline, limit=_PAGE_LIMIT)
                self.fleet.read(address, page.body, time.monotonic())
            except (FetchError, PageError) as error:
                self.fleet.failed(address, error.result, error.detail)
                return False
            return True

        return tick

    async def _read_router(self, router: Router) -> None:
        loop = asyncio.get_running_loop()
        async with Fetcher("router", tls=self.settings.tls) as fetcher:
            while True:
                try:
                    page = await fetcher.get(router.url, deadline=loop.time() + self.settings.timeout)
                    router.read(page.body, time.monotonic())
                except (FetchError, PageError) as error:
                    if not router.error:
                        log.warning("the router can't be read: %s", error.detail)
                    router.error = error.detail
                await asyncio.sleep(self.settings.interval)

    async def _publish(self) -> None:
        while True:
            self.publish()
            self._tell_of_failures(time.monotonic())
            await asyncio.sleep(min(PUBLISH_EVERY, self.settings.interval))

    def publish(self) -> None:
        """Make the block of this moment what everybody reads."""
        self._block = self.fleet.block(time.monotonic())
        self._publication = Publication(
            time.time(), shared=(self._block,), serial=self._publication.serial + 1
        )
        if self._scaler is not None:
            self._scaler.changed()

    def _tell_of_failures(self, now: float) -> None:
        """How many sidecars can't be read, when that has changed, at most every ten seconds."""
        failing = [one for one in self.fleet.members.values() if one.error]
        causes = Counter(one.error for one in failing)
        at, told = self._told_of
        if causes == told or now - at < TELL_EVERY:
            return
        self._told_of = now, causes
        if not failing:
            log.info("every sidecar that is listed can be read again")
            return
        how = ", ".join(f"{cause.replace('_', ' ')} {count}" for cause, count in causes.most_common())
        log.warning(
            "%d of %d sidecars can't be read (%s), e.g. %s; /v1/fleet names each",
            len(failing),
            len(self.fleet.members),
            how,
            failing[0].detail or failing[0].address,
        )

    # Pages ----------------------------------------------------------------------------------------

    async def _members(self, request: web.Request) -> web.Response:
        """each sidecar and its targets: taken for what, last failure"""
        now, stale = time.monotonic(), self.settings.stale_after
        members = [
            {
                "address": address,
                "state": member.state(now, stale),
                "age_seconds": None if member.read_at is None else round(now - member.read_at, 3),
                "error": member.error,
                "detail": member.detail,
                "targets": {
                    target: {"state": state, "detail": member.why_silent(target, now, stale)}
                    for target, state in member.targets(now, stale).items()
                },
            }
            for address, member in self.fleet.members.items()
        ]
        router = self.fleet.router
        return _json(
            {
                "discovery_success": self.fleet.discovered,
                "discovery_error": self._discovery_error,
                "router_error": None if router is None else router.error,
                "replicas": {
                    one.label("state"): int(self._block.values[one.start])
                    for one in self._block.layout.find("fleet_replicas")
                },
                "members": members,
            }
        )

    async def _seeds(self, request: web.Request) -> web.Response:
        """service time and idle gap for a newcomer, by model"""
        names = ("service_time_seconds", "idle_inter_token_latency_seconds")
        kept = self.fleet.kept.items()
        return _json({model: {name: one[name] for name in names if name in one} for model, one in kept})


async def _poll(poller: Poller, fetcher: Fetcher) -> None:
    async with fetcher:
        await poller.run()


def _json(body: dict[str, Any]) -> web.Response:
    return web.Response(
        text=json.dumps(body, allow_nan=False, indent=2) + "\n", content_type="application/json"
    )
