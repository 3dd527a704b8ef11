"""What `check-config` and `doctor` say of the probe: what would be sent where, and how one probe goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from sidecar.app.parts import address_of, asker_of, probe_of
from sidecar.config import Config, Target
from sidecar.config.quantities import write_duration
from sidecar.pipeline import TargetPipeline
from sidecar.pipeline.diagnose import Finding, Level
from sidecar.probe import Outcome, Prober
from sidecar.probe.mends import MENDS
from sidecar.runtimes.adapter import Endpoint
from sidecar.runtimes.registry import Registry
from sidecar.snapshot import Snapshot

DAY = 86_400.0


def notes(config: Config, registry: Registry) -> Iterator[str]:
    """One sentence for each target that would be probed."""
    if config.probe.enabled and not config.targets:
        yield f"probe: each runtime that is found is asked {_often(config)}"
    for target in config.targets:
        settings = probe_of(config, target)
        if settings is None:
            continue
        where = settings.url or target.api_url or target.url
        if target.runtime in registry.names:
            adapter = registry.adapter(target.runtime)
            path = settings.path or adapter.completions
            base = address_of(target) if settings.url is None else address_of(target).at(settings.url)
            where = base.of(Endpoint("completions", path, api=True), adapter.api_ports).human_repr()
        else:
            where += settings.path or " (the runtime's own path)"
        yield f"probe of {target.name}: POST {where} {_often(config)}"


def _often(config: Config) -> str:
    probe = config.probe
    requests = DAY / probe.interval
    return (
        f"every {write_duration(probe.interval)}, at most {probe.max_tokens} tokens each: "
        f"{requests:,.0f} requests and {requests * probe.max_tokens:,.0f} tokens a day"
    )


async def findings(
    config: Config, target: Target, pipeline: TargetPipeline, snapshot: Snapshot
) -> tuple[Finding, ...]:
    """One probe now, where the config asks for probes and the target is up; nothing otherwise."""
    settings = probe_of(config, target)
    if settings is None or not snapshot.up:
        return ()
    prober = Prober(
        target.name,
        settings,
        address_of(target),
        asker_of(target),
        adapter=lambda: pipeline.adapter,
        seed=lambda gap: None,
    )
    asked = await prober.once(snapshot, asyncio.get_running_loop().time() + settings.timeout)
    if asked is None:
        return (Finding(Level.PROBLEM, "no model to probe is known", "set `targets[].probe.model`"),)
    return (_finding(*asked),)


def _finding(model: str, outcome: Outcome) -> Finding:
    if not outcome.ok:
        what = f"a probe of {model} failed ({outcome.result}): {outcome.detail}"
        return Finding(Level.PROBLEM, what, MENDS.get(outcome.result, ""))
    gaps = outcome.gaps
    pace = (
        f"{len(gaps)} gaps of {sum(gaps) / len(gaps) * 1e3:.1f} ms"
        if gaps
        else "gaps between its tokens can't be told: one event may hold several"
    )
    return Finding(Level.NOTE, f"a probe of {model}: first token after {outcome.first * 1e3:.0f} ms, {pace}")
