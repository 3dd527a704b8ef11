"""Is it NVIDIA's binding: installed, not shadowed, not overwritten."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from importlib.metadata import PathDistribution

import pytest

from sidecar.gpu.nvml.binding import NoBinding, check_binding, find_binding


def wheel(folder, recorded=b"ours", lies_there=b"ours"):
    info = folder / "nvidia_ml_py-13.0.dist-info"
    info.mkdir()
    digest = urlsafe_b64encode(hashlib.sha256(recorded).digest()).rstrip(b"=").decode()
    (info / "METADATA").write_text("Name: nvidia-ml-py\nVersion: 13.0\n")
    (info / "RECORD").write_text(f"pynvml.py,sha256={digest},{len(recorded)}\n")
    (folder / "pynvml.py").write_bytes(lies_there)
    return PathDistribution(info)


def test_the_installed_one_is_nvidias():
    assert find_binding().endswith("site-packages")


def test_a_sound_one(tmp_path):
    assert check_binding(wheel(tmp_path), tmp_path / "pynvml.py") == str(tmp_path)


def test_a_shadowed_one(tmp_path):
    shadow = tmp_path / "pynvml" / "__init__.py"
    with pytest.raises(NoBinding, match=r"pynvml/__init__\.py.*uninstall what shadows it"):
        check_binding(wheel(tmp_path), shadow)


def test_an_overwritten_one(tmp_path):
    with pytest.raises(NoBinding, match="overwritten"):
        check_binding(wheel(tmp_path, lies_there=b"theirs"), tmp_path / "pynvml.py")


def test_none_to_import(tmp_path):
    with pytest.raises(NoBinding, match="finds nothing"):
        check_binding(wheel(tmp_path), None)


def test_a_missing_binding_is_a_note_and_nothing_worse(monkeypatch, world, source, series):
    import asyncio

    from sidecar.gpu.nvml import source as module

    def none():
        raise NoBinding("nvidia-ml-py is not installed")

    monkeypatch.setattr(module, "find_binding", none)
    reading = asyncio.run(source(world("s01_healthy_two_h200")).read(1.0))
    assert not reading.ok
    assert (reading.notes[0].reason, reading.notes[0].detail) == ("library", "nvidia-ml-py is not installed")
    assert series(reading.block)['gpu_collect_success{source="nvml"}'] == 0
