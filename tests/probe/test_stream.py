"""What the moments of a stream say; and that no bytes, however they are cut, say anything else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from sidecar.probe.request import Dialect, Question, question
from sidecar.probe.stream import LINE_LIMIT, Answer, Events, Outcome, ProbeError
from sidecar.schema import PROBE_RESULTS

EVENT = st.binary(max_size=40).map(lambda data: data.translate(None, b"\r\n"))


def asked(path: str = "/v1/completions", tokens: int = 4) -> Question:
    return question(URL("http://127.0.0.1:8000" + path), "m", tokens, "0123456789abcdef")


def piece(text: str, end: str | None = None) -> dict[str, object]:
    return {"choices": [{"text": text, "finish_reason": end}]}


def usage(tokens: int) -> dict[str, object]:
    return {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": tokens}}


def outcome(*events: object, path: str = "/v1/completions", tokens: int = 4, done: bool = True) -> Outcome:
    """Of events that come a second after the other, the first one second after the request."""
    answer = Answer(asked(path, tokens))
    for at, body in enumerate(events, 1):
        answer.feed(b"data: " + json.dumps(body).encode() + b"\n\n", float(at))
    if done:
        assert answer.feed(b"data: [DONE]\n\n", 99.0)
    return answer.outcome(0.0)


@given(st.lists(EVENT, max_size=8), st.sampled_from([b"\n", b"\r\n"]), st.data())
def test_events_are_the_same_however_the_bytes_are_cut(
    events: Sequence[bytes], newline: bytes, data: st.DataObject
) -> None:
    raw = b"".join(b": ping" + newline + b"data: " + one + newline + newline for one in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=12)))
    reader = Events()
    got = [one for start, end in pairwise([0, *cuts, len(raw)]) for one in reader.feed(raw[start:end])]
    assert got == list(events)


@given(st.lists(st.binary(max_size=200), max_size=20), st.sampled_from(list(Dialect)))
def test_no_bytes_raise_anything_but_the_probes_own_error(parts: Sequence[bytes], dialect: Dialect) -> None:
    path = {Dialect.COMPLETIONS: "/v1/completions", Dialect.CHAT: "/chat/completions"}.get(
        dialect, "/generate_stream"
    )
    answer = Answer(asked(path))
    try:
        for at, part in enumerate(parts):
            answer.feed(part, float(at))
        answer.outcome(0.0)
    except ProbeError as error:
        assert error.result in PROBE_RESULTS


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "text", "usage", "completion_tokens", "error", "text_output", "role"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_raises_anything_but_the_probes_own_error(body: object) -> None:
    for path in ("/v1/completions", "/v2/models/m/generate_stream"):
        try:
            found = outcome(body, path=path)
        except ProbeError as error:
            assert error.result in PROBE_RESULTS
        else:
            assert found.first >= 0 and all(gap >= 0 for gap in found.gaps)


def test_a_token_an_event() -> None:
    found = outcome(piece("a"), piece("b"), piece("c"), piece("d", "length"), usage(4))
    assert (found.first, found.gaps) == (1.0, (1.0, 1.0, 1.0))
    assert (found.generated, found.prompt) == (4, 9)


@pytest.mark.parametrize(
    ("events", "gaps", "generated"),
    [
        # Several tokens in one event: no gap between tokens can be told, and none is.
        ([piece("a b"), piece("c d", "length"), usage(4)], 0, 4),
        # An end of its own, without a token.
        ([piece("a"), piece("b"), piece("", "stop"), usage(2)], 1, 2),
        # An end that is a token: the one that ends the answer.
        ([piece("a"), piece("b"), piece("", "stop"), usage(3)], 2, 3),
        # Half a character has no text yet.
        ([piece("a"), piece(""), piece("é"), piece("d", "length"), usage(4)], 3, 4),
        # Nobody counts: as many events with text as tokens were asked for are one token each …
        ([piece("a"), piece("b"), piece("c"), piece("d", "length")], 3, 4),
        # … and fewer may be bundles, or a short answer.
        ([piece("a"), piece("b"), piece("c", "stop")], 0, 3),
        # A usage that runs along counts to the end.
        ([piece("a") | {"usage": {"completion_tokens": n}} for n in (1, 2, 3)] + [piece("", "stop")], 2, 3),
        # Counts that can't be are none.
        ([piece("a"), piece("b", "stop"), {"usage": {"completion_tokens": -2}}], 0, 2),
        ([piece("a"), piece("b", "stop"), {"usage": {"completion_tokens": True}}], 0, 2),
        ([piece("a"), piece("b", "stop"), {"usage": 7}], 0, 2),
    ],
)
def test_gaps_are_told_when_they_are_sure(events: list[dict[str, object]], gaps: int, generated: int) -> None:
    found = outcome(*events)
    assert (found.ok, found.first) == (True, 1.0)
    assert len(found.gaps) == gaps
    assert found.generated == generated


def test_tokens_that_come_together_show_no_gap() -> None:
    answer = Answer(asked(tokens=8))
    for at in (1.0, 1.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0):
        answer.feed(b"data: " + json.dumps(piece("a")).encode() + b"\n\n", at)
    answer.feed(b"data: " + json.dumps(usage(8)).encode() + b"\n\ndata: [DONE]\n\n", 5.0)
    found = answer.outcome(0.0)
    assert (found.first, found.gaps, found.generated) == (1.0, (), 8)


def test_special_tokens_without_text_are_tokens() -> None:
    found = outcome(piece(""), piece(""), piece("", "length"), usage(3))
    assert (found.first, found.gaps) == (1.0, (1.0, 1.0))
    bundled = outcome(piece(""), piece("", "length"), usage(3))
    assert (bundled.ok, bundled.first, bundled.gaps, bundled.generated) == (True, 1.0, (), 3)


def test_a_chat_begins_with_who_speaks_and_thinks_aloud() -> None:
    def delta(**said: str) -> dict[str, object]:
        return {"choices": [{"delta": said, "finish_reason": None}]}

    found = outcome(
        delta(role="assistant", content=""),
        delta(reasoning_content="hm"),
        delta(content="yes"),
        {"choices": [{"delta": {}, "finish_reason": "length"}]},
        usage(2),
        path="/v1/chat/completions",
    )
    assert (found.first, found.gaps) == (2.0, (1.0,))


def test_triton_ends_with_the_connection() -> None:
    events = [{"model_name": "m", "text_output": text} for text in "abcd"]
    found = outcome(*events, path="/v2/models/m/generate_stream", done=False)
    assert (found.first, len(found.gaps), found.generated, found.prompt) == (1.0, 3, 4, None)


@pytest.mark.parametrize(
    ("events", "done", "result"),
    [
        ([], True, "empty"),
        ([usage(0)], True, "empty"),
        ([piece("", "stop"), usage(0)], True, "empty"),
        ([piece("a")], False, "cut"),
        ([piece("a"), {"error": {"message": "CUDA out of memory"}}], False, "failed"),
        ([{"object": "error", "message": "no"}], False, "failed"),
        ([["a"]], False, "not_a_stream"),
        ([piece("a")] * 40, False, "too_large"),
    ],
)
def test_what_is_no_answer(events: list[object], done: bool, result: str) -> None:
    with pytest.raises(ProbeError) as told:
        outcome(*events, done=done)
    assert told.value.result == result
    assert "CUDA" not in told.value.detail


def test_an_answer_that_does_not_stream_is_no_stream() -> None:
    answer = Answer(asked())
    answer.feed(b'{"choices": [{"text": "all at once"}]}', 1.0)
    with pytest.raises(ProbeError, match="no event"):
        answer.outcome(0.0)


def test_a_line_without_end_is_refused() -> None:
    with pytest.raises(ProbeError, match="one event"):
        Events().feed(b"data: " + b"a" * LINE_LIMIT)
    reader = Events()
    with pytest.raises(ProbeError, match="one event"):
        for _ in range(LINE_LIMIT):
            reader.feed(b"data: a line of an event that never ends\n")


def test_prompts_never_begin_alike() -> None:
    bodies = [
        json.loads(question(URL("http://h/v1/completions"), "m", 8, nonce).body)["prompt"]
        for nonce in ("00aa", "11bb")
    ]
    assert bodies[0][:4] != bodies[1][:4] and bodies[0][4:] == bodies[1][4:]


def test_what_a_server_may_not_know_can_be_left_out() -> None:
    url = URL("http://h/v1/completions")
    full = json.loads(question(url, "m", 8, "x", options={"ignore_eos": True}).body)
    plain = json.loads(question(url, "m", 8, "x", options={"ignore_eos": True}, plain=True).body)
    assert full["stream_options"] == {"include_usage": True} and full["ignore_eos"] is True
    assert set(full) - set(plain) == {"stream_options", "ignore_eos"}
    assert plain["temperature"] == 0 and plain["stream"] is True and plain["max_tokens"] == 8


def test_an_outcome_without_a_token_has_no_time() -> None:
    assert isnan(Outcome("timeout").first)
