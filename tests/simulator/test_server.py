"""The HTTP endpoints, with a real client in real time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar.simulator.demo import demo_server, demo_traffic
from sidecar.simulator.model import EngineConfig, Timing
from sidecar.simulator.replica import ReplicaConfig
from sidecar.simulator.server import SimulatedVllm
from sidecar.simulator.traffic import Steady, Traffic
from sidecar.simulator.vllm_page import Dialect, VllmPage

FAST = ReplicaConfig("m", EngineConfig(Timing(0.001, 0.00001, 0.000001), max_num_seqs=4))
Body = dict[str, Any]


def _with_server(
    use: Callable[[SimulatedVllm, aiohttp.ClientSession], Awaitable[None]],
    config: ReplicaConfig = FAST,
    **more: Any,
) -> None:
    async def main() -> None:
        async with SimulatedVllm(config, **more) as server, aiohttp.ClientSession(server.url) as client:
            await asyncio.wait_for(use(server, client), 20)

    asyncio.run(main())


async def _stream(client: aiohttp.ClientSession, path: str, body: Body) -> list[Body]:
    """The events of an answer, without the last word."""
    async with client.post(path, json={**body, "stream": True}) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        lines = [line async for line in response.content if line.strip()]
    assert all(line.startswith(b"data: ") for line in lines)
    assert lines[-1] == b"data: [DONE]\n"
    return [json.loads(line[6:]) for line in lines[:-1]]


async def _until(check: Callable[[], object]) -> None:
    for _ in range(1500):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


async def _page(client: aiohttp.ClientSession) -> dict[str, float]:
    """Sums over labels of each sample name."""
    async with client.get("/metrics") as response:
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(await response.text()):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
        return sums


def test_a_stream_has_one_event_a_token_and_the_page_counts_them() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        events = await _stream(client, "/v1/completions", {"prompt": "x" * 40, "max_tokens": 25})
        assert len(events) == 25
        assert [event["choices"][0]["finish_reason"] for event in events] == [None] * 24 + ["length"]
        chat = await _stream(
            client,
            "/v1/chat/completions",
            {
                "messages": [{"role": "user", "content": "hello"}],
                "max_tokens": 7,
                "stream_options": {"include_usage": True},
            },
        )
        assert chat[0]["choices"][0]["delta"]["role"] == "assistant"
        assert (
            "".join(event["choices"][0]["delta"]["content"] for event in chat[:7]) == "token" + " token" * 6
        )
        assert chat[7]["usage"]["completion_tokens"] == 7
        page = await _page(client)
        assert page["vllm:generation_tokens_total"] == 32.0
        assert page["vllm:request_success_total"] == 2.0
        assert page["vllm:prompt_tokens_total"] == 10 + chat[7]["usage"]["prompt_tokens"]

    _with_server(use)


def test_many_streams_at_once_each_get_their_own() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        sizes = [5, 60, 33, 1, 20, 48, 7]
        answers = await asyncio.gather(
            *(_stream(client, "/v1/completions", {"prompt": [1] * 30, "max_tokens": size}) for size in sizes)
        )
        assert [len(events) for events in answers] == sizes
        assert server.replica.ranks[0].generation_tokens == sum(sizes)

    _with_server(use)


def test_an_answer_that_doesnt_stream() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        async with client.post("/v1/completions", json={"prompt": "a b c d", "max_tokens": 4}) as response:
            body = await response.json()
        assert body["choices"][0]["text"] == "token token token token"
        assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6}
        async with client.post("/v1/chat/completions", json={"messages": [], "max_tokens": 2}) as response:
            assert (await response.json())["choices"][0]["message"]["content"] == "token token"

    _with_server(use)


def test_small_endpoints() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        async with client.get("/health") as response:
            assert (response.status, await response.text()) == (200, "")
        async with client.get("/version") as response:
            assert await response.json() == {"version": "0.24.0"}
        async with client.get("/v1/models") as response:
            card = (await response.json())["data"][0]
            assert (card["id"], card["max_model_len"]) == ("m", 8192)
        async with client.get("/load") as response:
            assert await response.json() == {"server_load": 0}
        async with client.get("/metrics") as response:
            assert response.headers["Content-Type"] == "text/plain; version=1.0.0; charset=utf-8"

    _with_server(use, page=VllmPage("0.24.0"))


def test_the_rust_front_end_answers_openmetrics() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        async with client.get("/metrics") as response:
            assert response.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
            assert (await response.text()).endswith("# EOF\n")

    _with_server(use, page=VllmPage(dialect=Dialect.RUST))


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/completions", b"{bad", 400),
        ("/v1/completions", b"[]", 400),
        ("/v1/completions", b'{"prompt": 7}', 400),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": -3}', 400),
        ("/v1/completions", b'{"prompt": "a", "max_tokens": 9000}', 400),
        ("/v1/completions", b'{"prompt": "a", "model": "nope"}', 404),
        ("/v1/nope", b"{}", 404),
    ],
)
def test_what_a_client_does_wrong_costs_no_engine_work_and_is_a_4xx(
    path: str, body: bytes, status: int
) -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        async with client.post(path, data=body) as response:
            assert response.status == status
            if path != "/v1/nope":
                assert (await response.json())["error"]["code"] == status
        [(key, exchange)] = server.replica.front.exchanges.items()
        assert key == ("none" if path == "/v1/nope" else path, "POST", "4xx")
        assert exchange.count == 1
        assert server.replica.ranks[0].received == 0

    _with_server(use)


def test_refusals_are_a_200_with_an_error_when_streaming() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        ask = {"prompt": "a", "max_tokens": 3000}
        running = [asyncio.create_task(_stream(client, "/v1/completions", ask)) for _ in range(2)]
        await _until(lambda: server.replica.engines[0].running == 2)
        queued = [asyncio.create_task(_stream(client, "/v1/completions", ask)) for _ in range(3)]
        await _until(lambda: server.replica.in_flight == 5)
        refused = await _stream(client, "/v1/completions", {"prompt": "a"})
        assert [event["error"]["code"] for event in refused] == [503]
        async with client.post("/v1/completions", json={"prompt": "a"}) as response:
            assert response.status == 503
        assert (await _page(client))["vllm:admission_rejections_total"] == 2.0
        for task in (*running, *queued):
            task.cancel()
        await asyncio.gather(*running, *queued, return_exceptions=True)

    _with_server(use, ReplicaConfig("m", EngineConfig(max_num_seqs=2, max_queued_requests=3)))


def test_a_client_that_goes_away_frees_its_place() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        async with client.post(
            "/v1/completions", json={"prompt": "a", "max_tokens": 5000, "stream": True}
        ) as response:
            await response.content.readline()
        await _until(lambda: not server.replica.in_flight)
        [rank] = server.replica.ranks
        assert (rank.cancelled_running, rank.finished) == (1, 0)
        page = await _page(client)
        assert page["vllm:request_success_total"] == 0.0
        assert page["http_requests_total"] == 1.0

    _with_server(use)


def test_a_hung_engine_still_answers_with_frozen_gauges() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        stream = asyncio.create_task(_stream(client, "/v1/completions", {"prompt": "a", "max_tokens": 400}))
        await _until(lambda: server.replica.ranks[0].generation_tokens >= 5)
        server.hang()
        before = await _page(client)
        await asyncio.sleep(0.1)
        after = await _page(client)
        assert before["vllm:num_requests_running"] == after["vllm:num_requests_running"] == 1.0
        assert before["vllm:generation_tokens_total"] == after["vllm:generation_tokens_total"]
        async with client.get("/health") as response:
            assert response.status == 200
        server.resume()
        assert len(await stream) == 400

    _with_server(use)


def test_a_restart_cuts_streams_and_refuses_connections_until_it_is_ready() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        stream = asyncio.create_task(_stream(client, "/v1/completions", {"prompt": "a", "max_tokens": 5000}))
        await _until(lambda: server.replica.ranks[0].generation_tokens >= 5)
        before = await _page(client)
        await server.restart(startup=0.3)
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get("/health")
        await server.listening()
        after = await _page(client)
        assert after["process_start_time_seconds"] > before["process_start_time_seconds"]
        assert after["vllm:generation_tokens_total"] == 0.0
        assert len(await _stream(client, "/v1/completions", {"prompt": "a", "max_tokens": 3})) == 3

    _with_server(use)


def test_errors_end_a_stream_with_an_error_and_a_whole_answer_with_500() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        server.fail(1.0)
        events = await _stream(client, "/v1/completions", {"prompt": "a", "max_tokens": 30})
        assert events[-1]["error"]["code"] == 500
        async with client.post("/v1/completions", json={"prompt": "a"}) as response:
            assert response.status == 500
        assert server.replica.ranks[0].errors == 2

    _with_server(use)


def test_a_cold_start_refuses_connections() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        with pytest.raises(aiohttp.ClientConnectorError):
            await client.get("/health")
        await server.listening()
        async with client.get("/health") as response:
            assert response.status == 200

    _with_server(use, ReplicaConfig("m", startup_seconds=0.3))


def test_simulated_traffic_and_real_clients_share_one_engine() -> None:
    async def use(server: SimulatedVllm, client: aiohttp.ClientSession) -> None:
        events = await _stream(client, "/v1/completions", {"prompt": "a", "max_tokens": 50})
        assert len(events) == 50
        server.play(Traffic(Steady(200.0), seed=2))
        await _until(lambda: server.replica.ranks[0].running == 4)
        server.play(None)
        await _until(lambda: not server.replica.in_flight)
        assert server.replica.ranks[0].finished > 4

    _with_server(use, ReplicaConfig("m", EngineConfig(Timing(0.0005, 0, 0), max_num_seqs=4)))


def test_the_show_runs() -> None:
    async def main() -> None:
        async with demo_server(60.0) as server, aiohttp.ClientSession(server.url) as client:
            await _until(lambda: server.replica.ranks[0].generation_tokens >= 20)
            page = await _page(client)
            assert page["vllm:num_requests_running"] >= 1.0

    asyncio.run(asyncio.wait_for(main(), 20))
    assert demo_traffic(60.0).rate.peak == 21.0
