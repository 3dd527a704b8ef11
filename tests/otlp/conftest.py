from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import grpc
import pytest
from aiohttp import web
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric


@dataclass(slots=True)
class Collector:
    """What a local receiver got. `answer` decides how it behaves: ok, hang, redirect, refuse, partly."""

    url: str = ""
    answer: str = "ok"
    requests: list[ExportMetricsServiceRequest] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: int = 0

    def metrics(self) -> dict[str, Metric]:
        """The last push, by name; a metric that was split over requests isn't asked for here."""
        (resource,) = self.requests[-1].resource_metrics
        return {one.name: one for scope in resource.scope_metrics for one in scope.metrics}

    def resource(self) -> dict[str, str]:
        (resource,) = self.requests[-1].resource_metrics
        return {one.key: one.value.string_value for one in resource.resource.attributes}


@asynccontextmanager
async def over_http(tls: ssl.SSLContext | None = None) -> AsyncIterator[Collector]:
    collector = Collector()

    async def take(request: web.Request) -> web.Response:
        collector.asked += 1
        if collector.answer == "hang":
            await asyncio.sleep(3600)
        if collector.answer == "redirect":
            raise web.HTTPMovedPermanently("/elsewhere")
        if collector.answer == "refuse":
            raise web.HTTPUnauthorized
        collector.headers.append({name.lower(): value for name, value in request.headers.items()})
        collector.requests.append(ExportMetricsServiceRequest.FromString(await request.read()))
        answer = ExportMetricsServiceResponse()
        if collector.answer == "partly":
            answer.partial_success.rejected_data_points = 3
            answer.partial_success.error_message = "too old"
        return web.Response(body=answer.SerializeToString(), content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/metrics", take)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    collector.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


@asynccontextmanager
async def over_grpc(tls: grpc.ServerCredentials | None = None) -> AsyncIterator[Collector]:
    collector = Collector()

    class Service(MetricsServiceServicer):
        async def Export(
            self, request: ExportMetricsServiceRequest, context: grpc.aio.ServicerContext
        ) -> ExportMetricsServiceResponse:
            collector.asked += 1
            if collector.answer == "hang":
                await asyncio.sleep(3600)
            if collector.answer == "refuse":
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you")
            collector.headers.append(dict(context.invocation_metadata()))
            collector.requests.append(request)
            return ExportMetricsServiceResponse()

    server = grpc.aio.server()
    add_MetricsServiceServicer_to_server(Service(), server)
    if tls is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", tls)
    await server.start()
    collector.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield collector
    finally:
        await server.stop(None)


@pytest.fixture(params=["http", "grpc"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def collecting(protocol: str) -> Callable[[], AbstractAsyncContextManager[Collector]]:
    """A collector of the transport under test."""
    return over_http if protocol == "http" else over_grpc
