"""Runs the reader on this machine's real GPUs, idle and under a small load, and keeps what it said.

`python benchmarks/gpu_capture.py OUT` writes the child's answers, the page, what was not available, and an
origin. UUIDs are replaced, so that the hardware isn't identified. The load fills memory on the first GPU over
and over through the driver's own API; without libcuda the capture is of an idle GPU, and says so.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sidecar.gpu.collection import Collection
from sidecar.gpu.nvml.binding import find_binding
from sidecar.gpu.nvml.convert import convert
from sidecar.gpu.nvml.process import Child
from sidecar.gpu.reading import OPTIONAL
from sidecar.outputs.prometheus.page import render_blocks

PASSES, EVERY = 5, 0.25
LOAD_BYTES = 1 << 30


def fill_memory(ended: threading.Event) -> None:
    """Raises OSError where there is no libcuda, RuntimeError when it refuses."""
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name: str, *arguments: Any) -> None:
        code = getattr(cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(LOAD_BYTES))
    while not ended.is_set():
        for _ in range(32):
            call("cuMemsetD32_v2", memory, ctypes.c_uint(1), ctypes.c_size_t(LOAD_BYTES // 4))
        call("cuCtxSynchronize")
    call("cuMemFree_v2", memory)
    call("cuDevicePrimaryCtxRelease_v2", device)


@contextmanager
def load() -> Iterator[list[str]]:
    ended, trouble = threading.Event(), list[str]()

    def work() -> None:
        try:
            fill_memory(ended)
        except (OSError, RuntimeError) as error:
            trouble.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield trouble
    finally:
        ended.set()
        thread.join()


def anonymous(answer: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(answer)
    for i, gpu in enumerate(answer.get("gpus", ())):
        for j, uuid in enumerate([gpu.get("uuid"), *(one["uuid"] for one in gpu.get("mig", ()))]):
            if uuid:
                text = text.replace(uuid, f"{uuid[:3]}-{i:08d}-0000-0000-0000-{j:012d}")
    anonymised: dict[str, Any] = json.loads(text)
    return anonymised


async def passes(child: Child, count: int) -> list[dict[str, Any]]:
    answers = []
    for _ in range(count):
        answers.append(anonymous(await child.ask(30.0)))
        if "gpus" not in answers[-1]:
            break
        await asyncio.sleep(EVERY)
    return answers


async def capture(out: Path) -> int:
    child = await Child.start({"binding": find_binding(), "optional": sorted(OPTIONAL), "slowly": 0})
    try:
        idle = await passes(child, 2)
        if "gpus" not in idle[-1]:
            print(f"no GPU: {idle[-1]}", file=sys.stderr)
            return 1
        with load() as trouble:
            busy = await passes(child, PASSES)
    finally:
        await child.end()
    keep(out, idle, busy, trouble)
    return 0


def keep(out: Path, idle: list[dict[str, Any]], busy: list[dict[str, Any]], trouble: list[str]) -> None:
    found = convert(busy[-1], OPTIONAL)
    collection = Collection("nvml", 30.0)
    reading = collection.good(found.rows, found.notes, time=time.time(), mono=0.0, took=0.0, up=found.up)
    out.mkdir(parents=True, exist_ok=True)
    (out / "answers.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*idle, *busy]))
    (out / "page.prom").write_bytes(render_blocks([reading.block]))
    (out / "not_available.json").write_text(
        json.dumps([[note.gpu, note.what, note.reason, note.detail] for note in found.notes], indent=1)
    )
    names = sorted({gpu["facts"].get("name", "?") for gpu in busy[-1]["gpus"]})
    (out / "ORIGIN.md").write_text(
        f"Real GPUs: {', '.join(names)}; driver {busy[-1]['system'].get('driver')}; nvidia-ml-py "
        f"{version('nvidia-ml-py')}; {platform.machine()}; {time.strftime('%Y-%m-%d')}. UUIDs replaced.\n"
        f"Two passes idle, {PASSES} {'idle too: ' + trouble[0] if trouble else 'while memory is filled'}, "
        f"{EVERY:g} s apart. By benchmarks/gpu_capture.py.\n"
    )
    print(f"{len(found.rows)} series, {len(found.notes)} not available, in {out}")


if __name__ == "__main__":
    sys.exit(asyncio.run(capture(Path(sys.argv[1]))))
