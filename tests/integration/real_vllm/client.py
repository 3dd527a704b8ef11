"""A client that counts and times for itself what it gets from an OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

ALPHABET = "abcdefghij klmnop"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. `leave_after` is the number of events after which the client goes away."""

    prompt_tokens: int
    tokens: int
    leave_after: int | None = None


@dataclass(slots=True)
class Told:
    """What the client saw of a request; times in seconds on its own clock."""

    ask: Ask
    status: int = 0
    sent: float = 0.0
    events: list[float] = field(default_factory=list)  # one may carry several tokens
    tokens: int = 0
    finished: bool = False

    @property
    def first(self) -> float:
        return self.events[0] - self.sent

    @property
    def gaps(self) -> float:
        """Sum of the gaps between tokens."""
        return self.events[-1] - self.events[0]


async def ask_all(url: str, asks: Sequence[Ask], at_once: int, seed: int = 1) -> list[Told]:
    """Send requests, `at_once` at a time; a character is a token for the tiny model."""
    rng = random.Random(seed)
    prompts = ["".join(rng.choices(ALPHABET, k=ask.prompt_tokens)) for ask in asks]
    places = asyncio.Semaphore(at_once)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(url, timeout=timeout) as session:

        async def one(ask: Ask, prompt: str) -> Told:
            async with places:
                return await _stream(session, ask, prompt)

        return list(await asyncio.gather(*map(one, asks, prompts)))


async def _stream(session: aiohttp.ClientSession, ask: Ask, prompt: str) -> Told:
    told = Told(ask, sent=time.monotonic())
    body = {
        "model": "tiny",
        "prompt": prompt,
        "max_tokens": ask.tokens,
        "ignore_eos": True,
        "temperature": 0.8,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    async with session.post("/v1/completions", json=body) as answer:
        told.status = answer.status
        async for line in answer.content:
            if not line.startswith(b"data: "):
                continue
            if line.startswith(b"data: [DONE]"):
                told.finished = True
                break
            event = json.loads(line[6:])
            told.tokens = event["usage"]["completion_tokens"]
            if event["choices"]:
                told.events.append(time.monotonic())
            if ask.leave_after is not None and len(told.events) >= ask.leave_after:
                break  # the connection is closed with the request under way
    return told
