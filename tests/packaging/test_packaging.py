"""What is shipped: the wheel holds all of the package and nothing else, and works where this folder isn't."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from sidecar import __version__

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests/simulator/pages/vllm_0.32.0_loaded.txt"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name.startswith(f"inference_sidecar-{__version__}-py3-none-any")
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        (metadata,) = (one for one in names if one.endswith("METADATA"))
        written = files.read(metadata)
        told = message_from_bytes(written)
    ours = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "sidecar").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {one for one in names if ".dist-info/" not in one} == ours
    assert told["Version"] == __version__
    assert told["License-Expression"] == "Apache-2.0"
    assert {"keda", "nvml", "otlp", "rules", "web"} <= set(told.get_all("Provides-Extra"))
    assert written.endswith((ROOT / "README.md").read_bytes())


def test_the_source_archive_can_be_built_again(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {one.partition("/")[2] for one in files.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "sidecar/__init__.py", "constraints.txt"} <= names
    assert not [one for one in names if one.startswith((".venv", ".git/"))]


def test_the_wheel_works_where_this_folder_is_not(built: Path, tmp_path: Path) -> None:
    """Unpacked elsewhere, beside the packages that it needs: its data files are found."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(tmp_path)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sidecar; from sidecar.cli import main\n"
        f"assert sidecar.__file__.startswith({str(tmp_path)!r}), sidecar.__file__\n"
        f"sys.exit(main(['map', {str(PAGE)!r}]))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "inference_requests_running{" in done.stdout
