from __future__ import annotations

import os
from pathlib import Path

import pytest

from sidecar.config import ConfigError, ConfigFile


def write(path: Path, text: str) -> None:
    """As editors and careful tools do: another file takes the name."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_a_change_is_seen_once(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 5s\n")
    file = ConfigFile(path)
    assert not file.changed()
    write(path, "interval: 7s\n")
    assert file.changed()
    assert file.reload().interval == 7.0
    assert not file.changed()


def test_a_change_in_place_of_the_same_size(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 5s\n")
    file = ConfigFile(path)
    path.write_text("interval: 7s\n")
    later = path.stat().st_mtime_ns + 1
    os.utime(path, ns=(later, later))
    assert file.changed()


def test_a_config_map_is_swapped(tmp_path: Path) -> None:
    """The kubelet writes a new folder and turns the link `..data` to it; the file's own link stays."""
    for version, interval in (("..v1", "5s"), ("..v2", "7s")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "c.yaml").write_text(f"interval: {interval}\n")
        os.utime(tmp_path / version / "c.yaml", ns=(1, 1))
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "c.yaml").symlink_to("..data/c.yaml")
    file = ConfigFile(tmp_path / "c.yaml")
    assert file.config.interval == 5.0
    (tmp_path / "..data_tmp").symlink_to("..v2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    assert file.changed()
    assert file.reload().interval == 7.0
    assert not file.changed()


@pytest.mark.parametrize("text", ["interval: soon\n", "a: [\n", "", "intervall: 2s\n"])
def test_a_bad_file_changes_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 5s\n")
    file = ConfigFile(path)
    before = file.config
    write(path, text)
    with pytest.raises(ConfigError):
        file.reload()
    assert file.config is before
    assert not file.changed()  # one message a change, not one a second
    write(path, "interval: 7s\n")
    assert file.changed()
    assert file.reload().interval == 7.0


def test_a_file_that_goes_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 5s\n")
    file = ConfigFile(path)
    path.unlink()
    assert file.changed()
    with pytest.raises(ConfigError, match="no such file"):
        file.reload()
    assert file.config.interval == 5.0
    path.write_text("interval: 7s\n")
    assert file.changed()


def test_overrides_hold_through_a_reload(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("interval: 5s\n")
    file = ConfigFile(path, ["interval=1s"])
    write(path, "interval: 7s\ntimeout: 1s\n")
    assert (file.reload().interval, file.config.timeout) == (1.0, 1.0)


def test_without_a_file_nothing_changes() -> None:
    file = ConfigFile(None, ["interval=1s"])
    assert not file.changed()
    assert file.reload().interval == 1.0


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ConfigError):
        ConfigFile(tmp_path / "a")
