"""What a new replica takes over from the fleet: service time and idle gap of replicas like it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from sidecar.app.runner import TargetRunner
from sidecar.fleet.seeds import PATH, Seeds, read_seeds
from sidecar.snapshot import Publication
from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import ACCEPT_ANY, Fetcher

log = logging.getLogger(__name__)

ASK_EVERY = 5.0
ASK_WITHIN = 5.0


async def inherit(
    fleet: str, runners: Callable[[], Iterable[TargetRunner]], publication: Callable[[], Publication]
) -> None:
    """Ask the fleet for the seeds of each target's model until it has given some; a target asks once.

    The fleet may be new itself, or away: then the replica measures for itself, as it does anyhow.
    """
    given: set[TargetRunner] = set()
    async with Fetcher("fleet") as fetcher:
        while True:
            for runner in runners():
                model = _model_of(publication(), runner.config.name)
                if runner not in given and model is not None:
                    seeds = await _ask(fetcher, fleet, model)
                    if seeds != Seeds():
                        runner.signals.seed(service_time=seeds.service_time, idle_gap=seeds.idle_gap)
                        given.add(runner)
            await asyncio.sleep(ASK_EVERY)


async def _ask(fetcher: Fetcher, fleet: str, model: str) -> Seeds:
    deadline = asyncio.get_running_loop().time() + ASK_WITHIN
    try:
        page = await fetcher.get(fleet.rstrip("/") + PATH, deadline=deadline, accept=ACCEPT_ANY)
        return read_seeds(page.body, model)
    except (FetchError, ValueError) as error:
        log.debug("the fleet gives no seeds: %s", error)
        return Seeds()


def _model_of(publication: Publication, target: str) -> str | None:
    """The model of a target that serves just one; None while that isn't known."""
    for snapshot in publication.snapshots:
        if snapshot.target == target:
            series = snapshot.data.layout.by_signal.get("requests_running", ())
            models = {one.label("model_name") for one in series}
            return models.pop() if len(models) == 1 else None
    return None
