from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.config import PLACES, Address, Config, Target, load, load_bytes


def test_no_config_at_all() -> None:
    config = load()
    assert config.targets == ()
    assert config.listen == Address("0.0.0.0", 9845)
    assert [place.url.rpartition(":")[2] for place in PLACES] == [
        "8000",
        "8002",
        "30000",
        "8080",
        "3000",
        "9000",
    ]
    assert [place.api_url for place in PLACES if place.api_url] == ["http://127.0.0.1:8000"]


def test_a_target_takes_from_the_top_what_it_does_not_say() -> None:
    text = (
        b"interval: 5s\nmax_series: 7\n"
        b"targets: [{name: a}, {name: b, url: 'http://b', interval: 1s, timeout: 9s}]"
    )
    a, b = load_bytes(text, "f").targets
    assert (a.interval, a.timeout, a.staleness, a.max_series) == (5.0, 2.0, 15.0, 7)
    assert (b.interval, b.timeout, b.staleness, b.max_series) == (1.0, 9.0, 10.0, 7)


def test_staleness_of_the_top_level_holds_for_all() -> None:
    (target,) = load_bytes(b"staleness: 1m\ntargets: [{name: a}]", "f").targets
    assert target.staleness == 60.0


def test_targets_that_were_found_inherit_as_well() -> None:
    config = load_bytes(b"interval: 20s", "f")
    found = config.with_targets([Target(name="local", url="http://127.0.0.1:8002", runtime="triton")])
    assert (found.targets[0].interval, found.targets[0].staleness) == (20.0, 60.0)
    assert config.targets == ()


def test_a_config_is_frozen() -> None:
    config = load_bytes(b"targets: [{name: a}]", "f")
    with pytest.raises(ValidationError, match="frozen"):
        config.interval = 1.0
    with pytest.raises(ValidationError, match="frozen"):
        config.targets[0].url = "http://x"


def test_keys_without_a_value_are_left_out() -> None:
    assert load_bytes(b"targets:\nslos:\ngpu:\nlisten:\nstate_file:\noutputs:\n  otlp:\n", "f") == load()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":80", Address("", 80)),
        ("[::1]:0", Address("::1", 0)),
        ("localhost:9845", Address("localhost", 9845)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert Config(listen=text).listen == address  # type: ignore[arg-type]
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://h", "http://h"),
        ("https://h:8443/v1/", "https://h:8443/v1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://10.0.0.1:8000/", "http://10.0.0.1:8000"),
    ],
)
def test_urls(text: str, url: str) -> None:
    assert Target(url=text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h:80",
        "//h",
        "ftp://h",
        "http://",
        "http://:80",
        "http://h:0",
        "http://h:99999",
        "http://[::1",
        "http://a b",
        "http://h\n",
        "http://ü",
        8000,
    ],
)
def test_what_is_no_url(text: object) -> None:
    with pytest.raises(ValidationError):
        Target(url=text)  # type: ignore[arg-type]
