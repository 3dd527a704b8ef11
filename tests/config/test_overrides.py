from __future__ import annotations

import pytest

from sidecar.config import Config, ConfigError, load, load_bytes
from sidecar.config.overrides import parse_key

TWO = b"targets:\n  - {name: a, url: 'http://a:1'}\n  - {name: b.c, url: 'http://b:1'}\n"


def with_set(*overrides: str) -> Config:
    return load_bytes(TWO, "c.yaml", overrides)


def refused(*overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        with_set(*overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("interval", ("interval",)),
        ("targets[0].url", ("targets", 0, "url")),
        ("targets.0.url", ("targets", 0, "url")),
        ("targets.local.tls.ca_file", ("targets", "local", "tls", "ca_file")),
        ("targets[b.c].url", ("targets", "b.c", "url")),
        ('targets["b.c"].url', ("targets", "b.c", "url")),
        ("", ()),
        (".a", ()),
        ("a..b", ()),
        ("a[", ()),
        ("a[]", ()),
        ("a b", ()),
        ("[0]", ()),
    ],
)
def test_keys(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_key(text) == path


def test_by_index_and_by_name() -> None:
    config = with_set("targets[0].url=http://x:1", "targets[b.c].timeout=500ms", "targets.a.per_rank=true")
    assert [target.url for target in config.targets] == ["http://x:1", "http://b:1"]
    assert [target.timeout for target in config.targets] == [2.0, 0.5]
    assert [target.per_rank for target in config.targets] == [True, False]


def test_sections_are_made_on_the_way() -> None:
    config = load(None, ["outputs.otlp.endpoint=http://c:4318", "gpu.source=none", "cost.gpu_hour_price=2.5"])
    assert config.outputs.otlp is not None
    assert config.outputs.otlp.endpoint == "http://c:4318"
    assert (config.gpu.source, config.cost.gpu_hour_price) == ("none", 2.5)


def test_the_first_target_by_index_or_by_name() -> None:
    assert load(None, ["targets[0].url=http://h:1"]).targets[0].url == "http://h:1"
    named = load(None, ["targets.llama.url=http://h:1"]).targets[0]
    assert (named.name, named.url) == ("llama", "http://h:1")


def test_one_past_the_end_adds() -> None:
    config = with_set("targets[2].name=c", "targets[2].url=http://c:1")
    assert [target.name for target in config.targets] == ["a", "b.c", "c"]


def test_values_are_yaml() -> None:
    config = load(
        None, ["slos=[{name: a, signal: availability, objective: 99%, models: ['x*']}]", "state_file="]
    )
    assert config.slos[0].models == ("x*",)
    assert config.state_file is None


def test_the_last_one_counts() -> None:
    assert load(None, ["interval=5s", "interval=7s"]).interval == 7.0


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("interval", "isn't key=value"),
        ("=5s", "isn't key=value"),
        ("intervall=5s", "--set intervall: unknown key\n    did you mean interval?"),
        ("interval=5x", '--set interval: "5x" isn\'t a duration'),
        ("targets.aa.url=x", '--set targets.aa.url: targets: has no entry named "aa"\n    did you mean a?'),
        ("targets[5].url=x", "[5] would leave a gap"),
        ("listen.port=1", "isn't an address"),
        ("targets.a.name.x=1", "is text: there are no keys in it"),
        ("models=*", "the value isn't YAML"),
    ],
)
def test_errors_name_the_option(text: str, part: str) -> None:
    assert part in refused(text)


def test_errors_of_file_and_options_come_together() -> None:
    said = refused("targets[1].timeout=soon", "targets.a.url=x", "nothing=1")
    for part in ("targets[1].timeout", "targets[0].url", "nothing: unknown key"):
        assert part in said


def test_an_override_mends_the_file() -> None:
    assert load_bytes(b"interval: soon", "f", ["interval=3s"]).interval == 3.0
