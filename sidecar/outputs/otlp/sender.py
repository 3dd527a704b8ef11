"""The SDK's exporters, with credentials and TLS from files that are read again when they change."""

from __future__ import annotations

import base64
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics.export import (
    MetricExporter,
    MetricExportResult,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from sidecar import __version__
from sidecar.config import Otlp, SecretUnreadable
from sidecar.outputs.otlp.convert import Converter
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.snapshot import Publication

_POINTS = 2000  # in one request: far below gRPC's usual 4 MiB
_LAST_SEND_WITHIN = 2.0

#: Environment variables that the manifests fill from the downward API.
_FROM_KUBERNETES = {
    "POD_NAME": "k8s.pod.name",
    "POD_UID": "k8s.pod.uid",
    "POD_NAMESPACE": "k8s.namespace.name",
    "NODE_NAME": "k8s.node.name",
    "CONTAINER_NAME": "k8s.container.name",
}


class Sender:
    """Sends publications over one of the two transports."""

    def __init__(
        self, settings: Otlp, servers: Callable[[], dict[str, str]], began: float, instance: str
    ) -> None:
        self._settings = settings
        self._converter = Converter(servers, began)
        self._resource = resource(os.environ, instance)
        self._scope = InstrumentationScope("inference-sidecar", __version__)
        self._exporter: MetricExporter | None = None
        self._made_of: tuple[object, ...] = ()
        self._told = _Told()

    def send(self, publication: Publication, itself: SelfMetrics) -> str:
        """What went wrong, empty when the collector took everything."""
        metrics = self._converter.metrics(publication, itself.collect())
        scope = ScopeMetrics(self._scope, metrics, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        try:
            exporter = self._current()
        except (SecretUnreadable, OSError) as error:
            return str(error)
        with self._told as told:
            taken = exporter.export(data) is MetricExportResult.SUCCESS
        if taken:
            return told.partly
        return told.last or "the exporter doesn't say why"

    def hurry(self) -> None:
        """The process ends: whatever is being retried is given up."""
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            exporter.shutdown()
        self._settings = self._settings.model_copy(
            update={"timeout": min(_LAST_SEND_WITHIN, self._settings.timeout)}
        )

    def close(self) -> None:
        if self._exporter is not None:
            self._exporter.shutdown()

    def _current(self) -> MetricExporter:
        """The exporter; a new one when a header, a token or a certificate has changed."""
        headers = dict(_headers(self._settings))
        tls = self._settings.tls
        files = [tls.ca_file, tls.cert_file, tls.key_file.path if tls.key_file else None]
        made_of = (headers, [_stamp(one) for one in files if one])
        if self._exporter is None or made_of != self._made_of:
            if self._exporter is not None:
                self._exporter.shutdown()
            make = _http if self._settings.protocol == "http" else _grpc
            self._exporter = make(self._settings, headers, self._told)
            self._made_of = made_of
        return self._exporter


class _Told(logging.Handler):
    """Catches what the exporters log: it becomes the reason of our own line, once, instead of one a push."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        self.partly = ""
        self._logger = logging.getLogger("opentelemetry.exporter")
        self._logger.propagate = False
        self._logger.addHandler(self)

    def __enter__(self) -> _Told:
        self.last = self.partly = ""
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or not self.last:
            self.last = record.getMessage()[:300]


def resource(environ: Mapping[str, str], instance: str) -> Resource:
    """Who speaks. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word."""
    kubernetes = {name: environ[key] for key, name in _FROM_KUBERNETES.items() if environ.get(key)}
    own = Resource(
        {
            "service.name": "inference-sidecar",
            "service.version": __version__,
            "service.instance.id": environ.get("POD_UID") or instance,
            "host.name": environ.get("NODE_NAME") or socket.gethostname(),
            **kubernetes,
        }
    )
    return own.merge(OTELResourceDetector().detect())


def _headers(settings: Otlp) -> Iterator[tuple[str, str]]:
    """Raises SecretUnreadable, which names a file and never what is in it."""
    if settings.headers_file is not None:
        for line in settings.headers_file.read().splitlines():
            name, colon, value = line.partition(":")
            if not line.strip():
                continue
            if not colon or not name.strip() or not (line.isascii() and line.isprintable()):
                raise SecretUnreadable(f"{settings.headers_file.path}: a line isn't `Name: value`")
            yield name.strip().lower(), value.strip()
    if settings.auth.bearer_token_file is not None:
        yield "authorization", f"Bearer {settings.auth.bearer_token_file.read_line()}"
    elif (basic := settings.auth.basic) is not None:
        pair = f"{basic.username}:{basic.password_file.read()}".encode()
        yield "authorization", "Basic " + base64.b64encode(pair).decode()


def _http(settings: Otlp, headers: dict[str, str], told: _Told) -> MetricExporter:
    import requests
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    def look(response: Any, **_: object) -> None:
        """The exporter takes a redirect for a success, and doesn't read what the collector refused."""
        if 300 <= response.status_code < 400:
            raise requests.exceptions.InvalidURL(f"the collector redirects ({response.status_code})")
        if response.ok and response.headers.get("Content-Type") == "application/x-protobuf":
            refused = ExportMetricsServiceResponse.FromString(response.content).partial_success
            if refused.rejected_data_points:
                told.partly = f"{refused.rejected_data_points} points refused: {refused.error_message[:200]}"

    session = requests.Session()
    session.trust_env = False  # no proxy, no .netrc: what is sent goes where the config says
    session.hooks["response"].append(look)
    url = settings.endpoint
    tls = settings.tls
    return OTLPMetricExporter(
        endpoint=url if url.endswith("/v1/metrics") else f"{url}/v1/metrics",
        certificate_file=_text(tls.ca_file),
        client_certificate_file=_text(tls.cert_file),
        client_key_file=_text(tls.key_file.path if tls.key_file else None),
        headers=headers,
        timeout=settings.timeout,
        compression=Compression.Gzip,
        session=session,
        max_export_batch_size=_POINTS,
    )


def _grpc(settings: Otlp, headers: dict[str, str], told: _Told) -> MetricExporter:
    import grpc
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter

    tls = settings.tls
    secure = settings.endpoint.startswith("https")
    credentials = None
    if secure:
        credentials = grpc.ssl_channel_credentials(
            _bytes(tls.ca_file), _bytes(tls.key_file.path if tls.key_file else None), _bytes(tls.cert_file)
        )
    options = (("grpc.ssl_target_name_override", tls.server_name),) if tls.server_name else None
    return OTLPMetricExporter(
        endpoint=settings.endpoint,
        insecure=not secure,
        credentials=credentials,
        headers=headers,
        timeout=settings.timeout,
        compression=grpc.Compression.Gzip,
        channel_options=options,
        max_export_batch_size=_POINTS,
    )


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _bytes(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()
