"""The listener as a scraper, a scaler, a person and a stranger see it, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from math import inf, nan
from typing import Any

import aiohttp
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar.outputs.http import http_app
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import Listener, listen
from sidecar.schema import Method, Scope, Status
from sidecar.snapshot import EMPTY_BLOCK, Block, LayoutBuilder, Provenance, Publication, Snapshot, block_of

NOW = 1_700_000_000.0


class Sidecar:
    """What stands behind the listener, and how often it was asked."""

    def __init__(self) -> None:
        self.itself = SelfMetrics()
        self.publication = Publication(0.0)
        self.asked = 0

    def __call__(self) -> Publication:
        self.asked += 1
        return self.publication

    def publish(self, *snapshots: Snapshot, shared: tuple[Block, ...] = ()) -> None:
        self.publication = Publication(NOW, snapshots, shared, self.publication.serial + 1)


def target(name: str, running: float, *, up: bool = True) -> Snapshot:
    builder = LayoutBuilder()
    labels = {"target": name, "runtime": "vllm", "model_name": 'a "quoted" <model>'}
    builder.add("requests_running", labels)
    builder.add("requests_waiting", labels)
    builder.add("time_to_first_token_seconds", labels, (0.1, 1.0))
    data = Block(builder.build(), (running, nan, 1.0, 2.0, 4.0, 3.5))
    life = block_of([("target_up", {"target": name}, float(up)), ("signal_info", {"target": name}, 1.0)])
    provenance = (
        Provenance("requests_running", Status.OK, Method.NATIVE, "vllm:num_requests_running", Scope.ENGINE),
        Provenance("preemptions_total", Status.NEEDS_FLAG, note="start it with --flag"),
    )
    return Snapshot(name, "vllm", NOW, 5.0, 0, up, data, life, provenance)


Visit = Callable[[aiohttp.ClientSession, Listener], Awaitable[None]]


def serve(sidecar: Sidecar, visit: Visit) -> None:
    async def scenario() -> None:
        app = http_app(sidecar, sidecar.itself, clock=lambda: NOW + 2.5)
        listener = await listen(app, "127.0.0.1:0")
        try:
            async with aiohttp.ClientSession(listener.url, auto_decompress=False) as session:
                await visit(session, listener)
        finally:
            await listener.close()

    asyncio.run(asyncio.wait_for(scenario(), 30))


async def get(
    session: aiohttp.ClientSession, path: str, **headers: str
) -> tuple[aiohttp.ClientResponse, bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with session.get(path, headers={"Accept-Encoding": "identity"} | named) as response:
        return response, await response.read()


async def get_json(session: aiohttp.ClientSession, path: str) -> tuple[int, Any]:
    response, body = await get(session, path)
    assert response.content_type == "application/json"
    return response.status, json.loads(body)


def running(page: str) -> list[float]:
    return [
        sample.value
        for family in parse_text(page)
        for sample in family.samples
        if sample.name == "inference_requests_running"
    ]


def test_the_page_in_each_format_and_encoding() -> None:
    sidecar = Sidecar()
    sidecar.publish(target("a", 3), target("b", 4))

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        response, text = await get(session, "/metrics")
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert running(text.decode()) == [3, 4]
        assert b"\ninference_sidecar_build_info{" in text
        assert b"\nprocess_cpu_seconds_total " in text
        response, om = await get(session, "/metrics", Accept="application/openmetrics-text;version=1.0.0")
        assert (
            response.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        )
        assert om.count(b"# EOF") == 1 and om.endswith(b"# EOF\n")
        names = {sample.name for family in parse_openmetrics(om.decode()) for sample in family.samples}
        assert {"inference_requests_running", "process_cpu_seconds_total"} <= names
        response, packed = await get(session, "/metrics", Accept_Encoding="gzip")
        assert response.headers["Content-Encoding"] == "gzip"
        assert response.headers["Vary"] == "Accept, Accept-Encoding"
        assert int(response.headers["Content-Length"]) == len(packed)
        assert gzip.decompress(packed) == text
        response, packed = await get(
            session, "/metrics", Accept="application/openmetrics-text", Accept_Encoding="gzip"
        )
        assert gzip.decompress(packed) == om

    serve(sidecar, visit)


def test_scrapes_of_one_publication_are_the_same_bytes_and_the_next_is_news() -> None:
    sidecar = Sidecar()
    sidecar.publish(target("a", 3))

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        _, first = await get(session, "/metrics")
        sidecar.itself.output_failed("otlp")
        answers = await asyncio.gather(*(get(session, "/metrics") for _ in range(10)))
        assert {body for _, body in answers} == {first}, "the sidecar's own metrics are of that moment too"
        sidecar.publish(target("a", 5))
        _, second = await get(session, "/metrics")
        assert running(second.decode()) == [5]
        assert b'inference_sidecar_output_errors_total{output="otlp"} 1.0' in second

    serve(sidecar, visit)


def test_a_target_that_goes_takes_its_series_along() -> None:
    sidecar = Sidecar()
    sidecar.publish(target("a", 3), target("b", 4))

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        assert running((await get(session, "/metrics"))[1].decode()) == [3, 4]
        sidecar.publish(target("b", 4))
        assert running((await get(session, "/metrics"))[1].decode()) == [4]

    serve(sidecar, visit)


def test_a_series_that_two_blocks_claim_is_counted() -> None:
    sidecar = Sidecar()
    sidecar.publish(target("a", 3), target("a", 4))

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        await get(session, "/metrics")
        sidecar.publish(*sidecar.publication.snapshots)
        _, page = await get(session, "/metrics")
        assert running(page.decode()) == [3]
        assert b'series_dropped_total{reason="duplicate",target="a"} 5.0' in page

    serve(sidecar, visit)


def test_health_and_readiness_are_the_sidecars_own() -> None:
    sidecar = Sidecar()

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        assert (await get(session, "/healthz"))[0].status == 200
        assert (await get(session, "/readyz"))[0].status == 503
        assert (await get(session, "/metrics"))[0].status == 200
        sidecar.publish(target("a", 0, up=False))
        assert (await get(session, "/readyz"))[0].status == 200, "a runtime that is down doesn't matter"

    serve(sidecar, visit)


def test_all_signals_as_json() -> None:
    sidecar = Sidecar()
    gpus = block_of([("gpu_power_watts", {"gpu_uuid": "GPU-1"}, inf), ("gpu_up", {"gpu_uuid": "GPU-2"}, nan)])
    sidecar.publish(target("a", 3), shared=(gpus,))

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        status, body = await get_json(session, "/v1/signals")
        assert (status, body["time"]) == (200, NOW)
        (local,) = body["targets"]
        labels = {"target": "a", "runtime": "vllm", "model_name": 'a "quoted" <model>'}
        assert local == {
            "name": "a",
            "runtime": "vllm",
            "up": True,
            "age_seconds": 2.5,
            "reasons": {},
            "signals": [
                {
                    "name": "requests_running",
                    "type": "gauge",
                    "labels": labels,
                    "unit": "requests",
                    "value": 3,
                    "status": "ok",
                    "method": "native",
                    "source": "vllm:num_requests_running",
                    "scope": "engine",
                },
                {
                    "name": "time_to_first_token_seconds",
                    "type": "histogram",
                    "labels": labels,
                    "unit": "seconds",
                    "count": 4,
                    "sum": 3.5,
                },
                {"name": "target_up", "type": "gauge", "labels": {"target": "a"}, "value": 1},
                {
                    "name": "preemptions_total",
                    "status": "needs_flag",
                    "method": "native",
                    "source": "",
                    "scope": "engine",
                    "note": "start it with --flag",
                },
            ],
        }
        assert body["shared"] == [
            {
                "name": "gpu_power_watts",
                "type": "gauge",
                "labels": {"gpu_uuid": "GPU-1"},
                "unit": "watts",
                "value": "+Inf",
            }
        ]

    serve(sidecar, visit)


def test_one_signal_as_json() -> None:
    sidecar = Sidecar()
    sidecar.publish(target("a", 3), target("b", 4))

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        status, body = await get_json(session, "/v1/signals/requests_running")
        assert (status, body["value"], body["age_seconds"]) == (200, 7, 2.5)
        status, body = await get_json(
            session, "/v1/signals/requests_running?target=b&model_name=a+%22quoted%22+%3Cmodel%3E"
        )
        assert (status, body["value"]) == (200, 4)
        status, body = await get_json(session, "/v1/signals/requests_waiting")
        assert (status, body["reason"]) == (503, "absent")
        status, body = await get_json(session, "/v1/signals/request_running")
        assert (status, body["nearest"]) == (404, "requests_running")
        sidecar.publish(Snapshot("a", "vllm", NOW, 5.0, 0, False, EMPTY_BLOCK, EMPTY_BLOCK))
        status, body = await get_json(session, "/v1/signals/requests_running")
        assert (status, body["reason"], body["targets"]) == (503, "blind", ["a"])
        status, body = await get_json(session, "/v1/signals")
        assert body["targets"][0]["age_seconds"] is None

    serve(sidecar, visit)


def test_the_index_lists_every_path() -> None:
    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        response, body = await get(session, "/")
        assert response.content_type == "text/plain"
        paths = [line.split()[0] for line in body.decode().splitlines()[2:]]
        assert paths == [
            *("/", "/metrics", "/healthz", "/readyz", "/v1/signals", "/v1/signals/{name}"),
            *("/events", "/static/{name}"),
        ]
        assert max(map(len, body.decode().splitlines())) <= 80, "a terminal's width"

    serve(Sidecar(), visit)


PATHS = ["/", "/metrics", "/healthz", "/readyz", "/v1/signals", "/v1/signals/requests_running"]


@pytest.mark.parametrize("path", PATHS)
def test_head_is_get_without_the_body(path: str) -> None:
    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        whole, body = await get(session, path)
        async with session.head(path, headers={"Accept-Encoding": "identity"}) as head:
            assert await head.read() == b""
            assert head.status == whole.status
            assert head.headers["Content-Type"] == whole.headers["Content-Type"]
            assert int(head.headers["Content-Length"]) == len(body)

    serve(Sidecar(), visit)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_method(method: str) -> None:
    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        for path in [*PATHS, "/nowhere"]:
            async with session.request(method, path, data=b"x") as response:
                assert response.status == 405
                assert set(response.headers["Allow"].split(",")) == {"GET", "HEAD"}

    serve(Sidecar(), visit)


def test_every_answer_carries_the_headers_and_no_version() -> None:
    sidecar = Sidecar()

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        for path in [*PATHS, "/nowhere", "/metrics/../../etc/passwd"]:
            response, _ = await get(session, path)
            assert response.headers["Server"] == "inference-sidecar"
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
            assert "text/html" not in response.headers["Content-Type"]
        for nonsense in (
            b"\x16\x03\x01 is TLS\r\n\r\n",
            b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        ):
            answer = await raw(listener.port, nonsense)
            assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
            assert b"Server: inference-sidecar\r\n" in answer
            assert b"aiohttp" not in answer and b"Python" not in answer and b"aaaa" not in answer
        assert (await get(session, "/healthz"))[0].status == 200

    serve(sidecar, visit)


async def raw(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


def test_a_fault_of_its_own_is_counted_and_told_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    sidecar = Sidecar()
    layout = block_of([("requests_running", {}, 1)]).layout
    sidecar.publish(shared=(Block(layout, ()),))

    async def visit(session: aiohttp.ClientSession, listener: Listener) -> None:
        response, body = await get(session, "/metrics", Accept="text/html,*/*")
        assert response.status == 500
        assert response.content_type == "text/plain"
        assert b"Traceback" not in body and b"layout" not in body
        assert response.headers["Server"] == "inference-sidecar"

    serve(sidecar, visit)
    assert "/metrics can't be answered" in caplog.text
    labels = {"output": "http"}
    assert sidecar.itself.registry.get_sample_value("inference_sidecar_output_errors_total", labels) == 1
