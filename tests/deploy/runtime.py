"""A simulated vLLM for the image's test: prints its URL and serves until it is ended."""

from __future__ import annotations

import asyncio

from sidecar.simulator.server import SimulatedVllm


async def serve() -> None:
    async with SimulatedVllm() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
