"""What viewers are sent: one message a publication, encoded once for all of them, none when nobody looks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from sidecar.outputs.web.trail import Trail
from sidecar.outputs.web.view import view
from sidecar.snapshot import Publication

#: Publications that come closer together than this are shown as one.
TICK = 1.0

#: Silence after which a viewer's connection is kept up by an empty comment.
KEEP_ALIVE = 15.0

#: Most viewers at a time; the next is told so.
MOST_VIEWERS = 64


class Feed:
    """Keeps each target's trail and hands messages to those who listen.

    A viewer that reads slowly misses messages, never gets a backlog of them: each one holds everything but
    the charts' past.
    """

    def __init__(
        self, publication: Callable[[], Publication], clock: Callable[[], float] = time.time
    ) -> None:
        self.trails: dict[str, Trail] = {}
        self.viewers = 0
        self.encoded = 0  # states so far
        self._publication = publication
        self._clock = clock
        self._serial = -1
        self._state = b""
        self._next: asyncio.Future[None] | None = None
        self._closed = False

    async def run(self) -> None:
        """Follow the publications until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(TICK)

    def look(self) -> None:
        """Take in what was published since the last look, and wake the viewers."""
        publication = self._publication()
        if publication.serial == self._serial:
            return
        self._serial = publication.serial
        for snapshot in publication.snapshots:
            self.trails.setdefault(snapshot.target, Trail()).feed(snapshot)
        for gone in self.trails.keys() - {snapshot.target for snapshot in publication.snapshots}:
            del self.trails[gone]
        self._state = b""
        self._wake()

    def close(self) -> None:
        """End all messages: the listener is closing."""
        self._closed = True
        self._wake()

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """Server-sent events for one viewer: the charts' past, then the state as it changes."""
        self.viewers += 1
        try:
            yield self.history() + self.state()
            while not self._closed:
                yield self.state() if await self._changed() else b":\n\n"
        finally:
            self.viewers -= 1

    def state(self) -> bytes:
        """The event `state` of the present publication."""
        if not self._state:
            self.encoded += 1
            self._state = _event("state", view(self._publication(), self.trails, self._clock()))
        return self._state

    def history(self) -> bytes:
        """The event `history`: columns of the last 15 minutes for each target."""
        return _event("history", {name: trail.ring.json() for name, trail in self.trails.items()})

    async def _changed(self) -> bool:
        """Wait for the next publication; False when there is none for so long that a proxy could hang up."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE):
                await asyncio.shield(self._next)
                return True
        return False

    def _wake(self) -> None:
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None


def _event(name: str, body: object) -> bytes:
    text = json.dumps(body, separators=(",", ":"), allow_nan=False)
    return f"event: {name}\ndata: {text}\n\n".encode()
