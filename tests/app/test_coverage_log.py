"""What can't be used of a page is logged once, and once more when it can be again."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from sidecar.app import Application
from sidecar.config import load_bytes
from tests.app.test_application import QUICK, until

PAGE = Path(__file__).parent.parent / "runtimes" / "vllm" / "pages" / "03_s2_after_preempt.txt"


def test_each_change_of_what_can_be_used_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    good = PAGE.read_text()
    page = good

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(text=page)

    def lines(words: str) -> list[str]:
        return [one.getMessage() for one in caplog.records if words in one.getMessage()]

    async def story() -> None:
        nonlocal page
        app = web.Application()
        app.router.add_get("/metrics", metrics)
        async with TestServer(app) as server:
            url = f"http://127.0.0.1:{server.port}"
            sidecar = Application(load_bytes(f"{QUICK}targets: [{{url: '{url}'}}]\n".encode(), "test"))
            await sidecar.start()

            async def once(words: str) -> bool:
                return bool(lines(words))

            try:
                await until(lambda: once("target local is up"))
                page = re.sub(
                    r"^(vllm:generation_tokens_total\{.*) \S+$", r"\1 NaN", good, flags=re.MULTILINE
                )
                await until(lambda: once("invalid: generation_tokens_total"))
                await asyncio.sleep(0.6)
                page = good
                await until(lambda: once("can be used again: generation_tokens_total"))
            finally:
                await sidecar.close()

    asyncio.run(story())
    assert len(lines("generation_tokens_total")) == 2
