"""The page of the fleet role, in a real browser: what the load needs, who is heard, what is wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sidecar.fleet.discover import Static
from sidecar.fleet.role import FleetRole, FleetSettings
from tests.fleet.world import Sidecar, busy, several, sidecars
from tests.web import browser

TEXT = "(document.querySelector('main')?.innerText ?? '').replace(/\\s+/g, ' ')"
DECIDED = {"replica_demand_info__limit__kv_cache__reason__load": 1.0}


def role_of(two: list[Sidecar]) -> FleetRole:
    source = Static(tuple(one.address for one in two))
    return FleetRole(FleetSettings(source, listen="127.0.0.1:0", interval=0.2, timeout=0.2))


def test_a_target_that_is_not_heard_beside_one_that_is(tmp_path: Path) -> None:
    browser.program()
    body = several(up={"x": True, "y": True}, conflicts=("y",), replica_demand={"x": 1.0})

    async def story() -> None:
        async with sidecars(busy(1.0), body) as two:
            role = role_of(two)
            await role.start()
            try:
                async with browser.chromium(tmp_path) as chromium, chromium.page(role.url + "/") as page:
                    await page.until(f"{TEXT}.includes('1 of 3 replicas aren\\'t heard.')")
                    await page.evaluate("document.getElementById('sidecars').open = true")
                    await page.until(f"{TEXT}.includes('serving, 1 of 2 targets')")
                    text = str(await page.evaluate(TEXT))
                    assert (
                        "y: the address answers from several replicas in turn: give each its own target"
                        in text
                    )
                    assert text.index(two[1].address) < text.index(two[0].address), (
                        "what is wrong comes first"
                    )
                    assert page.errors == []
            finally:
                await role.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_it_tells_of_the_fleet_and_of_no_target(tmp_path: Path) -> None:
    browser.program()

    async def story() -> None:
        async with sidecars(busy(1.5, **DECIDED), busy(2.5, **DECIDED)) as two:
            role = role_of(two)
            await role.start()
            try:
                async with browser.chromium(tmp_path) as chromium, chromium.page(role.url + "/") as page:
                    await page.until(f"{TEXT}.includes('Replicas answering 2 of 2 listed')")
                    text = str(await page.evaluate(TEXT))
                    assert "Replicas needed 4 " in text
                    assert "the load, limited by KV cache" in text
                    summary = "document.getElementById('summary').textContent"
                    assert await page.evaluate(summary) == "All is well"
                    role.fleet._stale_after = 0.5
                    await two[1].stop()
                    await page.until(f"{TEXT}.includes('1 of 2 replicas aren\\'t heard (refused 1).')")
                    await page.evaluate("document.getElementById('sidecars').open = true")
                    await page.until(f"{TEXT}.includes('not heard')")
                    assert "connection refused" in str(await page.evaluate(TEXT))
                    await two[0].stop()
                    await page.until(f"{TEXT}.includes('None of 2 replicas answers')")
                    assert "unknown: nobody answers" in str(await page.evaluate(TEXT))
                    assert page.errors == []
            finally:
                await role.close()

    asyncio.run(asyncio.wait_for(story(), 60))
