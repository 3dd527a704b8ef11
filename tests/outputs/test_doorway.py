"""Connections that say nothing, by the hundred, on real sockets: whoever asks is answered."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
import trustme
from aiohttp import web

from sidecar.outputs.http import http_app
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import Listener, listen
from sidecar.snapshot import Publication

ROOM = 128
ASKS = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = {"nothing": b"", "half a head": b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-", "noise": b"\x16"}
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Visit = Callable[[Listener], Awaitable[None]]


@pytest.fixture(autouse=True)
def enough_files() -> Iterator[None]:
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before, min(4096, most)), most))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


def serve(visit: Visit, app: web.Application | None = None, tls: ssl.SSLContext | None = None) -> None:
    async def scenario() -> None:
        listener = await listen(
            app or http_app(lambda: Publication(0.0), SelfMetrics()), "127.0.0.1:0", tls=tls
        )
        try:
            await visit(listener)
        finally:
            await listener.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


async def scraped(listener: Listener, tls: ssl.SSLContext | bool = True) -> str:
    async with aiohttp.ClientSession() as session, session.get(listener.url + "/metrics", ssl=tls) as answer:
        assert answer.status == 200
        return await answer.text()


@asynccontextmanager
async def held(
    listener: Listener, number: int, say: bytes = b"", peer: str = "127.0.0.1"
) -> AsyncIterator[list[Pair]]:
    """So many connections from an address, each of which says the beginning of something."""
    pairs: list[Pair] = []
    try:
        for _ in range(number):
            pair = await asyncio.open_connection("127.0.0.1", listener.port, local_addr=(peer, 0))
            pair[1].write(say)
            pairs.append(pair)
        yield pairs
    finally:
        for _, writer in pairs:
            writer.close()


async def answered(pair: Pair) -> bytes:
    reader, writer = pair
    writer.write(ASKS)
    return await reader.readuntil(b"ok\n")


async def ended(pair: Pair) -> bool:
    try:
        return not await pair[0].read(1)
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("number", [ROOM, 1000])
@pytest.mark.parametrize("say", HALF.values(), ids=HALF)
def test_a_scraper_gets_through(number: int, say: bytes) -> None:
    async def visit(listener: Listener) -> None:
        async with held(listener, number, say):
            for _ in range(3):
                assert "inference_sidecar_build_info" in await scraped(listener)

    serve(visit)


def test_so_it_does_in_tls() -> None:
    authority = trustme.CA()
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(ours)
    authority.configure_trust(theirs)

    async def visit(listener: Listener) -> None:
        async with held(listener, 1000, HALF["noise"]):
            assert "inference_sidecar_build_info" in await scraped(listener, theirs)

    serve(visit, tls=ours)


def test_who_waits_longest_without_having_asked_goes_first() -> None:
    async def visit(listener: Listener) -> None:
        async with held(listener, 1) as scrapers, held(listener, ROOM - 1) as silent:
            assert await answered(scrapers[0])
            async with held(listener, 1) as late:
                assert await answered(late[0])
                assert await ended(silent[0])
            async with held(listener, 500):
                assert await answered(scrapers[0]), "between two scrapes, and spared"

    serve(visit)


def test_one_address_crowds_no_other_out() -> None:
    async def visit(listener: Listener) -> None:
        async with held(listener, 1, peer="127.0.0.2") as other, held(listener, 500):
            assert await answered(other[0]), "it came first, waited longest, and was one of its address"

    serve(visit)


def test_what_is_being_answered_is_never_cut_and_while_all_are_the_next_is_turned_away() -> None:
    app, let_go, places = web.Application(), asyncio.Event(), asyncio.Semaphore(0)

    async def slow(request: web.Request) -> web.Response:
        places.release()
        await let_go.wait()
        return web.Response(text="ok\n")

    app.router.add_get("/healthz", slow)

    async def visit(listener: Listener) -> None:
        async with held(listener, ROOM, ASKS) as asking:
            for _ in range(ROOM):
                await places.acquire()
            async with held(listener, 20) as late:
                for one in late:
                    assert await ended(one)
                let_go.set()
                for reader, _ in asking:
                    assert await reader.readuntil(b"ok\n")

    serve(visit, app)


@pytest.mark.parametrize("first", [b"", ASKS], ids=["at first", "later"])
@pytest.mark.parametrize("say", [HALF["nothing"], HALF["half a head"]], ids=["nothing", "half a head"])
def test_a_head_must_end_in_time(first: bytes, say: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """But silence after an answer is that of a scraper between two scrapes."""
    monkeypatch.setattr("sidecar.outputs.server._HEAD_SECONDS", 0.2)

    async def visit(listener: Listener) -> None:
        async with held(listener, 1, first) as ((reader, writer),):
            if first:
                await reader.readuntil(b"ok\n")
            writer.write(say)
            if first and not say:
                await asyncio.sleep(0.5)
                assert await answered((reader, writer))
            else:
                assert await ended((reader, writer))

    serve(visit)
