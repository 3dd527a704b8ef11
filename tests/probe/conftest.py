"""A server that answers a completion exactly as a test wants, down to the byte and the moment."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.listening import listening

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


@dataclass
class Scripted:
    """What was asked of it: heads, and bodies as JSON."""

    port: int
    scheme: str = "http"
    heads: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


Serve = Callable[..., AbstractAsyncContextManager[Scripted]]


def event(body: object) -> bytes:
    return b"data: " + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n\n"


def token(text: str = " a", end: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": text, "finish_reason": end}]})


def usage(tokens: int, prompt: int = 12) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})


def refusal(status: str, *more: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *more, "Content-Length: 0", "", ""]).encode()


DONE = event(b"[DONE]")


def paced(*parts: bytes, every: float = 0.02) -> Script:
    """Writes the parts one by one: what comes in one piece has no gaps."""

    async def write(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(every)

    return write


@asynccontextmanager
async def serve_script(
    script: Script | bytes, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Scripted]:
    """`script` writes after each request's head and body, or is what is written."""

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next(
            int(line.split(":")[1])
            for line in head.splitlines()
            if line.lower().startswith("content-length:")
        )
        server.heads.append(head)
        server.bodies.append(json.loads(await reader.readexactly(length)))
        if isinstance(script, bytes):
            writer.write(script)
            await writer.drain()
        else:
            await script(writer)

    async with listening(connection, tls) as port:
        server = Scripted(port, "https" if tls else "http")
        yield server


@pytest.fixture
def serve() -> Serve:
    return serve_script
