"""Names: found, unknown, and a name server that does not answer."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher
from sidecar.targets.resolve import Resolver

PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ng 7\n"


def test_localhost_resolves_to_what_the_system_says() -> None:
    found = asyncio.run(Resolver().resolve("localhost", 80, socket.AF_INET))
    assert [(one["host"], one["port"], one["family"]) for one in found] == [("127.0.0.1", 80, socket.AF_INET)]


def test_an_unknown_name_and_no_name() -> None:
    with pytest.raises(socket.gaierror):
        asyncio.run(Resolver().resolve("no-such-host.invalid", 80))
    with pytest.raises(UnicodeError):
        asyncio.run(Resolver().resolve("x" * 70, 80))


def test_name_servers_that_are_silent_hold_up_neither_other_targets_nor_the_end(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More silent look-ups than the event loop's own executor has threads."""
    silent = threading.Event()
    real = socket.getaddrinfo
    asked: list[str] = []

    def getaddrinfo(host: str, *args: Any, **keys: Any) -> Any:
        if host.endswith(".silent"):
            asked.append(host)
            silent.wait(30)
        return real(host, *args, **keys)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def get(url: str, seconds: float) -> str:
        async with Fetcher() as fetcher:
            results = []
            for _ in range(2):
                try:
                    await fetcher.get(url, deadline=asyncio.get_running_loop().time() + seconds)
                    results.append("ok")
                except FetchError as exc:
                    results.append(exc.result)
            return " ".join(results)

    async def run() -> list[str]:
        async with serve(PAGE) as server:
            urls = [f"http://host-{number}.silent/metrics" for number in range(40)]
            stuck = [asyncio.create_task(get(url, 0.2)) for url in urls]
            await asyncio.sleep(0.05)
            well = await get(f"http://localhost:{server.port}/metrics", 20.0)
            return [well, *await asyncio.gather(*stuck)]

    try:
        results = asyncio.run(run())
        assert not silent.is_set()
    finally:
        silent.set()
    assert results == ["ok ok"] + ["timeout timeout"] * 40
    assert len(asked) == len(set(asked)) == 40, "a look-up under way is not begun again"
