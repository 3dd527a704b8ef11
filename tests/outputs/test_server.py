from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web

from sidecar.outputs.server import Listener, ListenError, listen, split_address


def app() -> web.Application:
    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    application = web.Application()
    application.router.add_get("/", hello)
    return application


def serve(address: str, visit: Callable[[Listener], Awaitable[None]]) -> None:
    async def scenario() -> None:
        listener = await listen(app(), address)
        try:
            await visit(listener)
        finally:
            await listener.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


async def fetch(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return await response.text()


def test_a_free_port_and_the_address_is_free_again_after_close() -> None:
    ports = []

    async def visit(listener: Listener) -> None:
        ports.append(listener.port)
        assert listener.url == f"http://127.0.0.1:{listener.port}"
        assert await fetch(listener.url) == "hello"

    serve("127.0.0.1:0", visit)
    serve(f"127.0.0.1:{ports[0]}", visit)
    assert ports[0] == ports[1] > 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", ports[0]), timeout=5).close()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6")
@pytest.mark.parametrize("address", ["[::]:0", ":0"])
def test_every_interface_is_both_families(address: str) -> None:
    async def visit(listener: Listener) -> None:
        assert await fetch(f"http://127.0.0.1:{listener.port}") == "hello"
        assert await fetch(f"http://[::1]:{listener.port}") == "hello"
        assert listener.url == f"http://[::]:{listener.port}"

    serve(address, visit)


@pytest.mark.skipif(not has_ipv6(), reason="this host has no IPv6")
def test_loopback_of_ipv6_alone() -> None:
    async def visit(listener: Listener) -> None:
        assert await fetch(listener.url) == "hello"
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", listener.port), timeout=5).close()

    serve("[::1]:0", visit)


def test_a_taken_port_names_the_mend() -> None:
    async def visit(listener: Listener) -> None:
        with pytest.raises(ListenError) as caught:
            await listen(app(), f"127.0.0.1:{listener.port}")
        assert str(caught.value) == (
            f"can't listen on 127.0.0.1:{listener.port}: the port is taken; choose another,"
            f" e.g. --set listen=127.0.0.1:{listener.port + 1}"
        )

    serve("127.0.0.1:0", visit)


@pytest.mark.parametrize("address", ["203.0.113.7:0", "no..host:0"])
def test_an_address_that_is_not_ours_names_the_mend(address: str) -> None:
    async def nobody(listener: Listener) -> None:
        raise AssertionError("it listens")

    with pytest.raises(ListenError, match="no such address on this host; --set listen="):
        serve(address, nobody)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("127.0.0.1:9845", "127.0.0.1", 9845),
        ("[::]:9845", "::", 9845),
        ("[fe80::1]:0", "fe80::1", 0),
        (":9845", "", 9845),
        ("localhost:65535", "localhost", 65535),
    ],
)
def test_addresses(address: str, host: str, port: int) -> None:
    assert split_address(address) == (host, port)


@pytest.mark.parametrize(
    "address", ["", "9845", "host", "host:", "host:x", "host:65536", "host:-1", "h:٣", "::1:9845"]
)
def test_addresses_that_cannot_be_read(address: str) -> None:
    with pytest.raises(ListenError, match=r"can't be read: .* as in "):
        split_address(address)


def test_close_does_not_wait_for_idle_connections() -> None:
    async def scenario() -> None:
        listener = await listen(app(), "127.0.0.1:0")
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        await asyncio.sleep(0.05)
        await asyncio.wait_for(listener.close(), 10)
        assert await reader.read() == b""
        writer.close()

    asyncio.run(scenario())
