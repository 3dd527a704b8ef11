"""Name resolution in a thread of its own for each look-up.

The event loop's default executor has a handful of threads for everybody, and the process waits for them
when it ends. A name server that does not answer holds a thread for half a minute and more: a few such targets
would stop the look-ups of all others, and SIGTERM would outlast the grace period.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


def _look_up(host: str, port: int, family: int) -> list[ResolveResult]:
    found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    results = []
    for kind, _, proto, _, address in found:
        # Spells out the scope of a link-local IPv6 address, which the address alone does not show.
        name, _ = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        results.append(
            ResolveResult(hostname=host, host=name, port=port, family=kind, proto=proto, flags=_NUMERIC)
        )
    return results


class Resolver(AbstractResolver):
    """aiohttp's resolver; one look-up a name and connector is under way at a time, which aiohttp sees to."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises socket.gaierror, or UnicodeError for what cannot be a host name."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[ResolveResult]] = loop.create_future()

        def deliver(result: list[ResolveResult] | None, error: Exception | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result or [])

        def work() -> None:
            outcome: tuple[Any, Any]
            try:
                outcome = _look_up(host, port, family), None
            except (OSError, ValueError) as exc:
                outcome = None, exc
            with suppress(RuntimeError):  # the loop was closed in the meantime
                loop.call_soon_threadsafe(deliver, *outcome)

        threading.Thread(target=work, name=f"resolve {host}"[:40], daemon=True).start()
        return await answer

    async def close(self) -> None:
        """Nothing is held: a thread under way ends by itself."""
