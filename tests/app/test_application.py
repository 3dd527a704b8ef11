"""The whole sidecar beside a simulated vLLM: in process, real sockets."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from sidecar.app import Application
from sidecar.config import ConfigFile, load_bytes
from sidecar.runtimes.registry import Registry
from sidecar.simulator.server import SimulatedVllm
from sidecar.targets.discover import Found, look

QUICK = "listen: 127.0.0.1:0\ninterval: 200ms\ntimeout: 200ms\n"


async def until(what: Callable[[], Awaitable[bool]], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not await what():
        assert time.monotonic() < deadline, "not within the time"
        await asyncio.sleep(0.05)


async def text(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        return await answer.text()


async def complete(session: aiohttp.ClientSession, url: str, tokens: int) -> None:
    body = {"model": "any", "prompt": "hello", "max_tokens": tokens, "ignore_eos": True}
    async with session.get(url + "/v1/models") as answer:
        body["model"] = (await answer.json())["data"][0]["id"]
    async with session.post(url + "/v1/completions", json=body) as answer:
        assert answer.status == 200, await answer.text()
        await answer.read()


def test_true_numbers_from_a_client_to_the_page() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:
            app = Application(load_bytes(f"{QUICK}targets: [{{url: '{server.url}'}}]".encode(), "test"))
            await app.start()
            try:
                for _ in range(3):
                    await complete(session, server.url, 7)

                async def counted() -> bool:
                    page = await text(session, app.url + "/metrics")
                    return 'reason="length"} 3\n' in page and "inference_target_ready" in page

                await until(counted)
                page = await text(session, app.url + "/metrics")
                assert 'inference_generation_tokens_total{target="local",runtime="vllm"' in page
                (tokens,) = (
                    line
                    for line in page.splitlines()
                    if line.startswith("inference_generation_tokens_total{")
                )
                assert tokens.endswith(" 21")
                assert 'inference_target_ready{target="local",runtime="vllm"} 1\n' in page
                assert "inference_runtime_info{" in page
                told = json.loads(await text(session, app.url + "/v1/signals/requests_running"))
                assert told["value"] == 0
            finally:
                await app.close()

    asyncio.run(story())


def test_a_runtime_that_dies_takes_its_numbers_with_it_and_nothing_else() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:
            config = (
                f"{QUICK}staleness: 600ms\ntargets:\n  - {{name: a, url: '{server.url}'}}\n"
                "  - {name: gone, url: 'http://127.0.0.1:9'}\n"
            )
            app = Application(load_bytes(config.encode(), "test"))
            await app.start()
            try:

                async def seen() -> bool:
                    return "inference_requests_running{" in await text(session, app.url + "/metrics")

                async def vanished() -> bool:
                    return not await seen()

                async def told() -> bool:
                    page = await text(session, app.url + "/metrics")
                    return 'inference_target_up{target="gone"} 0\n' in page

                await until(seen)
                await until(told)
                await server.restart(startup=600)
                await until(vanished)
                page = await text(session, app.url + "/metrics")
                assert 'inference_target_up{target="a",runtime="vllm"} 0\n' in page
                async with session.get(app.url + "/v1/signals/requests_waiting?target=a") as answer:
                    assert answer.status == 503
                async with session.get(app.url + "/readyz") as answer:
                    assert answer.status == 200
            finally:
                await app.close()

    asyncio.run(story())


def test_reload_is_all_or_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:
            path = tmp_path / "config.yaml"
            path.write_text(f"{QUICK}targets:\n  - {{name: one, url: '{server.url}'}}\n")
            file = ConfigFile(path)
            app = Application(file.config, file)
            await app.start()
            try:
                kept = app.runners["one"]
                path.write_text(f"{QUICK}targets:\n  - {{name: one, ulr: '{server.url}'}}\n")
                assert not await app.reload()
                page = await text(session, app.url + "/metrics")
                assert "inference_sidecar_config_reload_success 0" in page
                assert app.runners["one"] is kept
                path.write_text(
                    f"{QUICK}targets:\n  - {{name: one, url: '{server.url}'}}\n"
                    f"  - {{name: two, url: '{server.url}', metrics_path: /metrics/}}\n"
                )

                async def noticed() -> bool:  # by itself, as the file has changed
                    return set(app.runners) == {"one", "two"}

                await until(noticed)
                assert app.runners["one"] is kept, "a target that did not change keeps its history"
                page = await text(session, app.url + "/metrics")
                assert "inference_sidecar_config_reload_success 1" in page
                path.write_text(f"{QUICK}targets:\n  - {{name: two, url: '{server.url}'}}\n")
                assert await app.reload()
                assert 'target="one"' not in await text(session, app.url + "/metrics")
            finally:
                await app.close()

    asyncio.run(story())


def test_found_targets_survive_a_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            places = [Found(f"{server.url}/metrics", "vllm", "its families")]

            async def looked(*_: object) -> list[Found]:
                return places

            monkeypatch.setattr("sidecar.app.application.look", looked)
            file = ConfigFile(None, ["listen=127.0.0.1:0", "interval=200ms", "timeout=200ms"])
            app = Application(file.config, file)
            await app.start()
            try:

                async def found() -> bool:
                    return set(app.runners) == {"local"}

                await until(found)
                kept = app.runners["local"]
                assert await app.reload()
                assert app.runners["local"] is kept
            finally:
                await app.close()

    asyncio.run(story())


def test_discovery_finds_a_runtime_and_says_what_it_looked_at() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            found = await look(
                Registry().detector,
                2.0,
                (f"{server.url}/metrics", "http://127.0.0.1:9/metrics", server.url + "/v1/models"),
            )
        assert found[0].runtime == "vllm"
        assert found[1].reason == "refused"
        assert found[2].runtime == ""

    asyncio.run(story())


def test_record_then_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sidecar.cli import main

    async def story() -> None:
        async with SimulatedVllm() as server:
            arguments = [
                "--target",
                server.url + "/metrics",
                "--out",
                str(tmp_path / "r"),
                "--every",
                "100ms",
                "--count",
                "3",
            ]
            assert await asyncio.to_thread(main, ["record", *arguments]) == 0

    asyncio.run(story())
    rows = list(csv.DictReader((tmp_path / "r" / "index.csv").open()))
    assert [row["result"] for row in rows] == ["ok"] * 3
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "r"), "--csv", "requests_running"]) == 0
    assert capsys.readouterr().out.count("\n") == 4


def test_sigterm_ends_the_process_well(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(
        f"{QUICK}targets: [{{url: 'http://127.0.0.1:9'}}]\nstate_file: {tmp_path / 'state.sqlite'}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "is down" in line:
            break
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=15) == 0


def test_a_config_that_cannot_be_used_is_told_in_full(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("intervall: 2s\ntargets:\n  - {url: ftp://x}\n")
    done = subprocess.run(
        [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 2
    assert "intervall" in done.stderr
    assert "interval" in done.stderr
    assert "c.yaml:3" in done.stderr
