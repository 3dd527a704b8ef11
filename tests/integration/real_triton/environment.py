"""A real Triton from the wheel `nvidia-pytriton`, outside the repository, installed once.

    python -m tests.integration.real_triton.environment        # installs it, prints where it is

250 MB on disk, seconds to install, no GPU. `INFERENCE_SIDECAR_CACHE` says where; by default
~/.cache/inference-sidecar.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

VERSION = "0.7.0"  # Triton 2.51.0, 24.10
INSTALL_WITHIN = 75.0


class Unavailable(Exception):
    """This machine can't have a real Triton; the message says why."""


def home() -> Path:
    given = os.environ.get("INFERENCE_SIDECAR_CACHE")
    cache = Path(given) if given else Path.home() / ".cache" / "inference-sidecar"
    return cache / f"pytriton-{VERSION}-py{sys.version_info.major}.{sys.version_info.minor}"


def server() -> Path:
    """The folder of Triton's `bin`, `backends` and `caches`."""
    return _packages() / "pytriton" / "tritonserver"


def surroundings() -> dict[str, str]:
    """The environment variables that the server and its Python backend need."""
    libraries = (sysconfig.get_config_var("LIBDIR"), _packages() / "nvidia_pytriton.libs")
    return os.environ | {
        "PATH": f"{home() / 'venv' / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
    }


def prepare() -> None:
    """Install it where it isn't yet. Raises Unavailable."""
    stamp = home() / "complete"
    if stamp.exists():
        return
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise Unavailable(f"nvidia-pytriton has no wheel for {sys.platform} on {platform.machine()}")
    library = Path(sysconfig.get_config_var("LIBDIR") or "") / f"libpython{minor}.so.1.0"
    if not library.exists():
        raise Unavailable(f"this Python has no shared library ({library})")
    try:
        home().mkdir(parents=True, exist_ok=True)
        venv.create(home() / "venv", with_pip=True, clear=True)
        pip = [
            home() / "venv" / "bin" / "python",
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
        ]
        subprocess.run(
            [*pip, "--no-deps", f"nvidia-pytriton=={VERSION}", "numpy<2"],
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_WITHIN,
        )
        stub = server() / "python_backend_stubs" / minor / "triton_python_backend_stub"
        if not stub.exists():
            raise Unavailable(f"nvidia-pytriton {VERSION} has no stub for Python {minor}")
        shutil.copy(stub, server() / "backends" / "python")
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"pip: {error.stderr.strip().splitlines()[-1:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from None
    stamp.write_text(VERSION)


def _packages() -> Path:
    return next((home() / "venv" / "lib").glob("python3.*")) / "site-packages"


if __name__ == "__main__":
    prepare()
    print(server())
