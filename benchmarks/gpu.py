"""What a pass over 8 GPUs costs: calls, time, CPU of the sidecar and of its NVML child, size of the child.

Runs on the stand-in library of tests/gpu, so what a real driver takes for its calls is not in it.
Needs gcc. `python -m benchmarks.gpu [passes]`
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from sidecar.gpu.allocation import Rule
from sidecar.gpu.nvml.source import NvmlSource
from sidecar.gpu.owners import Owners
from sidecar.outputs.prometheus.page import render_blocks

STUB = Path(__file__).parents[1] / "tests" / "gpu"
GPUS = 8


def world(folder: Path) -> dict[str, str]:
    """Builds the library and eight H200 to live in; the environment of the child."""
    library = folder / "libnvidia-ml.so.1"
    source = STUB / "nvml_stub" / "nvml.c"
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-o", library, source, "-lpthread"], check=True)
    one = (STUB / "cases" / "s01_healthy_two_h200.state").read_text()
    lines = [line for line in one.splitlines() if line.startswith("sys.")] + [f"gpus={GPUS}"]
    of_one = [line.removeprefix("gpu.0.") for line in one.splitlines() if line.startswith("gpu.0.")]
    lines += [
        f"gpu.{i}.{line.replace('GPU-00000000', f'GPU-0000000{i}')}" for i in range(GPUS) for line in of_one
    ]
    (folder / "world").write_text("\n".join(lines) + "\n")
    return {
        "LD_LIBRARY_PATH": str(folder),
        "NVML_WORLD": str(folder / "world"),
        "NVML_CALLS": str(folder / "calls"),
    }


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_of(pid: int) -> float:
    match = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


async def measure(folder: Path, passes: int) -> None:
    environ = world(folder)
    source = NvmlSource(Owners(Rule("all", ("local",))), environ=environ)
    await source.read(10.0)
    await asyncio.sleep(0.2)
    calls = folder / "calls"
    before = calls.read_text().count("\n")
    reading = await source.read(10.0)
    made = [line.split()[0] for line in calls.read_text().splitlines()[before:] if "EventSet" not in line]
    await source.close()

    del environ["NVML_CALLS"]
    source = NvmlSource(Owners(Rule("all", ("local",))), environ=environ)
    await source.read(10.0)
    pid = source.child_pid
    assert pid is not None
    child, own = cpu_of(pid), resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    for _ in range(passes):
        reading = await source.read(10.0)
    elapsed = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    own_cpu = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
    print(f"GPUs {GPUS}, passes {passes}, series {len(reading.block.layout.series)}")
    print(f"NVML calls a pass      {len(made)} ({len(made) / GPUS:.1f} a GPU)")
    print(f"time a pass            {elapsed / passes * 1e3:.2f} ms")
    print(f"CPU of the child       {(cpu_of(pid) - child) / passes * 1e3:.2f} ms a pass")
    print(f"CPU of the sidecar     {own_cpu / passes * 1e3:.2f} ms a pass")
    print(f"RSS of the child       {rss_of(pid):.1f} MiB")
    print(f"page                   {len(render_blocks([reading.block]))} bytes")
    print("calls                  " + ", ".join(f"{name[4:]} {n}" for name, n in Counter(made).most_common()))
    await source.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        asyncio.run(measure(Path(temporary), int(sys.argv[1]) if len(sys.argv) > 1 else 200))
