"""Targets that hang, drip, flood, unpack without end or refuse, beside one that is well."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher
from sidecar.targets.poll import Poller

HEAD = b"HTTP/1.1 200 OK\r\n"
PAGE = b'vllm:num_requests_running{engine="0"} 1.0\n' * 1300
BOMB = gzip.compress(b"0" * 60_000_000, 9)


async def hang(_: str, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def drip(_: str, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\nx\r\n")
        await writer.drain()
        await asyncio.sleep(0.005)


async def flood(_: str, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"40000\r\n" + b"x" * 0x40000 + b"\r\n")
        await writer.drain()


def test_a_sick_target_does_not_move_the_schedule_of_a_healthy_one(serve: Any) -> None:
    interval, ticks = 0.1, 15
    answers = {
        "healthy": HEAD + b"Content-Length: %d\r\n\r\n" % len(PAGE) + PAGE,
        "hanging": hang,
        "dripping": drip,
        "flooding": flood,
        "unpacking": HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(BOMB) + BOMB,
    }
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refusing = f"http://127.0.0.1:{taken.getsockname()[1]}/metrics"
    results: dict[str, Counter[str]] = {}

    async def run() -> dict[str, Poller]:
        pollers: dict[str, Poller] = {}
        async with AsyncExitStack() as stack:
            urls = {"refusing": refusing}
            for name, answer in answers.items():
                server = await stack.enter_async_context(serve(answer, keep=name == "healthy"))
                urls[name] = server.url
            for name, url in urls.items():
                fetcher = await stack.enter_async_context(Fetcher(name))
                results[name] = Counter()

                async def tick(
                    deadline: float, name: str = name, url: str = url, fetcher: Fetcher = fetcher
                ) -> bool:
                    try:
                        page = await fetcher.get(url, deadline=deadline)
                    except FetchError as exc:
                        results[name][exc.result] += 1
                        return False
                    assert page.body == PAGE
                    results[name]["ok"] += 1
                    return True

                pollers[name] = Poller(name, tick, interval=interval, back_off=interval)
            tasks = [asyncio.create_task(poller.run()) for poller in pollers.values()]
            await asyncio.sleep(interval * ticks)
            for poller in pollers.values():
                poller.stop()
            await asyncio.gather(*tasks)
        return pollers

    pollers = asyncio.run(run())
    assert all(poller.crashes == 0 for poller in pollers.values())
    assert set(results["healthy"]) == {"ok"}
    assert results["healthy"]["ok"] >= ticks * 2 // 3
    assert set(results["hanging"]) == set(results["dripping"]) == {"timeout"}
    assert set(results["flooding"]) | set(results["unpacking"]) <= {"timeout", "too_large"}
    assert set(results["refusing"]) == {"refused"}
    assert all(sum(counter.values()) >= 3 for counter in results.values())
