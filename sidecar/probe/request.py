"""What a probe asks: the text of one streaming completion in the dialect of the path that it goes to."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from yarl import URL

#: Short, and no model ends its answer to it at once.
PROMPT = "Tell a long story about the sea."
#: The name of the model in a path.
MODEL = "{model}"


class Dialect(StrEnum):
    """Form of a request and of the events that answer it."""

    COMPLETIONS = "completions"  # OpenAI's /v1/completions
    CHAT = "chat"  # OpenAI's /v1/chat/completions
    GENERATE = "generate"  # Triton's generate_stream


@dataclass(frozen=True, slots=True)
class Question:
    """One request. `tokens` bounds its answer."""

    url: URL
    body: bytes
    dialect: Dialect
    tokens: int


def dialect_of(path: str) -> Dialect:
    if path.endswith("/generate_stream"):
        return Dialect.GENERATE
    return Dialect.CHAT if path.endswith("/chat/completions") else Dialect.COMPLETIONS


def path_of(path: str, model: str) -> str:
    """A runtime's path for a model."""
    return path.replace(MODEL, quote(model, safe=""))


def question(
    url: URL,
    model: str,
    tokens: int,
    nonce: str,
    *,
    prompt: str = PROMPT,
    options: dict[str, Any] | None = None,
    names: dict[str, str] | None = None,
    plain: bool = False,
) -> Question:
    """The request to `url` for at most `tokens` tokens.

    The prompt begins with `nonce`, so that no prefix cache knows its first block. `options` are what only this
    runtime understands, `names` what one of Triton's models calls a part of the request; `plain` leaves the
    options and the question for usage out, for servers that refuse what they don't know.
    """
    dialect = dialect_of(url.path)
    text = f"{nonce} {prompt}"
    if dialect is Dialect.GENERATE:
        # Known to the vLLM backend as parameters and to TensorRT-LLM's models as inputs; `top_k` 1 is greedy.
        usual = {"text_input": text, "max_tokens": tokens, "stream": True, "top_k": 1}
        body: dict[str, Any] = {(names or {}).get(name, name): value for name, value in usual.items()}
    else:
        asked = (
            {"messages": [{"role": "user", "content": text}]} if dialect is Dialect.CHAT else {"prompt": text}
        )
        body = {"model": model, **asked, "max_tokens": tokens, "temperature": 0, "stream": True}
        if not plain:
            body |= {"stream_options": {"include_usage": True}, **(options or {})}
    return Question(url, json.dumps(body).encode(), dialect, tokens)
