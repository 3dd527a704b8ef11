"""The fleet role in the world of the dashboards: sidecars on real sockets of which some fall silent, a router,
and somebody who asks as KEDA does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import grpc
from aiohttp import web

from sidecar.background import Background
from sidecar.fleet import externalscaler as messages
from sidecar.fleet.discover import Static
from sidecar.fleet.role import FleetRole, FleetSettings
from sidecar.fleet.router import Router, selector
from sidecar.outputs.prometheus.page import render_blocks
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import listen
from sidecar.snapshot import Block, Snapshot, block_of

SIDECARS = 4
EVERY = 0.4
WHERE = {"target": "chat", "runtime": "vllm", "model_name": "demo/llama-8b"}
_TAIL = SelfMetrics().render()

#: Sidecar → share of the show in which it fails, and how.
FAILS = {2: (0.35, 0.6, "refuses"), 3: (0.5, 0.75, "hangs")}
ALL_BLIND = (0.82, 0.9)


@asynccontextmanager
async def fleet_roles(
    chat: Callable[[], Snapshot], done: Callable[[], float]
) -> AsyncIterator[tuple[str, ...]]:
    """Addresses of two roles. `chat` is what each of their sidecars shows, `done` how much is over."""
    sidecars = [await listen(_sidecar(place, chat, done), "127.0.0.1:0") for place in range(SIDECARS)]
    router = await listen(_router(chat), "127.0.0.1:0")
    roles = [_role([one.url for one in sidecars], router.url + "/metrics") for _ in range(2)]
    for role in roles:
        await role.start()
    asking = Background("somebody who asks as KEDA does")
    asking.spawn(_keda(roles[0].grpc_port))
    try:
        yield tuple(role.url.removeprefix("http://") for role in roles)
    finally:
        await asking.close()
        for closing in (*roles, *sidecars, router):
            await closing.close()


def _role(sidecars: list[str], router: str) -> FleetRole:
    role = FleetRole(
        FleetSettings(
            Static(tuple(sidecars)),
            listen="127.0.0.1:0",
            grpc_listen="127.0.0.1:0",
            interval=EVERY,
            timeout=EVERY / 2,
            router=Router(router, selector("router_in_flight")),
        )
    )
    role.fleet._stale_after = 3 * EVERY  # the show is a fast one
    return role


def _sidecar(place: int, chat: Callable[[], Snapshot], done: Callable[[], float]) -> web.Application:
    begin, end, how = FAILS.get(place, (1.0, 1.0, ""))

    async def metrics(request: web.Request) -> web.Response:
        if begin <= done() < end or ALL_BLIND[0] <= done() < ALL_BLIND[1]:
            if how != "hangs":
                raise web.HTTPServiceUnavailable
            await asyncio.sleep(EVERY)
        body = render_blocks([*chat().blocks, _bill(done())])
        return web.Response(body=body + _TAIL, content_type="text/plain")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


def _bill(done: float) -> Block:
    """What a sidecar beside real GPUs adds: a hundredth of a kilowatt-hour and a cent for all of the show."""
    return block_of(
        [
            ("energy_joules_total", WHERE, 36_000.0 * done),
            ("cost_total", {**WHERE, "currency": "USD"}, 0.01 * done),
        ]
    )


def _router(chat: Callable[[], Snapshot]) -> web.Application:
    async def metrics(request: web.Request) -> web.Response:
        data = chat().data
        held = sum(data.get(name) for name in ("requests_running", "requests_waiting"))
        return web.Response(text=f"router_in_flight {SIDECARS * max(held, 0.0) if held == held else 0.0}\n")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


async def _keda(port: int) -> None:
    """GetMetricSpec once, then a value and the state again and again; one trigger is written wrongly."""
    chosen = {"signal": "replica_demand"}
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:

        def method(name: str) -> Callable[[Any], Awaitable[Any]]:
            path = f"/{messages.SERVICE}/{name}"
            return channel.unary_unary(path, request_serializer=lambda message: message.SerializeToString())

        def asked_for(metadata: dict[str, str]) -> Any:
            return messages.ScaledObjectRef(name="chat", namespace="demo", scalerMetadata=metadata)

        await method("GetMetricSpec")(asked_for(chosen))
        for turn in count():
            wrong = [{"signal": "no_such_thing"}] if turn % 10 == 0 else []
            for metadata in (chosen, *wrong):
                asked = messages.GetMetricsRequest(scaledObjectRef=asked_for(metadata))
                try:
                    await method("GetMetrics")(asked)
                except grpc.aio.AioRpcError:
                    pass
            await method("IsActive")(asked_for(chosen))
            await asyncio.sleep(EVERY / 2)
