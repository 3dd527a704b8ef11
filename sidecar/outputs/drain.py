"""`GET /drain`: answers once the replica works on nothing, or when its time is up: for a preStop hook."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite

from aiohttp import web

from sidecar.config.quantities import parse_duration
from sidecar.signals.drain import Drain
from sidecar.snapshot import Publication

USUAL_TIMEOUT = "30s"
LONGEST = 3600.0
_LOOK_EVERY = 0.1


class Drains:
    """The drains that go on at the moment: a target that is to become idle shouldn't be given work."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()  # by target; empty: all of them, those of a later config too

    def covers(self, target: str) -> bool:
        return self._waiting[target] > 0 or self._waiting[""] > 0

    @contextmanager
    def of(self, target: str) -> Iterator[None]:
        self._waiting[target] += 1
        try:
            yield
        finally:
            self._waiting[target] -= 1


def routes(
    app: web.Application,
    publication: Callable[[], Publication],
    drains: Drains,
    *,
    clock: Callable[[], float] = time.time,
) -> None:
    """Add the route; `drains` is told of each that goes on. `clock` is Unix time, of the snapshots' clock."""

    async def drain(request: web.Request) -> web.Response:
        """waits until nothing runs or waits: ?timeout=30s, ?target="""
        text = request.query.get("timeout", USUAL_TIMEOUT)
        try:
            timeout = min(parse_duration(text), LONGEST)
        except ValueError:
            return _answer(400, {"detail": f"timeout={text[:40]!r} is no duration: write it like 30s or 5m"})
        target = request.query.get("target", "")
        if target and target not in _targets(publication()):
            return _answer(404, {"detail": "there is no such target", "targets": _targets(publication())})
        with drains.of(target):
            return await wait(request, target, timeout)

    async def wait(request: web.Request, target: str, bound: float) -> web.Response:
        loop = asyncio.get_running_loop()
        began, since = loop.time(), clock()
        drains: dict[str, Drain] = {}
        while True:
            there = {one.target: one for one in publication().snapshots if one.target == target or not target}
            drains = {name: drains.get(name) or Drain(since) for name in there}
            for name, snapshot in there.items():
                drains[name].feed(snapshot)
            drained = bool(drains) and all(one.drained for one in drains.values())
            waited = loop.time() - began
            if drained or waited >= bound or _left(request):
                break
            await asyncio.sleep(min(_LOOK_EVERY, max(bound - waited, 0.0)))
        body = {
            "drained": drained,
            "waited_seconds": round(waited, 3),
            "targets": {
                name: {
                    "drained": one.drained,
                    "in_flight": one.in_flight if isfinite(one.in_flight) else None,
                }
                for name, one in drains.items()
            },
        }
        return _answer(200 if drained else 504, body)

    app.router.add_get("/drain", drain)


def _left(request: web.Request) -> bool:
    """Whether nobody waits for the answer any more: a handler isn't cancelled when its client goes."""
    return request.transport is None or request.transport.is_closing()


def _targets(publication: Publication) -> list[str]:
    return [snapshot.target for snapshot in publication.snapshots]


def _answer(status: int, body: dict[str, object]) -> web.Response:
    return web.Response(status=status, text=json.dumps(body) + "\n", content_type="application/json")
