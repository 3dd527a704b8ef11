"""Is `pynvml` NVIDIA's nvidia-ml-py? Looked up, never imported: the sidecar itself doesn't load NVML."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "nvidia-ml-py"


class NoBinding(Exception):
    """The binding can't be used; the message says why and what to do."""


def find_binding(path: list[str] | None = None) -> str:
    """The folder that holds NVIDIA's `pynvml.py`. Raises NoBinding.

    The PyPI project `pynvml` ships a module of the same name, and so may any file beside a program: such a
    module is not trusted with the numbers.
    """
    try:
        wheel = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        raise NoBinding(
            f"{DISTRIBUTION} is not installed: pip install 'inference-sidecar[nvml]', or gpu.source: none"
        ) from None
    return check_binding(wheel, _origin())


def _origin() -> Path | None:
    try:
        spec = find_spec("pynvml")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def check_binding(wheel: Distribution, origin: Path | None) -> str:
    """The folder of `wheel`'s own pynvml.py, if that is what `import pynvml` finds and it is unchanged."""
    listed = [file for file in wheel.files or () if str(file) == "pynvml.py"]
    if not listed:
        raise NoBinding(f"{DISTRIBUTION} {wheel.version} lists no pynvml.py: install it again")
    ours = Path(str(wheel.locate_file(listed[0])))
    if origin is None or origin.resolve() != ours.resolve():
        raise NoBinding(
            f"import pynvml finds {origin or 'nothing'}, not that of {DISTRIBUTION} {wheel.version}: "
            "uninstall what shadows it (the project pynvml?), then install nvidia-ml-py again"
        )
    recorded = listed[0].hash
    if recorded is not None and recorded.mode == "sha256":
        found = urlsafe_b64encode(hashlib.sha256(ours.read_bytes()).digest()).rstrip(b"=").decode()
        if found != recorded.value:
            raise NoBinding(
                f"{ours} is not the file that {DISTRIBUTION} {wheel.version} installed: another package has "
                "overwritten it; install nvidia-ml-py again"
            )
    return str(ours.parent)
