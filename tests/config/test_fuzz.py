"""No bytes and no options raise anything but ConfigError, and what it says can be printed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.config import Config, ConfigError, effective_yaml, load, load_bytes
from sidecar.config.reference import EXAMPLE

PIECES = st.sampled_from(
    rb"""&a *a !x !!python/object:os.system - : , { } [ ] ' " | > ? # @ ` = << ~ %YAML_1.1 --- ... null true
    .inf .nan 1e999 0x1f -1 5% "\ud800" "\U00110000" "\Uffffffff" targets slos mappings name interval
    http://a:b@c""".split()
    + [b" ", b"  ", b": ", b"- ", b"\n", b"\r", b"\t", b"\0", b"\xff", b"%TAG ! x", b"9" * 400]
    + [text.encode() for text in ("\u2028", "\x85", "\ufeff", "\U0001f600")]
)


def outcome(raw: bytes) -> Config | None:
    try:
        config = load_bytes(raw, "f.yaml")
    except ConfigError as error:
        assert error.problems
        assert str(error).encode()
        return None
    assert load_bytes(effective_yaml(config).encode(), "printed") == config
    return config


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.lists(PIECES, max_size=30).map(b"".join)))
def test_any_bytes(raw: bytes) -> None:
    outcome(raw)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(EXAMPLE)), st.integers(0, 20), PIECES), min_size=1, max_size=4))
def test_a_good_config_damaged(cuts: list[tuple[int, int, bytes]]) -> None:
    raw = EXAMPLE.encode()
    for at, length, piece in cuts:
        raw = raw[:at] + piece + raw[at + length :]
    outcome(raw)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.builds(
                "{}={}".format,
                st.from_regex(r"[a-z]{1,8}((\.[a-z0-9_]{1,8})|(\[[0-9a-z.]{1,3}\])){0,4}", fullmatch=True),
                st.text(max_size=20),
            ),
            st.builds(
                "targets[{}].{}={}".format,
                st.integers(0, 3),
                st.sampled_from(["url", "auth", "tls.x"]),
                st.text(max_size=8),
            ),
        ),
        max_size=4,
    )
)
def test_any_options(overrides: list[str]) -> None:
    try:
        load(None, overrides)
    except ConfigError as error:
        assert str(error).encode("utf-8", "surrogateescape")
