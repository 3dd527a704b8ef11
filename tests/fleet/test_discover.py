"""Where sidecars are found."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from sidecar.fleet.discover import DiscoveryError, Dns, File, Static, urls
from sidecar.fleet.router import Selector, selector


def test_a_name_gives_all_of_its_addresses() -> None:
    found = asyncio.run(Dns("localhost", 9000).addresses())
    assert "http://127.0.0.1:9000" in found
    assert found == sorted(set(found))


def test_a_name_without_an_address_is_a_fleet_of_none() -> None:
    assert asyncio.run(Dns("sidecars.invalid").addresses()) == []


def test_a_name_that_is_none_is_an_error() -> None:
    with pytest.raises(DiscoveryError):
        asyncio.run(Dns("a" * 300 + ".example").addresses())


@pytest.mark.parametrize("name", ["list.json", "list.yaml"])
def test_a_file_is_read_anew_each_time(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    source = File(path)
    path.write_text(
        json.dumps([{"targets": ["10.0.0.1", "10.0.0.2:1"]}, {"targets": ["10.0.0.1"], "labels": {}}])
    )
    assert asyncio.run(source.addresses()) == ["http://10.0.0.1:9845", "http://10.0.0.2:1"]
    path.write_text("[]")
    assert asyncio.run(source.addresses()) == []


@pytest.mark.parametrize(
    "text", ["{", "targets: [a]", "3", '[{"targets": "a"}]', "[[1]]", '[{"targets": ["a b/c?x=y"]}]', "\x00"]
)
def test_a_file_that_can_not_be_used_is_an_error_and_no_empty_list(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.json").write_text(text)
    (tmp_path / "list.yaml").write_text(text)
    for name in ("list.json", "list.yaml", "missing.json"):
        with pytest.raises(DiscoveryError):
            asyncio.run(File(tmp_path / name).addresses())


def test_addresses_are_normalised() -> None:
    assert urls(["a:1", "https://b:2/", "http://a:1", "[::1]"]) == [
        "http://a:1",
        "https://b:2",
        "http://[::1]:9845",
    ]
    assert asyncio.run(Static(("http://a:1",)).addresses()) == ["http://a:1"]
    for wrong in ("ftp://a", "http://user:word@a", "a:99999", ""):
        with pytest.raises(ValueError, match=r".+"):
            urls([wrong])


def test_selectors() -> None:
    assert selector(' x{a="1", b="2"}') == Selector("x", (("a", "1"), ("b", "2")))
    assert selector("x:y") == Selector("x:y")
    for wrong in ("", "x{a=1}", "sum(x)", 'x{a="1"} 3'):
        with pytest.raises(ValueError, match=r".+"):
            selector(wrong)
