"""The whole way: a simulated runtime, the sidecar, a real collector's side of both transports."""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import trustme

from sidecar.app import Application
from sidecar.config import ConfigError, ConfigFile, load, load_bytes
from sidecar.outputs.otlp.names import name_of
from sidecar.schema import SIGNALS, Kind
from sidecar.simulator.server import SimulatedVllm

TOKENS = "inference_generation_tokens_total"
Collecting = Callable[[], AbstractAsyncContextManager[Any]]

#: Moves by itself from one scrape to the next, or is the sidecar's own.
RESTLESS = re.compile(r"scrape|timestamp|process_|sidecar|_age_|slo_|_seconds_total|gpu_")


async def until(what: Callable[[], Awaitable[bool] | bool], within: float = 20.0) -> None:
    deadline = time.monotonic() + within
    while True:
        done = what()
        if done if isinstance(done, bool) else await done:
            return
        assert time.monotonic() < deadline, "not within the time"
        await asyncio.sleep(0.05)


def config(target: str, collector: str, protocol: str, more: str = "") -> str:
    return (
        "listen: 127.0.0.1:0\ninterval: 200ms\ntimeout: 200ms\ngpu: {source: none}\n"
        f"targets: [{{url: '{target}'}}]\n"
        f"outputs: {{otlp: {{endpoint: '{collector}', protocol: {protocol},"
        f" interval: 1s, timeout: 500ms{more}}}}}\n"
    )


async def complete(session: aiohttp.ClientSession, url: str, tokens: int) -> None:
    async with session.get(url + "/v1/models") as answer:
        model = (await answer.json())["data"][0]["id"]
    body = {"model": model, "prompt": "hello", "max_tokens": tokens, "ignore_eos": True}
    async with session.post(url + "/v1/completions", json=body) as answer:
        assert answer.status == 200
        await answer.read()


def on_the_page(page: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {}
    for line in page.splitlines():
        if (
            line.startswith("inference_")
            and "model_name=" in line
            and not RESTLESS.search(line.split("{")[0])
        ):
            series, value = line.rsplit(" ", 1)
            name, _, labels = series.rstrip("}").partition("{")
            pairs = frozenset(re.findall(r'(\w+)="([^"]*)"', labels))
            found[name, frozenset((key, told) for key, told in pairs if told)] = float(value)
    return found


def over_otlp(metrics: dict[str, Any]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What the collector got, written as the page would."""
    back = {"gen_ai.request.model": "model_name", "gen_ai.provider.name": "runtime"}
    found = {}
    for signal in SIGNALS.values():
        metric = metrics.get(name_of(signal).name)
        if metric is None or RESTLESS.search(signal.family):
            continue
        data = getattr(metric, metric.WhichOneof("data"))
        for point in data.data_points:
            pairs = {one.key: one.value.string_value for one in point.attributes}
            labels = {back.get(name, name): value for name, value in pairs.items()}
            known = frozenset((name, value) for name, value in labels.items() if "." not in name)
            if "model_name" not in labels:
                continue
            if signal.kind is not Kind.HISTOGRAM:
                found[signal.family, known] = point.as_double
                continue
            assert data.aggregation_temporality == 2, "cumulative"
            found[signal.family + "_sum", known] = point.sum
            found[signal.family + "_count", known] = point.count
            for bound, count in zip(
                [*point.explicit_bounds, inf], accumulate(point.bucket_counts), strict=True
            ):
                edge = "+Inf" if bound == inf else next(iter(re.findall("(.+)", repr(bound))))
                found[signal.family + "_bucket", known | {("le", edge)}] = count
    return found


def test_counts_sums_and_bounds_are_those_of_the_page(collecting: Collecting, protocol: str) -> None:
    async def story() -> None:
        async with SimulatedVllm() as server, collecting() as collector, aiohttp.ClientSession() as session:
            app = Application(load_bytes(config(server.url, collector.url, protocol).encode(), "test"))
            await app.start()
            try:
                for tokens in (3, 7, 20):
                    await complete(session, server.url, tokens)

                async def equal() -> bool:
                    async with session.get(app.url + "/metrics") as answer:
                        page = on_the_page(await answer.text())
                    return (
                        bool(collector.requests)
                        and 30.0 in (value for (name, _), value in page.items() if name == TOKENS)
                        and page == over_otlp(collector.metrics())
                    )

                await until(equal)
                told = over_otlp(collector.metrics())
                buckets = [name for name, _ in told if name == "inference_time_to_first_token_seconds_bucket"]
                assert len(buckets) > 15, "the runtime's own bounds"
                assert collector.metrics()["gen_ai.server.request.duration"].unit == "s"
                assert collector.resource()["service.name"] == "inference-sidecar"
            finally:
                await app.close()
            asked = collector.asked
            assert asked > 0
            await asyncio.sleep(0.1)
            assert collector.asked == asked, "after the last push, nothing"

    asyncio.run(story())


def test_the_start_time_is_the_runtimes_and_moves_with_it(collecting: Collecting, protocol: str) -> None:
    async def story() -> None:
        async with SimulatedVllm() as server, collecting() as collector, aiohttp.ClientSession() as session:
            app = Application(load_bytes(config(server.url, collector.url, protocol).encode(), "test"))
            await app.start()
            try:

                def starts() -> set[int]:
                    if not collector.requests:
                        return set()
                    metric = collector.metrics().get("inference.generation.tokens.total")
                    return {one.start_time_unix_nano for one in metric.sum.data_points} if metric else set()

                await complete(session, server.url, 5)
                await until(lambda: bool(starts()))
                first = starts()
                await server.restart(startup=0)
                await complete(session, server.url, 2)
                await until(lambda: bool(starts()) and starts() != first)
                assert min(starts()) > max(first)
            finally:
                await app.close()

    asyncio.run(story())


def lost(app: Application) -> float:
    value = app.itself.registry.get_sample_value("inference_sidecar_output_errors_total", {"output": "otlp"})
    return value or 0.0


def test_a_collector_that_fails_blocks_nothing_and_the_loss_is_counted(
    collecting: Collecting, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    faults = ["refuse", "hang", *(["redirect", "partly"] if protocol == "http" else [])]

    async def story() -> None:
        async with SimulatedVllm() as server, collecting() as collector:
            app = Application(load_bytes(config(server.url, collector.url, protocol).encode(), "test"))
            await app.start()
            try:
                for number, fault in enumerate(faults, 1):
                    collector.answer, asked = fault, collector.asked
                    await until(lambda asked=asked: collector.asked > asked)  # type: ignore[misc]
                    # While it hangs the line goes on: a publication each 200 ms.
                    serial = app.board.publication().serial
                    await until(lambda serial=serial: app.board.publication().serial > serial)  # type: ignore[misc]
                    await until(lambda number=number: lost(app) >= number)  # type: ignore[misc]
                    collector.answer = "ok"
                    await until(lambda number=number: caplog.text.count("works again") == number)  # type: ignore[misc]
            finally:
                await app.close()

    asyncio.run(story())
    assert caplog.text.count("told once") == len(faults)


def test_a_collector_that_is_not_there_at_start_and_end(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        text = config("http://127.0.0.1:9", "http://127.0.0.1:9", protocol)
        app = Application(load_bytes(text.encode(), "test"))
        await app.start()
        await until(lambda: lost(app) > 0)
        await app.close()
        assert lost(app) > 1, "the last push is tried, too"

    asyncio.run(story())
    assert caplog.text.count("told once") == 1


def test_credentials_come_from_files_and_go_nowhere_else(
    collecting: Collecting, protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "token").write_text("tok-1\n")
    (tmp_path / "headers").write_text("X-Tenant: blue-77\n\nX-Scope: a\n")
    more = f", auth: {{bearer_token_file: {tmp_path}/token}}, headers_file: {tmp_path}/headers"

    async def story() -> None:
        async with collecting() as collector, aiohttp.ClientSession() as session:
            text = config("http://127.0.0.1:9", collector.url, protocol, more)
            app = Application(load_bytes(text.encode(), "test"))
            await app.start()
            try:
                await until(lambda: bool(collector.headers))
                sent = collector.headers[-1]
                assert (sent["authorization"], sent["x-tenant"], sent["x-scope"]) == (
                    "Bearer tok-1",
                    "blue-77",
                    "a",
                )
                (tmp_path / "token").write_text("tok-2\n")
                await until(lambda: collector.headers[-1]["authorization"] == "Bearer tok-2")
                (tmp_path / "headers").write_text("no colon, but secret-9\n")
                await until(lambda: "isn't `Name: value`" in caplog.text)
                async with session.get(app.url + "/metrics") as answer:
                    page = await answer.text()
                assert 'output_errors_total{output="otlp"} ' in page
            finally:
                await app.close()
            for secret in ("tok-1", "tok-2", "blue-77", "secret-9"):
                assert secret not in caplog.text + page + repr(app.config)

    asyncio.run(story())


def test_tls_with_an_authority_from_a_file(protocol: str, tmp_path: Path, collecting: Any) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    issued = authority.issue_cert("127.0.0.1")
    chain, key = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued.configure_cert(context)
    tls = context if protocol == "http" else grpc.ssl_server_credentials([(key, chain)])

    async def story() -> None:
        async with collecting(tls) as collector:
            stranger = config("http://127.0.0.1:9", collector.url, protocol)
            friend = config(
                "http://127.0.0.1:9", collector.url, protocol, f", tls: {{ca_file: {tmp_path}/ca.pem}}"
            )
            apps = [Application(load_bytes(text.encode(), "test")) for text in (stranger, friend)]
            for app in apps:
                await app.start()
            await until(lambda: lost(apps[0]) > 0 and bool(collector.requests))
            assert lost(apps[1]) == 0
            await asyncio.gather(*(app.close() for app in apps))

    asyncio.run(story())


@pytest.mark.parametrize("protocol", ["http"], indirect=True)
def test_it_comes_and_goes_with_a_reload(tmp_path: Path, collecting: Collecting) -> None:
    async def story() -> None:
        async with collecting() as collector:
            path = tmp_path / "c.yaml"
            with_it = config("http://127.0.0.1:9", collector.url, "http")
            path.write_text(with_it.partition("outputs")[0])
            file = ConfigFile(path)
            app = Application(file.config, file)
            await app.start()
            try:
                path.write_text(with_it)
                assert await app.reload()
                await until(lambda: bool(collector.requests))
                path.write_text(with_it.replace("interval: 1s", "tls: {insecure_skip_verify: true}"))
                assert not await app.reload()
                path.write_text(with_it.partition("outputs")[0])
                assert await app.reload()
                asked = collector.asked
                await asyncio.sleep(0.3)
                assert collector.asked == asked
            finally:
                await app.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("tls", "said"),
    [("insecure_skip_verify: true", "ca_file"), ("server_name: x", "protocol: grpc")],
)
def test_what_the_transports_cannot_do_is_an_error_at_the_start(tls: str, said: str) -> None:
    text = config("http://127.0.0.1:9", "https://127.0.0.1:4318", "http", f", tls: {{{tls}}}")
    with pytest.raises(ConfigError) as caught:
        Application(load_bytes(text.encode(), "test"))
    assert said in " ".join(str(caught.value).split()) and "test:6" in str(caught.value)


def test_without_otlp_nothing_of_it_is_loaded() -> None:
    program = (
        "import sys, sidecar.cli, sidecar.commands.run\n"
        "from sidecar.app import Application\nfrom sidecar.config import load\nApplication(load())\n"
        "print([one for one in sys.modules if one.startswith(('opentelemetry', 'grpc', 'google', 'requests'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert load().outputs.otlp is None
