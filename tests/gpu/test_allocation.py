"""Whose GPU it is: said, read from an environment, a page or the kubelet; never guessed."""

from __future__ import annotations

import asyncio
import sys

import grpc
import pytest

from sidecar.gpu.allocation import Claim, Leaf, Owner, Rule, allocate, device_ids
from sidecar.gpu.owners import Owners, engine_devices
from sidecar.gpu.pod_resources import METHOD, claims, list_devices

A, B = Leaf("GPU-a", index="0"), Leaf("GPU-b", index="1")
SLICE = Leaf("GPU-c", "3", "MIG-x", "2")
LOCAL = ("local",)


def targets(allocation):
    return {leaf.gpu_uuid: owner.target for leaf, owner in allocation.pairs}


@pytest.mark.parametrize(
    ("device", "leaf", "means"),
    [
        ("GPU-a", A, True),
        ("GPU-a::2", A, True),
        ("GPU-ab", A, False),
        ("MIG-x", SLICE, True),
        ("MIG-x::0", SLICE, True),
        ("MIG-GPU-c/3/0", SLICE, True),
        ("MIG-GPU-c/4/0", SLICE, False),
        ("GPU-c", SLICE, True),
        ("nvidia0", A, True),
        ("nvidia1", A, False),
        ("nvidia2/gi3", SLICE, True),
        ("nvidia2/gi4", SLICE, False),
        ("nvidia0/vgpu1", A, True),
        ("", A, False),
    ],
)
def test_device_ids(device, leaf, means):
    assert leaf.is_called(device) is means


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("GPU-a,GPU-b", ("GPU-a", "GPU-b")),
        ("MIG-x", ("MIG-x",)),
        ("all", ()),
        ("void", ()),
        ("", ()),
        ("0,1", ()),
        ("GPU-a,1", ()),
    ],
)
def test_visible_devices(text, ids):
    assert device_ids(text) == ids


def test_auto_is_sure_when_its_own_devices_are_listed():
    rule = Rule(targets=LOCAL, visible="GPU-a,GPU-b")
    assert targets(allocate([A, B], rule)) == {"GPU-a": "local", "GPU-b": "local"}


def test_auto_is_sure_of_the_only_gpu():
    assert targets(allocate([A], Rule(targets=LOCAL, visible="all"))) == {"GPU-a": "local"}


@pytest.mark.parametrize("visible", ["all", "void", ""])
def test_auto_guesses_nothing_among_several(visible):
    found = allocate([A, B], Rule(targets=LOCAL, visible=visible))
    assert not found.pairs and found.only is None and "gpu.devices" in found.note


def test_all_is_the_operators_word():
    assert targets(allocate([A, B], Rule("all", LOCAL, visible="all"))) == {
        "GPU-a": "local",
        "GPU-b": "local",
    }


def test_named_devices_are_the_only_ones_shown():
    found = allocate([A, B], Rule(("GPU-b",), LOCAL))
    assert targets(found) == {"GPU-b": "local"} and found.only == {"GPU-b"}


def test_named_devices_that_are_not_there():
    found = allocate([A], Rule(("GPU-z",), LOCAL))
    assert not found.pairs and found.only == frozenset() and found.note


def test_the_engines_environment_decides_among_several():
    found = allocate([A, B], Rule(targets=LOCAL, visible="all"), engine=("GPU-b",))
    assert targets(found) == {"GPU-b": "local"}


def test_several_targets_need_owners():
    assert not allocate([A, B], Rule("all", ("one", "two"))).pairs
    rule = Rule(targets=("one", "two"), owners={"one": ("GPU-a",), "two": ("GPU-b", "MIG-x")})
    assert targets(allocate([A, B, SLICE], rule)) == {"GPU-a": "one", "GPU-b": "two", "GPU-c": "two"}


def test_claims_name_pods_and_the_targets_they_are():
    rule = Rule(targets=("one", "pod-2"), pods={"ml/pod-1": "one"})
    owners = [Owner("", "pod-1", "ml", "e"), Owner("", "pod-2", "ml", "e"), Owner("", "stranger", "x", "e")]
    found = allocate(
        [A, B, SLICE],
        rule,
        claims=[
            Claim("GPU-a::0", owners[0]),
            Claim("GPU-a::1", owners[0]),
            Claim("GPU-b", owners[1]),
            Claim("MIG-x", owners[2]),
        ],
    )
    assert [(leaf, owner.target, owner.pod) for leaf, owner in found.pairs] == [
        (A, "one", "pod-1"),
        (B, "pod-2", "pod-2"),
        (SLICE, "", "stranger"),
    ]


def test_a_shared_gpu_has_several_owners():
    shared = [Claim("GPU-a::0", Owner("", "p", "ml", "e")), Claim("GPU-a::1", Owner("", "q", "ml", "e"))]
    assert len(allocate([A], Rule(targets=LOCAL), claims=shared).pairs) == 2


def process(proc, pid, **environ):
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    text = "\0".join(f"{name}={value}" for name, value in environ.items())
    (folder / "environ").write_bytes(text.encode() + b"\0")


def test_environments_of_other_processes(tmp_path):
    process(tmp_path, 1, PATH="/bin")
    process(tmp_path, 7, NVIDIA_VISIBLE_DEVICES="GPU-b", SECRET="GPU-no")
    process(tmp_path, 8, CUDA_VISIBLE_DEVICES="0,1")
    process(tmp_path, 9, NVIDIA_VISIBLE_DEVICES="all", CUDA_VISIBLE_DEVICES="MIG-x")
    (tmp_path / "10").mkdir()
    (tmp_path / "self").mkdir()
    assert set(engine_devices(tmp_path)) == {"GPU-b", "MIG-x"}


def test_an_engine_that_starts_after_the_sidecar_is_found(tmp_path):
    now = [0.0]
    owners = Owners(Rule(targets=LOCAL, visible="all"), proc=tmp_path, mono=lambda: now[0])

    async def run():
        before = await owners.allocation([A, B])
        process(tmp_path, 20, NVIDIA_VISIBLE_DEVICES="GPU-b")
        at_once = await owners.allocation([A, B])
        now[0] = 31
        return before, at_once, await owners.allocation([A, B])

    before, at_once, after = asyncio.run(run())
    assert not before.pairs and not at_once.pairs
    assert targets(after) == {"GPU-b": "local"}


def field(number, payload):
    size, head = len(payload), b""
    while size > 127:
        head += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + head + bytes([size]) + payload


def pod(name, namespace, *containers):
    return field(
        1, field(1, name.encode()) + field(2, namespace.encode()) + b"".join(field(3, c) for c in containers)
    )


def container(name, resource, *devices):
    held = field(1, resource.encode()) + b"".join(field(2, device.encode()) for device in devices)
    # A topology and cpu ids besides, which nobody asked for.
    return field(1, name.encode()) + field(2, held + field(3, b"\x0a\x00")) + b"\x18\x07"


REPLY = (
    pod("llm-0", "ml", container("engine", "nvidia.com/gpu", "GPU-a::0", "GPU-" + "b" * 200))
    + pod("llm-1", "ml", container("engine", "nvidia.com/mig-1g.5gb", "MIG-x"))
    + pod("web", "ml", container("nic", "example.com/nic", "eth1"), field(1, b"idle"))
)


def test_the_kubelets_reply():
    assert list(claims(REPLY)) == [
        Claim("GPU-a::0", Owner("", "llm-0", "ml", "engine")),
        Claim("GPU-" + "b" * 200, Owner("", "llm-0", "ml", "engine")),
        Claim("MIG-x", Owner("", "llm-1", "ml", "engine")),
    ]


@pytest.mark.parametrize("cut", range(1, len(REPLY), 7))
def test_a_reply_that_is_cut_is_refused_or_shorter(cut):
    try:
        assert len(list(claims(REPLY[:cut]))) < 3
    except RuntimeError as error:
        assert "makes no sense" in str(error)


class Kubelet(grpc.GenericRpcHandler):
    def service(self, call):
        if call.method == METHOD:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: REPLY)
        return None


def test_over_a_real_socket(tmp_path, world, source, series):
    """The kubelet's socket as gRPC serves it; who has what shows beside the GPUs."""
    path = tmp_path / "kubelet.sock"

    async def run():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Kubelet(),))
        server.add_insecure_port(f"unix://{path}")
        await server.start()
        owners = Owners(Rule(targets=("llm-0", "llm-1")), kubelet=lambda: list_devices(str(path)))
        known = await owners.allocation([A, SLICE])
        await server.stop(None)
        return known

    known = asyncio.run(run())
    assert targets(known) == {"GPU-a": "llm-0", "GPU-c": "llm-1"}


def test_without_the_socket_nothing_is_known(tmp_path):
    owners = Owners(Rule(targets=LOCAL), kubelet=lambda: list_devices(str(tmp_path / "none.sock")))
    found = asyncio.run(owners.allocation([A, B]))
    assert not found.pairs and "kubelet" in found.note


def test_without_grpcio_the_extra_is_named_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "grpc", None)
    clock = iter(range(0, 1000, 60))
    owners = Owners(
        Rule(targets=LOCAL),
        kubelet=lambda: list_devices(str(tmp_path / "kubelet.sock")),
        mono=lambda: next(clock),
    )
    for _ in range(3):
        found = asyncio.run(owners.allocation([A, B]))
    assert "pip install 'inference-sidecar[node]'" in found.note
    told = [one.getMessage() for one in caplog.records]
    assert told == [
        "no owners of GPUs from the kubelet: grpcio is missing: pip install 'inference-sidecar[node]'"
    ]
