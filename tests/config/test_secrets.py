"""No secret in an error, a dump or a repr, wherever a user wrote it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import ConfigError, SecretFile, SecretUnreadable, effective_yaml, load, load_bytes

SECRET = "hunter2XQZ"

MISPLACED = [
    "password: {}",
    "password: *{}",
    "password: !{} x",
    "password: '{}",
    "targets: [{{auth: {{bearer_token: {}}}}}]",
    "targets: [{{auth: {{bearer_token_file: [{}]}}}}]",
    "targets: [{{auth: {{bearer_token_file: 'a\n\n{}'}}}}]",
    "targets: [{{auth: {}}}]",
    "targets: [{{auth: {{basic: {{username: u, password: {}}}}}}}]",
    "targets: [{{auth: {{basic: 'u:{}'}}}}]",
    "targets: [{{url: 'http://u:{}@h:1'}}]",
    "targets: [{{url: 'http://u:{}@h:port'}}]",
    "targets: [{{url: 'u:{}@h'}}]",
    "targets: [{{url: 'http://h/?key={}'}}]",
    "targets: [{{metrics_path: '/metrics?api_key={}'}}]",
    "targets: [{{metrics_path: 'metrics?token={}'}}]",
    "targets: [{{Authorization: 'Bearer {}'}}]",
    "outputs: {{otlp: {{headers_file: {{x: {}}}}}}}",
    "outputs: {{otlp: {{headers: {{authorization: {}}}}}}}",
    "outputs: {{otlp: {{endpoint: 'https://{}@collector'}}}}",
    "api_key: {}",
    "client_secret: {}",
]


@pytest.mark.parametrize("text", MISPLACED)
def test_a_secret_in_the_wrong_place_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_bytes(text.format(SECRET).encode(), "c.yaml")
    error = caught.value
    assert error.problems
    for shown in (str(error), repr(error), json.dumps([asdict(one) for one in error.problems])):
        assert SECRET not in shown


@pytest.mark.parametrize(
    "key", ["targets[0].auth.bearer_token", "password", "targets[0].url", "interval.token"]
)
def test_nor_one_on_the_command_line(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, [f"{key}=http://u:{SECRET}@h"])
    assert SECRET not in str(caught.value)
    assert f"--set {key}" in str(caught.value)


def test_the_mend_names_the_file_key() -> None:
    with pytest.raises(ConfigError, match="write bearer_token_file: secrets are read from files"):
        load_bytes(b"targets: [{auth: {bearer_token: abc}}]", "c.yaml")


def test_the_content_shows_nowhere(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET + "\n")
    (tmp_path / "c.yaml").write_text("targets: [{auth: {bearer_token_file: token}}]")
    config = load(tmp_path / "c.yaml")
    secret = config.targets[0].auth.bearer_token_file
    assert secret is not None
    assert secret.read_line() == SECRET
    for shown in (repr(config), str(config), effective_yaml(config), config.model_dump_json(), repr(secret)):
        assert str(tmp_path / "token") in shown
        assert SECRET not in shown


def test_a_rotated_secret_is_seen(tmp_path: Path) -> None:
    secret = SecretFile(tmp_path / "token")
    secret.path.write_text("one\n")
    assert secret.read() == "one"
    secret.path.write_text("two")
    assert secret.read() == "two"


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "empty"),
        (b"a\nX-Other: b\n", "more than one line"),
        ("pässword".encode(), "not plain ASCII"),
        (b"\xff" + SECRET.encode(), "not UTF-8"),
        (SECRET.encode() * 7000, "larger than 64 KiB"),
        (None, "No such file"),
    ],
)
def test_secrets_that_fit_into_no_header(tmp_path: Path, content: bytes | None, part: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SecretUnreadable, match=part) as caught:
        SecretFile(path).read_line()
    assert SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None


@given(st.text("abcdefghijkmnpqrstuvwxyz", min_size=12, max_size=30), st.sampled_from(MISPLACED))
def test_whatever_the_secret_is(secret: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_bytes(text.format(secret).encode(), "c.yaml")
    assert secret not in str(caught.value)
