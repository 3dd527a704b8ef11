"""The page has words for everything that the code can say, read by the browser itself."""

from __future__ import annotations

import asyncio
import json
from itertools import chain
from pathlib import Path
from typing import Any, get_args

from sidecar.fleet.member import State
from sidecar.outputs.http import http_app
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import listen
from sidecar.outputs.web import problems
from sidecar.outputs.web.verdict import LIMIT_WORDS, RESOURCE_WORDS
from sidecar.schema import STARTUP_PHASES
from sidecar.signals.capacity import LIMITS, NONE
from sidecar.signals.replica_demand import DECISIONS
from sidecar.signals.saturation import RESOURCES
from sidecar.snapshot import Publication
from tests.web import browser


def asked_of_a_browser(folder: Path) -> dict[str, Any]:
    """The words of `words.js`, and `said`: what the page makes of each (limit, reason)."""
    browser.program()
    script = (
        "import('/static/words.js').then(words => ({...words, because: undefined, "
        f"said: {json.dumps(DECISIONS)}.map(([limit, reason]) => words.because(reason, limit))}}))"
    )

    async def story() -> dict[str, Any]:
        listener = await listen(http_app(lambda: Publication(0.0), SelfMetrics()), "127.0.0.1:0")
        try:
            async with browser.chromium(folder) as chromium, chromium.page(listener.url + "/") as page:
                await page.until("document.readyState === 'complete'")
                found: dict[str, Any] = await page.evaluate(script)
                return found
        finally:
            await listener.close()

    return asyncio.run(asyncio.wait_for(story(), 60))


def test_every_closed_set_has_its_words(tmp_path: Path) -> None:
    words = asked_of_a_browser(tmp_path)
    assert set(words["REASONS"]) == {reason for _, reason in DECISIONS}
    assert set(words["LIMITS"]) == {*LIMITS, NONE} == {limit for limit, _ in DECISIONS}
    assert set(words["RESOURCES"]) == set(RESOURCES) - {"max"}, "max stands for the others"
    assert set(words["PHASES"]) == set(STARTUP_PHASES)
    assert set(words["SEVERITIES"]) == {problems.BAD, problems.WARN, problems.NOTE}
    assert set(words["STATES"]) == set(get_args(State))
    assert {limit: words["LIMITS"][limit] for limit in LIMITS} == LIMIT_WORDS
    assert set(RESOURCE_WORDS) == set(RESOURCES) - {"max", "queue"}, "a queue is what a full one leads to"
    told = list(chain(words["said"], *(one.values() for name, one in words.items() if name != "said")))
    assert all(told)
    assert not [text for text in told if "undefined" in text or "_" in text]
