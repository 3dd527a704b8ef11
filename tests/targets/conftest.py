"""A real HTTP server on a free port of 127.0.0.1 that answers exactly what a test wants, down to the byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import pytest

from tests.listening import listening

Answer = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    port: int
    scheme: str
    heads: list[str] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/metrics"


Serve = Callable[..., AbstractAsyncContextManager[Server]]


@asynccontextmanager
async def serve_answer(
    answer: Answer | bytes, *, tls: ssl.SSLContext | None = None, keep: bool = False
) -> AsyncIterator[Server]:
    """`answer` is written (bytes) or called with each request's head; `keep` leaves the connection open."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            server.heads.append(head)
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(head, writer)
            if not keep:
                break

    async with listening(connection, tls) as port:
        server = Server(port, "https" if tls else "http")
        yield server


@pytest.fixture
def serve() -> Serve:
    return serve_answer
