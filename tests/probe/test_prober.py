"""The whole sidecar with its probe beside a simulated vLLM, and beside servers that behave otherwise."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sidecar.app import Application
from sidecar.config import ConfigFile
from sidecar.simulator.server import SimulatedVllm
from tests.probe.conftest import DONE, HEAD, refusal, serve_script, token, usage
from tests.probe.sidecar import (
    BASE,
    OFTEN,
    PROBE,
    WITHIN,
    application,
    often,
    page,
    probed,
    running,
    total,
    until,
)


def test_probes_are_counted_as_the_runtime_counts_them_and_an_idle_replica_stays_idle() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            # A poll is longer than a probe, as it is with the usual 2 s.
            app = application(server.url, PROBE + "staleness: 10s\n", ", interval: 500ms")

            async def told() -> None:
                numbers = await until(app, probed(3))
                seen = server.replica.ranks[0]
                requests = total(numbers, "probe_requests_total")
                assert total(numbers, "probe_success") == 1
                assert total(numbers, "probe_time_to_first_token_seconds_count") == requests
                tokens = total(numbers, "probe_generation_tokens_total")
                assert tokens is not None and requests is not None
                assert tokens == 24 + 8 * (requests - 1), "the first one asks for more, to know the gap"
                gaps = total(numbers, "probe_inter_token_latency_seconds_count")
                assert gaps is not None and gaps <= tokens - requests
                assert tokens <= seen.generation_tokens <= tokens + 8, "all but one that is under way"
                assert seen.cached_tokens == 0, "no prompt begins like another"
                for idle in ("requests_running_peak", "replica_demand", "requests_waiting_peak"):
                    assert total(numbers, idle) == 0, idle
                assert total(numbers, "safe_to_remove") == 1
                assert total(numbers, "signal_info", '"probe_success"', '"client"', 'method="probe"') == 1

            await running(app, told)

    asyncio.run(story())


def test_a_target_that_is_down_wedged_or_not_ready_is_not_probed_and_its_success_ages() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            app = application(server.url, PROBE.replace("5s", "500ms"))

            async def told() -> None:
                await until(app, probed(1))
                await server.restart(60.0)
                numbers = await until(app, lambda found: total(found, "probe_success") is None)
                before = total(numbers, "probe_requests_total")
                await asyncio.sleep(3 * OFTEN)
                numbers = await page(app)
                assert total(numbers, "probe_requests_total") == before
                assert total(numbers, "target_up") == 0

            await running(app, told)

    asyncio.run(story())


def test_a_probe_that_hangs_delays_no_poll_and_no_shutdown() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            app = application(server.url, PROBE.replace("5s", "60s"))
            await app.start()
            await until(app, probed(1))
            server.hang()
            prober = app.runners["local"]._prober
            assert prober is not None
            async with asyncio.timeout(WITHIN):
                while prober._task is None:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            asked = total(await page(app), "target_scrapes_total", '"ok"') or 0
            await until(app, lambda found: (total(found, "target_scrapes_total", '"ok"') or 0) >= asked + 5)
            assert prober._task is not None, "the probe still waits"
            async with asyncio.timeout(10):
                await app.close()
            assert prober._task is None

    asyncio.run(story())


def test_a_reload_turns_it_on_changes_it_and_turns_it_off(tmp_path: Path) -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            file = tmp_path / "config.yaml"

            def write(probe: str) -> None:
                file.write_text(f"{BASE}{probe}targets: [{{url: '{server.url}'}}]\n")

            write("")
            config = ConfigFile(file)
            app = Application(config.config, config)

            async def told() -> None:
                await until(app, lambda found: total(found, "target_up") == 1)
                assert total(await page(app), "probe_requests_total") is None
                write(PROBE)
                assert await app.reload()
                numbers = await until(app, probed(1))
                tokens = total(numbers, "probe_generation_tokens_total") or 0
                write("probe: {enabled: true, interval: 1s, max_tokens: 40}\n")
                assert await app.reload()
                numbers = await until(
                    app, lambda found: (total(found, "probe_generation_tokens_total") or 0) >= tokens + 40
                )
                assert (total(numbers, "probe_requests_total") or 0) >= 2, "counters go on"
                write("")
                assert await app.reload()
                await until(app, lambda found: total(found, "probe_requests_total") is None)
                sent = server.replica.ranks[0].generation_tokens
                await asyncio.sleep(1.2)
                assert server.replica.ranks[0].generation_tokens == sent

            await running(app, told)

    asyncio.run(story())


def test_a_target_may_be_probed_elsewhere_otherwise_or_not_at_all() -> None:
    stream = HEAD + token() * 7 + token(end="length") + usage(8) + DONE

    async def story() -> None:
        async with SimulatedVllm() as server, SimulatedVllm() as other, serve_script(stream) as elsewhere:
            own = f"url: '{elsewhere.url}', path: /api/v1/chat/completions, model: alias, prompt: Say it."
            text = (
                f"{BASE}{PROBE}targets:\n"
                f"  - {{name: one, url: '{server.url}', probe: {{{own}}}}}\n"
                f"  - {{name: two, url: '{other.url}', probe: {{enabled: false}}}}\n"
            )
            app = often(text)

            async def told() -> None:
                numbers = await until(app, probed(2))
                assert total(numbers, "probe_requests_total", '"alias"', 'target="one"') is not None
                assert total(numbers, "probe_requests_total", 'target="two"') is None
                body = elsewhere.bodies[0]
                assert body["model"] == "alias"
                assert body["messages"][0]["content"].endswith(" Say it.")
                assert elsewhere.heads[0].startswith("POST /api/v1/chat/completions ")

            await running(app, told)

    asyncio.run(story())


def test_failures_have_their_reason_back_off_and_leak_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "s3cr3t-t0k3n"
    (tmp_path / "token").write_text(secret)
    caplog.set_level(logging.DEBUG)

    async def story() -> None:
        async with SimulatedVllm() as server, serve_script(refusal("401 Unauthorized")) as shut:
            of_target = f", probe: {{url: '{shut.url}'}}, auth: {{bearer_token_file: '{tmp_path / 'token'}'}}"
            app = application(server.url, of_target=of_target)

            async def told() -> None:
                numbers = await until(app, probed(2, "unauthorized"))
                assert total(numbers, "probe_success") == 0
                assert total(numbers, "probe_time_to_first_token_seconds_count") == 0
                assert all(f"Bearer {secret}" in head for head in shut.heads)
                async with aiohttp.ClientSession() as session:
                    for path in ("/metrics", "/v1/signals", "/"):
                        async with session.get(app.url + path) as answer:
                            assert secret not in await answer.text()

            await running(app, told)

    asyncio.run(story())
    assert secret not in caplog.text
    said = [one.getMessage() for one in caplog.records if "the probe of" in one.getMessage()]
    assert said == ["the probe of target local: unauthorized: HTTP 401: the credentials were refused"]


def test_who_refuses_what_it_does_not_know_is_asked_plainly() -> None:
    async def story() -> None:
        bodies: list[dict[str, Any]] = []

        async def strict(request: web.Request) -> web.StreamResponse:
            body = json.loads(await request.read())
            bodies.append(body)
            if "stream_options" in body:
                return web.Response(status=422)
            return web.Response(
                body=token() * 7 + token(end="length") + DONE, content_type="text/event-stream"
            )

        other = web.Application()
        other.router.add_post("/v1/completions", strict)
        runner = web.AppRunner(other)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with SimulatedVllm() as server:
            app = application(server.url, of_target=f", probe: {{url: 'http://127.0.0.1:{port}'}}")
            await running(app, lambda: until(app, probed(1)))
        await runner.cleanup()
        assert [("stream_options" in one) for one in bodies[:2]] == [True, False]

    asyncio.run(story())


def test_triton_is_probed_at_its_api_model_by_model() -> None:
    """The metrics page is on another port than inference; only what streams and takes text is asked."""
    text: dict[str, Any] = {
        "input": [{"name": "text_input", "data_type": "TYPE_STRING"}],
        "output": [{"name": "text_output", "data_type": "TYPE_STRING"}],
    }
    configs: dict[str, dict[str, Any]] = {
        "ensemble": {
            "name": "ensemble",
            "platform": "ensemble",
            "ensemble_scheduling": {
                "step": [{"model_name": "preprocessing"}, {"model_name": "tensorrt_llm"}]
            },
            **text,
        },
        "preprocessing": {"name": "preprocessing", "backend": "python"},
        "tensorrt_llm": {
            "name": "tensorrt_llm",
            "backend": "tensorrtllm",
            "model_transaction_policy": {"decoupled": True},
        },
        "other": {
            "name": "other",
            "platform": "ensemble",
            "ensemble_scheduling": {"step": [{"model_name": "tensorrt_llm"}]},
            **text,
        },
        "tokens": {
            "name": "tokens",
            "platform": "ensemble",
            "ensemble_scheduling": {"step": [{"model_name": "tensorrt_llm"}]},
        },
        "resnet": {"name": "resnet", "backend": "onnxruntime"},
    }

    async def story() -> None:
        asked: list[str] = []

        async def generate(request: web.Request) -> web.StreamResponse:
            asked.append(request.match_info["model"])
            tokens = json.loads(await request.read())["max_tokens"]
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for _ in range(tokens):
                await response.write(b'data: {"text_output": " a"}\n\n')
                await asyncio.sleep(0.01)
            return response

        async def config(request: web.Request) -> web.Response:
            return web.json_response(configs[request.match_info["model"]])

        async def index(request: web.Request) -> web.Response:
            return web.json_response([{"name": one, "version": "1", "state": "READY"} for one in configs])

        async def version(request: web.Request) -> web.Response:
            return web.json_response({"name": "triton", "version": "2.50.0"})

        async def healthy(request: web.Request) -> web.Response:
            return web.Response()

        async def metrics(request: web.Request) -> web.Response:
            rows = "".join(
                f'nv_inference_request_success{{model="{one}",version="1"}} 3\n' for one in configs
            )
            return web.Response(text="# TYPE nv_inference_request_success counter\n" + rows)

        api, pages = web.Application(), web.Application()
        api.router.add_get("/v2", version)
        api.router.add_get("/v2/health/live", healthy)
        api.router.add_get("/v2/health/ready", healthy)
        api.router.add_post("/v2/repository/index", index)
        api.router.add_get("/v2/models/{model}/config", config)
        api.router.add_post("/v2/models/{model}/generate_stream", generate)
        pages.router.add_get("/metrics", metrics)
        runners = [web.AppRunner(api), web.AppRunner(pages)]
        for runner in runners:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        ports = [runner.addresses[0][1] for runner in runners]
        app = application(
            f"http://127.0.0.1:{ports[1]}", of_target=f", api_url: 'http://127.0.0.1:{ports[0]}'"
        )

        async def told() -> None:
            numbers = await until(
                app,
                lambda found: probed(1, "ok", '"ensemble"')(found) and probed(1, "ok", '"other"')(found),
            )
            assert total(numbers, "signal_info", "probe_success", "generate_stream") == 1
            assert (total(numbers, "probe_inter_token_latency_seconds_count") or 0) >= 14

        await running(app, told)
        for runner in runners:
            await runner.cleanup()
        assert set(asked) == {"ensemble", "other"}

    asyncio.run(story())
