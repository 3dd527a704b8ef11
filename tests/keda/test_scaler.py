"""KEDA's side: a client made from the interface file asks the fleet role over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sidecar.fleet.discover import Static
from sidecar.fleet.role import FleetRole, FleetSettings
from tests.fleet.world import Sidecar, busy, sidecars

Keda = tuple[ModuleType, ModuleType]


class Asker:
    """What KEDA's client does, for one ScaledObject."""

    def __init__(self, keda: Keda, channel: grpc.aio.Channel, **metadata: str) -> None:
        self.messages, stubs = keda
        self.stub = stubs.ExternalScalerStub(channel)
        self.reference = self.messages.ScaledObjectRef(
            name="llm", namespace="models", scalerMetadata={"scalerAddress": "fleet:9846", **metadata}
        )

    async def value(self) -> float:
        (spec,) = (await self.stub.GetMetricSpec(self.reference, timeout=5)).metricSpecs
        request = self.messages.GetMetricsRequest(scaledObjectRef=self.reference, metricName=spec.metricName)
        (value,) = (await self.stub.GetMetrics(request, timeout=5)).metricValues
        assert value.metricName == spec.metricName
        return float(value.metricValueFloat)

    async def active(self) -> bool:
        return bool((await self.stub.IsActive(self.reference, timeout=5)).result)

    async def refused(self) -> grpc.aio.AioRpcError:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await self.value()
        return refused.value

    async def until(self, expected: float) -> None:
        async with asyncio.timeout(15):
            while True:
                try:
                    if await self.value() == pytest.approx(expected):
                        return
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise
                await asyncio.sleep(0.05)


@asynccontextmanager
async def role_of(members: list[Sidecar], **more: Any) -> AsyncIterator[FleetRole]:
    source = Static(tuple(one.address for one in members), vouched=True)
    role = FleetRole(
        FleetSettings(
            source, listen="127.0.0.1:0", grpc_listen="127.0.0.1:0", interval=0.2, timeout=0.2, **more
        )
    )
    await role.start()
    try:
        yield role
    finally:
        await role.close()


@asynccontextmanager
async def channel_to(role: FleetRole) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{role.grpc_port}") as channel:
        yield channel


def test_active_idle_and_a_replica_killed_in_the_middle(keda: Keda) -> None:
    async def story() -> None:
        async with (
            sidecars(busy(1.5), busy(2.5), busy(1.0)) as three,
            role_of(three) as role,
            channel_to(role) as channel,
        ):
            asker = Asker(keda, channel)
            await asker.until(5.0)
            assert await asker.active()
            await three[2].stop()
            assert await asker.value() == 5.0, "its last page is fresh"
            role.fleet._stale_after = 0.6
            await asker.until(4.0 * 3 / 2)  # two are heard, and they stand for the third
            for one in three[:2]:
                one.body = busy(0.0)
            await asker.until(0.0)
            assert not await asker.active()

    asyncio.run(story())


def test_blind_is_unavailable_and_nothing_is_switched_off(keda: Keda) -> None:
    async def story() -> None:
        async with sidecars(None, None) as two, role_of(two) as role, channel_to(role) as channel:
            asker = Asker(keda, channel)
            await asyncio.sleep(0.5)
            refused = await asker.refused()
            assert refused.code() is grpc.StatusCode.UNAVAILABLE
            assert "none of 2 replicas answers" in str(refused.details())
            assert await asker.active(), "there are replicas, and nobody sees what they do"
            (spec,) = (await asker.stub.GetMetricSpec(asker.reference, timeout=5)).metricSpecs
            assert spec.targetSizeFloat == 1.0
            answers = role.fleet.answers
            assert answers["GetMetrics", "UNAVAILABLE"] == 1
            assert answers["GetMetricSpec", "OK"] == 2

    asyncio.run(story())


def test_metadata_choose_signal_target_and_model(keda: Keda) -> None:
    async def story() -> None:
        async with sidecars(busy(1.5)) as one, role_of(one) as role, channel_to(role) as channel:
            await Asker(keda, channel).until(1.5)
            waiting = Asker(keda, channel, signal="requests_waiting", target="2.5", activation="5")
            assert await waiting.value() == 2.0
            assert not await waiting.active()
            (spec,) = (await waiting.stub.GetMetricSpec(waiting.reference, timeout=5)).metricSpecs
            assert spec.metricName == "inference-requests-waiting"
            assert (spec.targetSizeFloat, spec.targetSize) == (2.5, 2)
            named = Asker(keda, channel, modelName="m")
            assert await named.value() == 1.5
            stranger = await Asker(keda, channel, modelName="other").refused()
            assert stranger.code() is grpc.StatusCode.UNAVAILABLE
            assert "of other" in str(stranger.details())

    asyncio.run(story())


@pytest.mark.parametrize(
    "metadata",
    [{"signal": "nonsense"}, {"target": "much"}, {"target": "0"}, {"signal": "queue_seconds_total"}],
)
def test_metadata_that_can_not_be_used_fail_in_get_metrics_alone(
    metadata: dict[str, str], keda: Keda
) -> None:
    async def story() -> None:
        async with sidecars(busy(1.5)) as one, role_of(one) as role, channel_to(role) as channel:
            await Asker(keda, channel).until(1.5)
            asker = Asker(keda, channel, **metadata)
            assert (await asker.refused()).code() is grpc.StatusCode.INVALID_ARGUMENT
            assert await asker.active()

    asyncio.run(story())


def test_the_stream_tells_the_state_at_once_and_then_its_changes(keda: Keda) -> None:
    async def story() -> None:
        async with sidecars(busy(0.0)) as one, role_of(one) as role, channel_to(role) as channel:
            asker = Asker(keda, channel)
            await asker.until(0.0)
            stream = asker.stub.StreamIsActive(asker.reference)
            assert not (await asyncio.wait_for(stream.read(), 5)).result
            one[0].body = busy(2.0)
            assert (await asyncio.wait_for(stream.read(), 5)).result
            one[0].body = busy(0.0)
            assert not (await asyncio.wait_for(stream.read(), 5)).result
            stream.cancel()

    asyncio.run(story())


def test_two_roles_give_the_same_answer(keda: Keda) -> None:
    async def story() -> None:
        async with (
            sidecars(busy(1.25), busy(0.5), busy(3.0)) as three,
            role_of(three) as first,
            role_of(three) as second,
            channel_to(first) as one,
            channel_to(second) as two,
        ):
            for channel in (one, two):
                await Asker(keda, channel).until(4.75)

    asyncio.run(story())


def test_tls_and_a_client_certificate(keda: Keda, tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    server, client, other = (
        authority.issue_cert("localhost"),
        authority.issue_cert("keda"),
        stranger.issue_cert("keda"),
    )
    cert, key, ca = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"
    server.cert_chain_pems[0].write_to_path(cert)
    server.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)

    def credentials(own: trustme.LeafCert | None) -> grpc.ChannelCredentials:
        root = authority.cert_pem.bytes()
        if own is None:
            return grpc.ssl_channel_credentials(root)
        return grpc.ssl_channel_credentials(root, own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes())

    async def story() -> None:
        async with (
            sidecars(busy(1.5)) as one,
            role_of(one, grpc_cert=cert, grpc_key=key, grpc_client_ca=ca) as role,
        ):
            address = f"localhost:{role.grpc_port}"
            async with grpc.aio.secure_channel(address, credentials(client)) as channel:
                await Asker(keda, channel).until(1.5)
            for own in (None, other):
                async with grpc.aio.secure_channel(address, credentials(own)) as channel:
                    refused = await Asker(keda, channel).refused()
                    assert refused.code() is grpc.StatusCode.UNAVAILABLE
            # A renewed certificate is taken without a restart.
            renewed = authority.issue_cert("localhost")
            renewed.private_key_pem.write_to_path(key)
            renewed.cert_chain_pems[0].write_to_path(cert)
            async with grpc.aio.secure_channel(address, credentials(client)) as channel:
                await Asker(keda, channel).until(1.5)

    asyncio.run(story())


def test_health(keda: Keda) -> None:
    async def story() -> None:
        async with sidecars(busy()) as one, role_of(one) as role, channel_to(role) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for service in ("", "externalscaler.ExternalScaler"):
                answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING

    asyncio.run(story())
