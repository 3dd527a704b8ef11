"""A listener on `host:port` for an aiohttp application."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from sidecar.outputs.doorway import Doorway, Guest
from sidecar.outputs.http import secure

_LOG = logging.getLogger(__name__)

_MOST_CONNECTIONS = 128  # scrapers, scalers, some people; for the next an idle one has to go
_HEAD_SECONDS = 10.0  # from the first byte of a request's head, or the connection, to its end; so for TLS
_KEEPALIVE_SECONDS = 90.0  # longer than usual scrape intervals
_LINGERING_SECONDS = 1.0  # for a body that nobody reads
_UNREAD_MILLISECONDS = 30_000  # how long a client may leave an answer unread
_CLOSING_SECONDS = 5.0


class ListenError(Exception):
    """The listener can't be had; the message names the address, the cause and the mend."""


class Listener:
    """A running listener. `port` is the real one, also where 0 was asked for."""

    def __init__(self, runner: web.AppRunner, server: asyncio.Server, scheme: str) -> None:
        self._runner = runner
        self._server = server
        self.host: str
        self.port: int
        self.host, self.port = server.sockets[0].getsockname()[:2]
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.url = f"{scheme}://{host}:{self.port}"

    async def close(self) -> None:
        """Take no more connections and let answers in progress end, for some seconds at most."""
        self._server.close()
        await self._runner.cleanup()


async def listen(app: web.Application, address: str, *, tls: ssl.SSLContext | None = None) -> Listener:
    """Serve on `host:port`: `127.0.0.1:9845`, `[::]:9845` (IPv4 too), `:9845` (every interface); port 0 takes
    a free one. Raises ListenError.
    """
    sock = Doorway(_bind(address), _MOST_CONNECTIONS)
    runner = web.AppRunner(app, shutdown_timeout=_CLOSING_SECONDS)
    try:
        await runner.setup()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            _protocols(cast(web.Server, runner.server), sock),
            sock=sock,
            ssl=tls,
            ssl_handshake_timeout=_HEAD_SECONDS if tls else None,
        )
    except BaseException:
        sock.close()
        await runner.cleanup()
        raise
    return Listener(runner, server, "https" if tls else "http")


def split_address(address: str) -> tuple[str, int]:
    """Host, empty for every interface, and port. Raises ListenError."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ListenError(
            f"listen={address} can't be read: an IPv6 address stands in brackets, as in [::]:9845"
        )
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ListenError(
            f"listen={address} can't be read: it is host:port, as in 127.0.0.1:9845 or [::]:9845"
        )
    return host, int(port)


class _Connection(RequestHandler):
    """What isn't HTTP gets a bare answer and no line in the log: anybody can send it, and often. A head that
    has begun must end in time."""

    __slots__ = ("_door", "_guest", "_head_due")

    def __init__(self, door: Doorway, server: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            logger=_LOG,
            access_log=None,  # type: ignore[arg-type]
            keepalive_timeout=_KEEPALIVE_SECONDS,
            lingering_time=_LINGERING_SECONDS,
        )
        self._door = door
        self._guest: Guest | None = None
        self._head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._guest = self._door.guest(transport.get_extra_info("socket").fileno())
        if self._guest is not None:
            self._guest.idle = self._is_idle
        self._expect_a_head()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_idle():
            self._expect_a_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._head_came()
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        self._head_came()
        finished = await super().finish_response(request, resp, start_time)
        if self._guest is not None:
            self._guest.answered()
        return finished

    def _is_idle(self) -> bool:
        """Whether it waits for a request; one that is read or answered is none."""
        return self._waiter is not None and not self._waiter.done()

    def _expect_a_head(self) -> None:
        if self._head_due is None:
            self._head_due = self._loop.call_later(_HEAD_SECONDS, self._head_late)

    def _head_came(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _head_late(self) -> None:
        self._head_due = None
        if self._is_idle():
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is on its way already")
        response = web.Response(status=status, text="this request can't be read\n")
        secure(response)
        response.force_close()
        return response


def _protocols(server: web.Server, door: Doorway) -> Callable[[], asyncio.Protocol]:
    loop = asyncio.get_running_loop()
    return lambda: _Connection(door, server, loop)


def _bind(address: str) -> socket.socket:
    host, port = split_address(address)
    every = host in ("", "::") and socket.has_dualstack_ipv6()
    if every:
        host = "::"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, dualstack_ipv6=every)
    except (OSError, UnicodeError) as error:  # UnicodeError: no host can be named so
        raise ListenError(f"can't listen on {address}: {_cause(error, host, port)}") from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MILLISECONDS)
    return sock


def _cause(error: OSError | UnicodeError, host: str, port: int) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        shown = f"[{host}]" if ":" in host else host
        other = port + 1 if port < 65535 else port - 1
        return f"the port is taken; choose another, e.g. --set listen={shown}:{other}"
    if number in (errno.EACCES, errno.EPERM):
        return (
            "not allowed; ports below 1024 need a privilege, choose a higher one with --set listen=HOST:PORT"
        )
    if number == errno.EAFNOSUPPORT:
        return "this host has no IPv6; use --set listen=0.0.0.0:PORT"
    if number is None or number == errno.EADDRNOTAVAIL or number < 0:  # below 0: the name can't be resolved
        return "no such address on this host; --set listen=0.0.0.0:PORT takes every interface"
    return f"{error}; choose another address with --set listen=HOST:PORT"
