"""The role on real sockets: real pages in, HTTP out."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from sidecar.app import Application
from sidecar.config import load_bytes
from sidecar.fleet.discover import File, Static
from sidecar.fleet.role import FleetRole, FleetSettings
from sidecar.fleet.router import Router, selector
from sidecar.simulator.server import SimulatedVllm
from sidecar.simulator.traffic import Steady, Traffic
from tests.fleet.world import busy, sidecars

SIGNAL = "/v1/signals/fleet_replica_demand"


async def until(what: Callable[[], Awaitable[bool]], within: float = 15.0) -> None:
    deadline = time.monotonic() + within
    while not await what():
        assert time.monotonic() < deadline, "not within the time"
        await asyncio.sleep(0.05)


def role_of(*addresses: str, **more: object) -> FleetRole:
    source = Static(addresses)
    return FleetRole(
        FleetSettings(source, listen="127.0.0.1:0", interval=0.2, timeout=0.2, **more)  # type: ignore[arg-type]
    )


async def asked(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url) as answer:
        return answer.status, await answer.text()


def test_sums_on_the_page_and_as_json_and_blind_is_a_503() -> None:
    async def story() -> None:
        async with sidecars(busy(1.5), busy(2.5)) as two, aiohttp.ClientSession() as session:
            role = role_of(*(one.address for one in two))
            await role.start()
            try:

                async def summed() -> bool:
                    status, text = await asked(session, role.url + SIGNAL)
                    return status == 200 and json.loads(text)["value"] == 4

                await until(summed)
                _, page = await asked(session, role.url + "/metrics")
                assert 'inference_fleet_replica_demand{model_name="m"} 4\n' in page
                assert 'inference_fleet_replicas{state="answering"} 2\n' in page
                assert "inference_replica_demand" not in page, "who scrapes both adds nothing up twice"
                _, seeds = await asked(session, role.url + "/v1/seeds")
                assert json.loads(seeds) == {
                    "m": {"service_time_seconds": 6.0, "idle_inter_token_latency_seconds": 0.01}
                }
                for one in two:
                    await one.stop()
                role.fleet._stale_after = 0.5

                async def blind() -> bool:
                    return (await asked(session, role.url + SIGNAL))[0] == 503

                await until(blind)
                _, page = await asked(session, role.url + "/metrics")
                assert "inference_fleet_replica_demand" not in page
                assert 'inference_fleet_reads_total{result="refused"}' in page
                _, members = await asked(session, role.url + "/v1/fleet")
                told = json.loads(members)
                assert {one["error"] for one in told["members"]} == {"refused"}
                assert told["replicas"] == {"listed": 2, "ready": 2, "answering": 0}
                assert (told["discovery_success"], told["discovery_error"], told["router_error"]) == (
                    True, "", None
                )  # fmt: skip
                _, index = await asked(session, role.url + "/")
                assert "/v1/fleet" in index and max(map(len, index.splitlines())) <= 80
            finally:
                await role.close()

    asyncio.run(story())


def test_a_file_that_changes_is_followed_and_who_leaves_it_is_gone(tmp_path: Path) -> None:
    async def story() -> None:
        async with sidecars(busy(1.0), busy(2.0)) as two, aiohttp.ClientSession() as session:
            path = tmp_path / "list.json"
            path.write_text(json.dumps([{"targets": [one.address for one in two]}]))
            role = FleetRole(FleetSettings(File(path), listen="127.0.0.1:0", interval=0.2, timeout=0.2))
            await role.start()

            async def value(expected: float) -> bool:
                status, text = await asked(session, role.url + SIGNAL)
                return status == 200 and json.loads(text)["value"] == expected

            try:
                await until(lambda: value(3))
                path.write_text(json.dumps([{"targets": [two[0].address]}]))
                await until(lambda: value(1))
                path.write_text("{ broken")

                async def told() -> bool:
                    _, page = await asked(session, role.url + "/metrics")
                    return "inference_fleet_discovery_success 0" in page

                await until(told)
                assert await value(1), "the last list holds"
            finally:
                await role.close()

    asyncio.run(story())


def test_real_sidecars_beside_simulated_runtimes() -> None:
    """Two sidecars of this package, each beside a vLLM under load; the sum is theirs."""

    async def story() -> None:
        traffic = Traffic(Steady(6.0))
        async with SimulatedVllm() as one, SimulatedVllm() as two, aiohttp.ClientSession() as session:
            apps = []
            for server in (one, two):
                server.play(traffic)
                config = (
                    f"listen: 127.0.0.1:0\ninterval: 200ms\ntargets: [{{url: '{server.url}', runtime: vllm}}]"
                )
                app = Application(load_bytes(config.encode(), "test"))
                await app.start()
                apps.append(app)
            role = role_of(*(app.url for app in apps))
            await role.start()
            try:

                async def running() -> bool:
                    status, text = await asked(session, role.url + "/v1/signals/fleet_requests_running")
                    return status == 200 and json.loads(text)["value"] > 0

                await until(running)

                async def all_answer() -> bool:
                    _, page = await asked(session, role.url + "/metrics")
                    return (
                        'inference_fleet_replicas{state="answering"} 2\n' in page
                        and "inference_fleet_compute_seconds_total{" in page
                    )

                await until(all_answer)
            finally:
                await role.close()
                for app in apps:
                    await app.close()

    asyncio.run(story())


def test_a_router_tells_of_work_while_there_is_no_replica() -> None:
    async def story() -> None:
        async with (
            sidecars(b'router_in_flight{model="m"} 3\n') as routers,
            aiohttp.ClientSession() as session,
        ):
            router = Router(routers[0].address + "/metrics", selector("router_in_flight"))
            role = role_of(router=router)
            await role.start()
            try:

                async def wanted() -> bool:
                    status, text = await asked(session, role.url + SIGNAL)
                    return status == 200 and json.loads(text)["value"] > 0

                await until(wanted)
                routers[0].body = b'router_in_flight{model="m"} 0\n'

                async def idle() -> bool:
                    status, text = await asked(session, role.url + SIGNAL)
                    return status == 200 and json.loads(text)["value"] == 0

                await until(idle)
            finally:
                await role.close()

    asyncio.run(story())


def test_the_log_says_who_cannot_be_read_and_when_they_can_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.fleet.role.TELL_EVERY", 0.0)
    caplog.set_level("INFO", "sidecar.fleet.role")

    async def story() -> None:
        async with sidecars(busy(1.5), None) as two:
            role = role_of(*(one.address for one in two))
            await role.start()
            try:

                async def said(words: str) -> bool:
                    return any(words in one.getMessage() for one in caplog.records)

                await until(lambda: said("1 of 2 sidecars can't be read (http error 1), e.g. "))
                two[1].body = busy(2.0)
                await until(lambda: said("every sidecar that is listed can be read again"))
                assert await said("sidecars listed: 2")
            finally:
                await role.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "one of the arguments --dns --file --sidecar is required"),
        (["--sidecar", "ftp://x"], "is no sidecar"),
        (["--dns", "a:b"], "--dns a:b"),
        (["--sidecar", "a", "--grpc-cert", "c.pem"], "--grpc-cert and --grpc-key"),
        (["--sidecar", "a", "--router", "http://r/metrics"], "--router-in-flight"),
        (["--sidecar", "a", "--interval", "1h30"], "--interval"),
        (["--sidecar", "a", "--listen", "nowhere"], "listen=nowhere"),
        (["--sidecar", "a", "--listen", "127.0.0.1:0", "--grpc-listen", "nowhere"], "listen=nowhere"),
        (["--sidecar", "a", "--listen", "127.0.0.1:0", "--grpc-listen", "nowhere.invalid:0"], "gRPC"),
        (
            [
                *("--sidecar", "a", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0"),
                *("--grpc-cert", "missing.pem", "--grpc-key", "missing.pem"),
            ],
            "missing.pem: No such file",
        ),
    ],
)
def test_what_can_not_be_used_is_told(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from sidecar.cli import main

    try:
        code = main(["fleet", *arguments])
    except SystemExit as ended:
        code = int(str(ended.code))
    assert code == 2
    assert says in capsys.readouterr().err
