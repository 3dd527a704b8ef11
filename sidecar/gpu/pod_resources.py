"""The kubelet's list of devices by pod (node mode): PodResourcesLister over its Unix socket.

The reply is decoded by hand: five nested messages, of which four fields matter. See
k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Iterator

from sidecar.gpu.allocation import Claim, Owner

METHOD = "/v1.PodResourcesLister/List"
DEADLINE = 2.0
MISSING = "grpcio is missing: pip install 'inference-sidecar[node]'"
MAX_REPLY = 16 << 20

VENDORS = ("nvidia.com/", "amd.com/", "gpu.intel.com/")


async def list_devices(socket: str) -> tuple[Claim, ...]:
    """Devices of GPUs and who has them. Raises RuntimeError with the reason."""
    try:
        import grpc
    except ImportError:
        raise RuntimeError(MISSING) from None
    options = (("grpc.max_receive_message_length", MAX_REPLY),)
    async with grpc.aio.insecure_channel(f"unix://{socket}", options=options) as channel:
        call = channel.unary_unary(METHOD)
        try:
            reply = await call(b"", timeout=DEADLINE, wait_for_ready=False)
        except grpc.aio.AioRpcError as error:
            raise RuntimeError(f"{socket}: {error.code().name}") from None
    return tuple(claims(reply))


def claims(reply: bytes) -> Iterator[Claim]:
    """Claims of a ListPodResourcesResponse. Raises RuntimeError when it isn't one."""
    try:
        for pod in _messages(reply, 1):
            name, namespace = _text(pod, 1), _text(pod, 2)
            for container in _messages(pod, 3):
                owner = Owner("", name, namespace, _text(container, 1))
                for devices in _messages(container, 2):
                    if _text(devices, 1).startswith(VENDORS):
                        for device in _messages(devices, 2):
                            yield Claim(device.decode(), owner)
    except (IndexError, ValueError) as error:
        raise RuntimeError(f"the kubelet's reply makes no sense: {error}") from None


def _messages(message: bytes, wanted: int) -> Iterator[bytes]:
    """The length-delimited values of one field, of protobuf's wire format."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size, at = _varint(message, at)
            if at + size > len(message):
                raise ValueError("a field beyond the end")
            if key >> 3 == wanted:
                yield message[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _text(message: bytes, field: int) -> str:
    return next(_messages(message, field), b"").decode()
