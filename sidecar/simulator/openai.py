"""The bodies of OpenAI's completions API, as far as a client of the simulator needs them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import time
from typing import Any
from zlib import crc32

from sidecar.simulator.request import Outcome, Request

Body = dict[str, Any]


class BadRequest(Exception):
    """What a client did wrong, as the API answers it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        kind = "NotFoundError" if status == 404 else "BadRequestError"
        self.body: Body = {"error": {"message": message, "type": kind, "param": None, "code": status}}


@dataclass(frozen=True, slots=True)
class Reply:
    """How one request is answered."""

    id: str
    model: str
    chat: bool
    usage_wanted: bool

    def _envelope(self, kind: str, choices: list[Body]) -> Body:
        return {
            "id": self.id,
            "object": kind,
            "created": int(time()),
            "model": self.model,
            "choices": choices,
        }

    def chunk(self, number: int, asked: Request, last: bool) -> Body:
        """The event of one token; `last` carries the reason of the end, unless that was an error."""
        reason = asked.outcome.value if last and asked.outcome in (Outcome.STOP, Outcome.LENGTH) else None
        text = "token" if number == 0 else " token"
        if self.chat:
            delta = {"role": "assistant", "content": text} if number == 0 else {"content": text}
            return self._envelope(
                "chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": reason}]
            )
        return self._envelope("text_completion", [{"index": 0, "text": text, "finish_reason": reason}])

    def usage_chunk(self, asked: Request) -> Body:
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._envelope(kind, []), "usage": _usage(asked)}

    def whole(self, asked: Request) -> Body:
        text = " ".join(["token"] * asked.generated)
        reason = asked.outcome.value if asked.outcome is not None else None
        choice: Body = {"index": 0, "finish_reason": reason}
        choice |= {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion" if self.chat else "text_completion"
        return {**self._envelope(kind, [choice]), "usage": _usage(asked)}

    @property
    def refusal(self) -> Body:
        """A queue limit's answer."""
        message = "The server is overloaded: too many requests are queued."
        return {"error": {"message": message, "type": "ServiceUnavailableError", "param": None, "code": 503}}

    @property
    def failure(self) -> Body:
        message = "Internal server error"
        return {"error": {"message": message, "type": "InternalServerError", "param": None, "code": 500}}


def _usage(asked: Request) -> Body:
    return {
        "prompt_tokens": asked.prompt_tokens,
        "completion_tokens": asked.generated,
        "total_tokens": asked.prompt_tokens + asked.generated,
    }


def parse(raw: bytes, endpoint: str, model: str, longest: int) -> tuple[Request, Reply]:
    """A request and the way to answer it. Raises BadRequest (400, or 404 for another model).

    A prompt of n characters has ⌈n / 4⌉ tokens, a list of token ids its length. The answer always reaches
    `max_tokens` (16 for a completion, 128 for a chat when the client doesn't say). Equal prompts share a
    prefix.
    """
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BadRequest(400, f"invalid JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest(400, "the body is no JSON object")
    if body.get("model", model) != model:
        raise BadRequest(404, f"The model `{body['model']}` does not exist.")
    chat = endpoint.endswith("/chat/completions")
    prompt = json.dumps(body.get("messages")) if chat else body.get("prompt", "")
    if isinstance(prompt, str):
        tokens = max(1, -(-len(prompt) // 4))
    elif isinstance(prompt, list) and prompt and all(isinstance(one, int) for one in prompt):
        tokens = len(prompt)
    else:
        raise BadRequest(400, "prompt must be a string or a list of token ids")
    wanted = body.get("max_completion_tokens", body.get("max_tokens", 128 if chat else 16))
    if not isinstance(wanted, int) or wanted < 1:
        raise BadRequest(400, f"max_tokens must be at least 1, got {wanted}")
    if tokens + wanted > longest:
        raise BadRequest(
            400,
            f"This model's maximum context length is {longest} tokens. However, you requested "
            f"{tokens + wanted} tokens.",
        )
    key = crc32(str(prompt).encode())
    asked = Request(
        prompt_tokens=tokens,
        output_tokens=wanted,
        max_tokens=wanted,
        prefix_key=("http", key),
        prefix_tokens=tokens,
        endpoint=endpoint,
        streaming=bool(body.get("stream", False)),
    )
    options = body.get("stream_options") or {}
    reply = Reply(
        id=f"{'chatcmpl' if chat else 'cmpl'}-{key:08x}",
        model=model,
        chat=chat,
        usage_wanted=bool(options.get("include_usage")),
    )
    return asked, reply
