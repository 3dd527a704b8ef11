"""`GET /drain` over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from sidecar.outputs import drain
from sidecar.outputs.server import listen
from sidecar.snapshot import EMPTY_BLOCK, Publication, Snapshot, block_of


@dataclass
class Board:
    """Publications by hand, on a clock by hand."""

    now: float = 1000.0
    snapshots: dict[str, Snapshot] = field(default_factory=dict)

    def tell(self, in_flight: float, target: str = "local", *, up: bool = True) -> None:
        self.now += 2.0
        labels = {"target": target}
        data = block_of([("requests_running", labels, in_flight), ("requests_waiting", labels, 0.0)])
        self.snapshots[target] = Snapshot(
            target, "vllm", self.now, self.now, 0, up, data if up else EMPTY_BLOCK, EMPTY_BLOCK
        )

    def publication(self) -> Publication:
        return Publication(self.now, tuple(self.snapshots.values()))


async def ask(
    board: Board, query: str, later: list[Any], drains: drain.Drains | None = None
) -> tuple[int, dict[str, Any]]:
    """Ask, let the calls of `later` happen one by one while the answer is outstanding, and return it."""
    app = web.Application()
    drain.routes(app, board.publication, drains or drain.Drains(), clock=lambda: board.now)
    listener = await listen(app, "127.0.0.1:0")
    try:
        async with aiohttp.ClientSession() as session:
            asked = asyncio.create_task(session.get(f"{listener.url}/drain{query}"))
            for call in later:
                await asyncio.sleep(0.25)
                assert not asked.done()
                call()
            async with await asked as response:
                return response.status, json.loads(await response.text())
    finally:
        await listener.close()


def test_it_answers_once_nothing_is_in_flight() -> None:
    board = Board()
    board.tell(3)
    later = [lambda: board.tell(1), lambda: board.tell(0), lambda: board.tell(0)]
    status, body = asyncio.run(ask(board, "?timeout=60", later))
    assert status == 200 and body["drained"]
    assert body["targets"] == {"local": {"drained": True, "in_flight": 0}}


def test_it_answers_at_the_bound_when_work_goes_on() -> None:
    board = Board()
    board.tell(3)
    status, body = asyncio.run(ask(board, "?timeout=800ms", [lambda: board.tell(2)]))
    assert status == 504 and not body["drained"]
    assert body["targets"]["local"]["in_flight"] == 2


def test_a_runtime_that_cannot_be_seen_is_not_idle() -> None:
    board = Board()
    board.tell(0, up=False)
    later = [lambda: board.tell(0, up=False), lambda: board.tell(0, up=False)]
    status, body = asyncio.run(ask(board, "?timeout=1s", later))
    assert status == 504 and body["targets"]["local"] == {"drained": False, "in_flight": None}


def test_every_target_or_the_one_that_is_named() -> None:
    board = Board()
    board.tell(5, "busy")
    board.tell(0, "idle")

    def idle() -> None:
        board.tell(5, "busy")
        board.tell(0, "idle")

    status, body = asyncio.run(ask(board, "?timeout=30s&target=idle", [idle, idle]))
    assert status == 200 and list(body["targets"]) == ["idle"]
    status, body = asyncio.run(ask(board, "?timeout=900ms", [idle, idle]))
    assert status == 504 and not body["targets"]["busy"]["drained"] and body["targets"]["idle"]["drained"]


def test_a_target_that_left_the_config_holds_nobody_up() -> None:
    board = Board()
    board.tell(5, "gone")
    board.tell(0)

    def left() -> None:
        board.snapshots.pop("gone", None)
        board.tell(0)

    status, body = asyncio.run(ask(board, "?timeout=30s", [left, left]))
    assert status == 200 and list(body["targets"]) == ["local"]


def test_a_drain_is_known_while_it_goes_on_and_ends_with_its_client() -> None:
    board, drains = Board(), drain.Drains()
    board.tell(3)
    board.tell(3, "other")

    async def story() -> None:
        app = web.Application()
        drain.routes(app, board.publication, drains)
        listener = await listen(app, "127.0.0.1:0")
        try:
            async with aiohttp.ClientSession() as session:
                for query, others in (("?timeout=1h&target=local", False), ("?timeout=1h", True)):
                    asked = asyncio.create_task(session.get(f"{listener.url}/drain{query}"))
                    await until(lambda: drains.covers("local"))
                    assert drains.covers("other") is others
                    asked.cancel()
                    await until(lambda: not drains.covers("local"))
                    assert not drains.covers("other")
        finally:
            await listener.close()

    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(story())


def test_two_that_wait_for_one_target_and_the_first_one_ends() -> None:
    drains = drain.Drains()
    with drains.of("local"):
        with drains.of("local"), drains.of(""):
            assert drains.covers("local") and drains.covers("other")
        assert drains.covers("local") and not drains.covers("other")
    assert not drains.covers("local")


def test_a_timeout_that_is_none_and_a_target_that_is_not_there() -> None:
    board = Board()
    board.tell(0)
    status, body = asyncio.run(ask(board, "?timeout=soon", []))
    assert status == 400 and "soon" in body["detail"]
    status, body = asyncio.run(ask(board, "?target=x", []))
    assert status == 404 and body["targets"] == ["local"]
