"""The answer to a probe as it comes: server-sent events, and what their moments say. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from typing import Any

from sidecar.probe.request import Dialect, Question

#: Bytes of one line, and of a whole answer.
LINE_LIMIT = 64 * 1024
SIZE_LIMIT = 1024 * 1024
_DONE = b"[DONE]"


class ProbeError(Exception):
    """A probe without a usable answer: `result` is one of `PROBE_RESULTS`, `detail` one short, safe line."""

    def __init__(self, result: str, detail: str) -> None:
        super().__init__(detail)
        self.result = result
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a probe ended. Times in seconds.

    `first` is the time to the first token, NaN without one. `gaps` has one entry a gap between two tokens; it is
    empty when the stream doesn't show them (see `Answer`). `generated` counts what came,
    of a failed probe too; `prompt` is None where the runtime didn't say.
    """

    result: str = "ok"
    detail: str = ""
    first: float = nan
    gaps: tuple[float, ...] = ()
    generated: int = 0
    prompt: int | None = None

    @property
    def ok(self) -> bool:
        return self.result == "ok"


class Events:
    """Server-sent events from bytes, however they are cut. Lines end in LF or CR LF, as runtimes write them."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._held = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The data of the events that these bytes complete. Raises ProbeError `too_large`."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        complete: list[bytes] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if not line and self._data:
                complete.append(b"\n".join(self._data))
                self._data, self._held = [], 0
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._held += len(line)
        if len(self._rest) + self._held > LINE_LIMIT:
            raise ProbeError("too_large", f"one event has more than {LINE_LIMIT} bytes")
        return complete


@dataclass(frozen=True, slots=True)
class _Piece:
    """An event that may stand for a token: when it came, whether it has text, whether it ends the answer."""

    at: float
    speaks: bool
    ends: bool


class Answer:
    """Understands the stream that answers a question. `feed` it what comes, with the moment that it came.

    Gaps between tokens are told when it is sure that each event stands for one token (speculative decoding and
    some front ends put several into one), and unless more than a quarter of the tokens came together with the
    one before: a front end that can't keep up with its engine sends them in bunches, and a gap between bunches
    is none between tokens.
    """

    def __init__(self, question: Question) -> None:
        self._question = question
        self._events = Events()
        self._pieces: list[_Piece] = []
        self._size = 0
        self._ended = False
        self._done = False
        self._completion_tokens: int | None = None
        self.prompt: int | None = None

    @property
    def generated(self) -> int:
        """Tokens that came: as the runtime counts them, else events with text, a lower bound."""
        spoken = sum(piece.speaks for piece in self._pieces)
        return spoken if self._completion_tokens is None else self._completion_tokens

    def feed(self, data: bytes, at: float) -> bool:
        """Whether nothing more is to come. Raises ProbeError."""
        self._size += len(data)
        for event in self._events.feed(data):
            if event.strip() == _DONE:
                self._done = True
                return True
            self._take(event, at)
        # Two events a token (a role, a usage, an end) are plenty; more is a runtime that ignores max_tokens.
        if self._size > SIZE_LIMIT or len(self._pieces) > 2 * self._question.tokens + 16:
            raise ProbeError("too_large", "the answer goes on and on")
        return False

    def outcome(self, sent: float) -> Outcome:
        """What the whole answer says, where the request went out at `sent`. Raises ProbeError."""
        if not self._pieces:
            if self._size and not self._done:
                raise ProbeError("not_a_stream", "the answer holds no event: the runtime doesn't stream here")
            raise ProbeError("empty", "the answer has no token")
        if not (self._done or self._ended or self._question.dialect is Dialect.GENERATE):
            raise ProbeError("cut", "the stream ended in the middle of the answer")
        if not self.generated:
            raise ProbeError("empty", "the answer has no token")
        tokens = self._tokens()
        spoken = (piece.at for piece in self._pieces if piece.speaks)
        first = tokens[0] if tokens else next(spoken, self._pieces[0].at)  # special tokens have no text
        gaps = tuple(later - earlier for earlier, later in pairwise(tokens))
        if 4 * gaps.count(0.0) > len(gaps):
            gaps = ()
        return Outcome("ok", "", first - sent, gaps, self.generated, self.prompt)

    def _tokens(self) -> list[float]:
        """The moments of the tokens, one each; empty when it isn't sure which events stand for one.

        Sure is what agrees with the runtime's own count, or, without one, as many events with text as tokens
        were asked for.
        """
        everything = [piece.at for piece in self._pieces]
        spoken = [piece.at for piece in self._pieces if piece.speaks]
        if self._completion_tokens is None:
            return spoken if len(spoken) == self._question.tokens else []
        without_end = [piece.at for piece in self._pieces if piece.speaks or not piece.ends]
        readings = (everything, without_end, spoken)
        return next((one for one in readings if len(one) == self._completion_tokens), [])

    def _take(self, event: bytes, at: float) -> None:
        try:
            body = json.loads(event)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise ProbeError("not_a_stream", "an event is no JSON object")
        if body.get("error") or body.get("object") == "error":
            raise ProbeError("failed", "the runtime answered with an error in its stream")
        if self._question.dialect is Dialect.GENERATE:
            if "text_output" in body:
                self._pieces.append(_Piece(at, bool(body["text_output"]), False))
            return
        self._count(body.get("usage"))
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict):
            self._take_choice(choice, at)

    def _take_choice(self, choice: dict[str, Any], at: float) -> None:
        delta = choice.get("delta")
        said = delta if isinstance(delta, dict) else choice
        speaks = any(said.get(key) for key in ("text", "content", "reasoning_content", "reasoning"))
        ends = bool(choice.get("finish_reason"))
        self._ended |= ends
        if speaks or ends or "role" not in said:  # a chat begins with who speaks, before any token
            self._pieces.append(_Piece(at, speaks, ends))

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._completion_tokens = _whole(usage.get("completion_tokens"), self._completion_tokens)
            self.prompt = _whole(usage.get("prompt_tokens"), self.prompt)


def _whole(value: object, otherwise: int | None) -> int | None:
    """A count that can be believed."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1_000_000
    return value if usable else otherwise  # type: ignore[return-value]
