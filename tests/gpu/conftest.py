"""The stand-in library in variants of drivers, and worlds that it answers from."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sidecar.gpu.allocation import Rule
from sidecar.gpu.nvml.source import NvmlSource
from sidecar.gpu.owners import Owners
from sidecar.snapshot import Block, is_absent

HERE = Path(__file__).parent
CASES = HERE / "cases"

#: Calls that a driver branch doesn't export.
NOT_IN_535 = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetMarginTemperature")
NOT_IN_470 = (
    *NOT_IN_535,
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetSupportedClocksEventReasons",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleGet",
    "nvmlGpmMetricsGet",
)
HIDDEN = {"590": (), "535": NOT_IN_535, "470": NOT_IN_470}


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Driver branch → folder that holds its libnvidia-ml.so.1."""
    base = tmp_path_factory.mktemp("nvml")
    code = base / "nvml.o"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-fPIC"]
    subprocess.run(["gcc", *flags, "-c", "-o", code, HERE / "nvml_stub" / "nvml.c"], check=True)
    folders = {}
    for driver, hidden in HIDDEN.items():
        folder = base / driver
        folder.mkdir()
        script = base / f"{driver}.map"
        script.write_text("{ global: nvml*; local: *; };")
        visible = base / f"{driver}.o"
        hide = [part for name in hidden for part in ("--localize-symbol", name)]
        subprocess.run(["objcopy", *hide, code, visible], check=True)
        link = ["gcc", "-shared", "-Wl,-soname,libnvidia-ml.so.1", f"-Wl,--version-script={script}"]
        subprocess.run([*link, "-o", folder / "libnvidia-ml.so.1", visible, "-lpthread"], check=True)
        folders[driver] = folder
    return folders


class World:
    """One world: a state file, the calls made in it, and the environment of a child that lives in it."""

    def __init__(self, folder: Path, library: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.state = folder / "world.state"
        self.calls_file = folder / "calls"
        self.environ = {
            "PATH": os.environ["PATH"],
            "LD_LIBRARY_PATH": str(library),
            "NVML_WORLD": str(self.state),
            "NVML_CALLS": str(self.calls_file),
        }

    def become(self, case: str, **changes: str) -> World:
        """The case's world with changes: `__` stands for a dot, None-like `-` takes a key away."""
        lines = dict(
            line.split("=", 1) for line in (CASES / f"{case}.state").read_text().splitlines() if "=" in line
        )
        lines |= {key.replace("__", "."): value for key, value in changes.items()}
        text = "".join(f"{key}={value}\n" for key, value in lines.items() if value != "-")
        new = self.state.with_suffix(".new")
        new.write_text(text)
        new.replace(self.state)
        return self

    @property
    def calls(self) -> list[tuple[str, str]]:
        """(function, device) of each call so far, those of the thread that waits for events left out."""
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        pairs = [line.split(" ", 1) for line in lines]
        return [
            (one, of) for one, of in pairs if one != "end" and "Event" not in one.replace("EventReasons", "")
        ]

    @property
    def at_end(self) -> str:
        """What the library held when its process ended."""
        found = re.findall(r"^end (.*)$", self.calls_file.read_text(), re.MULTILINE)
        return found[-1] if found else ""


@pytest.fixture(scope="session")
def world_in(drivers: dict[str, Path]) -> Callable[[Path], World]:
    """An empty world in a folder, with the newest driver."""
    return lambda folder: World(folder, drivers["590"])


@pytest.fixture
def world(drivers: dict[str, Path], tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes worlds: `world("s01_healthy_two_h200", driver="470", err__nvmlDeviceGetName="4")`."""
    made = 0

    def make(case: str, *, driver: str = "590", **changes: str) -> World:
        nonlocal made
        made += 1
        return World(tmp_path / str(made), drivers[driver]).become(case, **changes)

    yield make


@pytest.fixture(scope="session")
def source() -> Callable[..., NvmlSource]:
    """A source that lives in a world."""

    def make(world: World, *, rule: Rule | None = None, **options: object) -> NvmlSource:
        owners = Owners(rule or Rule(targets=("local",)), proc=Path("/nonexistent"))
        return NvmlSource(owners, environ=world.environ, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def series() -> Callable[[Block], dict[str, float]]:
    """A block as a dictionary: `gpu_up{gpu_uuid="…"}` → value."""

    def read(block: Block) -> dict[str, float]:
        found = {}
        for one in block.layout.series:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(one.labels) if value)
            value = block.values[one.start]
            assert {name for name, _ in one.labels} <= set(one.signal.labels), one
            assert not is_absent(value)
            found[one.signal.name + (f"{{{labels}}}" if labels else "")] = value
        assert len(found) == len(block.layout.series), "the same series twice"
        return found

    return read
