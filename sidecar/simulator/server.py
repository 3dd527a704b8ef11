"""vLLM's HTTP endpoints on a simulated replica: its page, its health, and an OpenAI-compatible API that
streams."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from time import monotonic, time
from types import TracebackType

from aiohttp import web

from sidecar.simulator.live import Live
from sidecar.simulator.openai import BadRequest, Reply, parse
from sidecar.simulator.replica import Replica, ReplicaConfig, State
from sidecar.simulator.request import Outcome, Request
from sidecar.simulator.simulation import Simulation
from sidecar.simulator.traffic import Traffic
from sidecar.simulator.vllm_page import VllmPage

UNCOUNTED = frozenset({"/metrics", "/health", "/load", "/ping", "/version", "/server_info"})
"""Paths that vLLM's own HTTP metrics leave out."""

ENGINE = frozenset({"/v1/completions", "/v1/chat/completions"})
"""Paths whose good requests reach the engine: the replica counts those."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class SimulatedVllm:
    """A vLLM server on 127.0.0.1: `async with SimulatedVllm(config, traffic) as server: … server.url`.

    Real requests and the simulated traffic share one engine. Faults are methods. While the process is
    starting or restarting, connections are refused, as with the real one. `lived` seconds of the traffic are
    over when it is made.
    """

    def __init__(
        self,
        config: ReplicaConfig | None = None,
        traffic: Traffic | None = None,
        *,
        page: VllmPage | None = None,
        port: int = 0,
        load_tracking: bool = False,
        lived: float = 0.0,
    ) -> None:
        config = config or ReplicaConfig()
        self.page = page or VllmPage()
        simulation = Simulation(Replica(config, epoch=time() - lived), traffic)
        simulation.advance(lived)
        self.live = Live(simulation)
        self._load_tracking = load_tracking
        self._socket = _bound(port)
        self.port: int = self._socket.getsockname()[1]
        self._runner: web.AppRunner | None = None
        self._opening: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def replica(self) -> Replica:
        """As of now."""
        self.live.touch()
        return self.live.replica

    # Controls

    def play(self, traffic: Traffic | None) -> None:
        """Replace the simulated traffic: an overload, or None for silence."""
        self.live.play(traffic)

    def fail(self, share: float) -> None:
        """From now on this share of the requests ends in an error."""
        self.replica.error_rate = share

    def hang(self, rank: int | None = None) -> None:
        """The engine stops; `/metrics` and `/health` go on answering."""
        self.replica.hang(rank)
        self.live.disturb()

    def resume(self) -> None:
        self.replica.resume()
        self.live.disturb()

    def slow_down(self, factor: float) -> None:
        self.replica.slow_down(factor)
        self.live.disturb()

    async def restart(self, startup: float | None = None) -> None:
        """The process dies with all its connections and listens again after `startup` seconds. Returns at
        once."""
        self.live.touch()
        self.live.simulation.collect(self.live.replica.restart(startup))
        self.live.disturb()
        await self._close()
        self._socket = _bound(self.port)
        self._opening = asyncio.create_task(self._open())

    async def listening(self) -> None:
        """Wait until it answers."""
        if self._opening is not None:
            await self._opening

    # Life

    async def __aenter__(self) -> SimulatedVllm:
        await self.live.__aenter__()
        self._opening = asyncio.create_task(self._open())
        if self.live.replica.state is State.READY:
            await self._opening
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()
        self._socket.close()
        await self.live.__aexit__(kind, error, trace)

    async def _open(self) -> None:
        await asyncio.sleep(max(0.0, self.live.replica.ready_at - self.live.now))
        app = web.Application(middlewares=[self._count])
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/metrics/", self._metrics)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ping", self._health)
        app.router.add_get("/version", self._version)
        app.router.add_get("/load", self._load)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.SockSite(runner, self._socket).start()
        self._runner = runner

    async def _close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
            self._opening = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        self._socket.close()

    # Endpoints

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """HTTP figures of what doesn't reach the engine; the replica itself counts what does."""
        began = monotonic()
        status = 500
        try:
            response = await handler(request)
            status = response.status
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            reached = request.path in ENGINE and status // 100 != 4
            if request.path not in UNCOUNTED and not reached:
                known = request.match_info.route.resource
                self.live.replica.front.record(
                    known.canonical if known is not None else "none",
                    request.method,
                    status,
                    monotonic() - began,
                    bytes_in=request.content_length or 0,
                )
        return response

    async def _metrics(self, request: web.Request) -> web.Response:
        body = self.page.render(self.replica)
        return web.Response(body=body, headers={"Content-Type": self.page.content_type})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": self.page.version})

    async def _load(self, request: web.Request) -> web.Response:
        return web.json_response({"server_load": self.replica.in_flight if self._load_tracking else 0})

    async def _models(self, request: web.Request) -> web.Response:
        config = self.live.replica.config
        card = {
            "id": config.model_name,
            "object": "model",
            "created": int(time()),  # the time of the call, as the real one says
            "owned_by": "vllm",
            "root": config.model_name,
            "parent": None,
            "max_model_len": config.engine.max_model_len,
        }
        return web.json_response({"object": "list", "data": [card]})

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        try:
            config = self.live.replica.config
            asked, reply = parse(await http.read(), http.path, config.model_name, config.engine.max_model_len)
            accepted = self.live.submit(asked)
        except BadRequest as error:
            return web.json_response(error.body, status=error.status)
        if not asked.streaming:
            return await self._whole(asked, reply)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(http)
        if not accepted:
            await response.write(_event(json.dumps(reply.refusal)) + _event("[DONE]"))
            return response
        try:
            await self._stream(asked, reply, response)
            if asked.outcome is Outcome.LOST and http.transport is not None:
                http.transport.abort()
        except (ConnectionError, asyncio.CancelledError):
            self.live.abort(asked)
            raise
        return response

    async def _stream(self, asked: Request, reply: Reply, response: web.StreamResponse) -> None:
        sent = 0
        async with aclosing(self.live.tokens(asked)) as growth:
            async for out in growth:
                last = asked.outcome is not None and out == asked.generated
                chunks = [reply.chunk(n, asked, last and n == out - 1) for n in range(sent, out)]
                await response.write(b"".join(_event(json.dumps(chunk)) for chunk in chunks))
                sent = out
        if asked.outcome is Outcome.LOST:
            return  # the process is gone: no last word
        closing = [reply.failure] if asked.outcome is Outcome.ERROR else []
        if reply.usage_wanted:
            closing.append(reply.usage_chunk(asked))
        await response.write(b"".join(_event(json.dumps(one)) for one in closing) + _event("[DONE]"))

    async def _whole(self, asked: Request, reply: Reply) -> web.Response:
        try:
            async with aclosing(self.live.tokens(asked)) as growth:
                async for _ in growth:
                    pass
        except asyncio.CancelledError:
            self.live.abort(asked)
            raise
        if asked.outcome is Outcome.REJECTED:
            return web.json_response(reply.refusal, status=503)
        if asked.outcome is Outcome.ERROR:
            return web.json_response(reply.failure, status=500)
        return web.json_response(reply.whole(asked))


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode()


def _bound(port: int) -> socket.socket:
    """A socket that holds the port without listening: whoever connects is refused."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    held.setblocking(False)
    return held
