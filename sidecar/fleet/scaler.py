"""KEDA's external scaler over gRPC: the answers of `ask`, a health service, TLS.

`GetMetricSpec` is static and never fails, or KEDA would neither scale nor fall back; only `GetMetrics` fails:
UNAVAILABLE while blind, INVALID_ARGUMENT for metadata that can't be used.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer

from sidecar.fleet import externalscaler as messages
from sidecar.fleet.ask import Ask, AskedWrongError, BlindError, is_active, read_ask, value_of
from sidecar.outputs.server import ListenError, split_address
from sidecar.snapshot import Block

log = logging.getLogger(__name__)

_OPTIONS = (
    ("grpc.max_receive_message_length", 64 * 1024),
    ("grpc.max_concurrent_streams", 1024),
    ("grpc.so_reuseport", 0),
)
_GRACE = 2.0

Told = Callable[[str, str, float], None]


@dataclass(frozen=True, slots=True)
class ScalerTls:
    """PEM files; with `client_ca` only clients with a certificate of it are let in."""

    cert: Path
    key: Path
    client_ca: Path | None = None


class Scaler:
    """The service. `block` gives the fleet's last block; `told` hears of each answer: method, status, seconds."""

    def __init__(self, block: Callable[[], Block], told: Told) -> None:
        self._block = block
        self._told = told
        self._changed = asyncio.Event()

    def changed(self) -> None:
        """There is a new block: streams look at it."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def is_active(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        began = perf_counter()
        answer = messages.IsActiveResponse(result=is_active(_ask(request), self._block()))
        self._told("IsActive", "OK", perf_counter() - began)
        return answer

    async def stream_is_active(self, request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        """The state now, then each change of it."""
        ask = _ask(request)
        last: bool | None = None
        self._told("StreamIsActive", "OK", 0.0)  # a stream takes as long as the client likes
        while True:
            changed = self._changed
            state = is_active(ask, self._block())
            if state is not last:
                last = state
                yield messages.IsActiveResponse(result=state)
            await changed.wait()

    async def get_metric_spec(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        began = perf_counter()
        ask = _ask(request)
        if ask.faults:
            log.warning("ScaledObject %s/%s: %s", request.namespace, request.name, "; ".join(ask.faults))
        spec = messages.MetricSpec(
            metricName=ask.metric_name, targetSize=max(1, round(ask.target)), targetSizeFloat=ask.target
        )
        self._told("GetMetricSpec", "OK", perf_counter() - began)
        return messages.GetMetricSpecResponse(metricSpecs=[spec])

    async def get_metrics(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        began = perf_counter()
        ask = _ask(request.scaledObjectRef)
        try:
            value = value_of(ask, self._block())
        except BlindError as error:
            self._told("GetMetrics", "UNAVAILABLE", perf_counter() - began)
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except AskedWrongError as error:
            self._told("GetMetrics", "INVALID_ARGUMENT", perf_counter() - began)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        answer = messages.MetricValue(
            metricName=request.metricName or ask.metric_name,
            metricValue=round(value),
            metricValueFloat=value,
        )
        self._told("GetMetrics", "OK", perf_counter() - began)
        return messages.GetMetricsResponse(metricValues=[answer])

    def handlers(self) -> grpc.GenericRpcHandler:
        def unary(method: Callable[..., Awaitable[Any]], request: Any) -> grpc.RpcMethodHandler:
            return grpc.unary_unary_rpc_method_handler(
                method, request_deserializer=request.FromString, response_serializer=_bytes
            )

        ref = messages.ScaledObjectRef
        return grpc.method_handlers_generic_handler(
            messages.SERVICE,
            {
                "IsActive": unary(self.is_active, ref),
                "StreamIsActive": grpc.unary_stream_rpc_method_handler(
                    self.stream_is_active,
                    request_deserializer=ref.FromString,
                    response_serializer=_bytes,
                ),
                "GetMetricSpec": unary(self.get_metric_spec, ref),
                "GetMetrics": unary(self.get_metrics, messages.GetMetricsRequest),
            },
        )


@dataclass(slots=True)
class ScalerServer:
    """A running listener; `port` is the real one."""

    port: int
    _server: grpc.aio.Server
    _health: HealthServicer

    async def close(self) -> None:
        await self._health.enter_graceful_shutdown()
        await self._server.stop(_GRACE)


async def serve(scaler: Scaler, address: str, tls: ScalerTls | None = None) -> ScalerServer:
    """Listen on `host:port`, `:port` for every interface; port 0 takes a free one. Raises ListenError."""
    host, number = split_address(address)
    where = f"[{host}]" if ":" in host else host or _every_interface()
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((scaler.handlers(),))
    health = HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    try:
        port = (
            server.add_insecure_port(f"{where}:{number}")
            if tls is None
            else server.add_secure_port(f"{where}:{number}", _credentials(tls))
        )
    except RuntimeError:
        raise ListenError(
            f"can't listen for gRPC on {address}: taken, not allowed, or no such host"
        ) from None
    for service in ("", messages.SERVICE):
        await health.set(service, health_pb2.HealthCheckResponse.SERVING)
    await server.start()
    return ScalerServer(port, server, health)


def _every_interface() -> str:
    return "[::]" if socket.has_dualstack_ipv6() else "0.0.0.0"


def _credentials(tls: ScalerTls) -> grpc.ServerCredentials:
    """Certificates are looked at with each handshake and read anew when a file has changed."""
    first, stamps = _configuration(tls), _stamps(tls)
    known = [stamps]

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        now = _stamps(tls)
        if now == known[0]:
            return None
        try:
            fresh = _configuration(tls)
        except OSError as error:
            log.error("the new certificate can't be read, the old one stays: %s", type(error).__name__)
            return None
        known[0] = now
        return fresh

    return grpc.dynamic_ssl_server_credentials(
        first, fetch, require_client_authentication=tls.client_ca is not None
    )


def _configuration(tls: ScalerTls) -> grpc.ServerCertificateConfiguration:
    pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    root = tls.client_ca.read_bytes() if tls.client_ca is not None else None
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=root)


def _stamps(tls: ScalerTls) -> tuple[tuple[int, int, int] | None, ...]:
    stamps: list[tuple[int, int, int] | None] = []
    for path in (tls.cert, tls.key, tls.client_ca):
        try:
            stat = path.stat() if path is not None else None
        except OSError:
            stat = None
        stamps.append((stat.st_ino, stat.st_size, stat.st_mtime_ns) if stat is not None else None)
    return tuple(stamps)


def _ask(reference: Any) -> Ask:
    return read_ask(dict(reference.scalerMetadata))


def _bytes(message: Any) -> bytes:
    body: bytes = message.SerializeToString()
    return body
