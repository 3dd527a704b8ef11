"""From the config to parts: registries, settings, stages, transports."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

from sidecar.config import Config, ConfigError, Target
from sidecar.outputs.otlp import OtlpOutput, OtlpUnavailable
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.pipeline import Settings, Stage
from sidecar.probe import Asker
from sidecar.probe import Settings as ProbeSettings
from sidecar.runtimes.mapping import Mapping, parse_mapping
from sidecar.runtimes.registry import Registry
from sidecar.signals import GapObjective, Signals
from sidecar.signals import Settings as SignalSettings
from sidecar.signals.settings import ReadGpus
from sidecar.slo.configured import objectives_of
from sidecar.slo.engine import SloEngine
from sidecar.slo.objective import objectives_from_config
from sidecar.snapshot import Publication
from sidecar.targets.auth import Auth, Tls
from sidecar.targets.fetch import Fetcher
from sidecar.targets.target import HEALTH, METRICS, READY, Address


def registry_of(config: Config) -> Registry:
    """The runtimes in force, a user's mappings in front. Raises ConfigError that leads to the entry."""
    user: dict[str, Mapping] = {}
    problems = []
    for place, entry in enumerate(config.mappings):
        try:
            mapping = parse_mapping(entry)
        except ValueError as error:
            problems.append(config.problem(("mappings", place), str(error)))
        else:
            user[mapping.runtime] = mapping
    if problems:
        raise ConfigError(problems)
    return Registry(user)


def settings_of(target: Target) -> Settings:
    return Settings(
        name=target.name,
        runtime=target.runtime,
        draining=target.draining,
        per_rank=target.per_rank,
        staleness=target.staleness,
        wedged_after=target.wedged_after,
        max_series=target.max_series,
        slots=target.capacity.slots,
    )


def address_of(target: Target) -> Address:
    paths = {METRICS: target.metrics_path, HEALTH: target.live_path, READY: target.ready_path}
    return Address(
        target.url, target.api_url, tuple((name, path) for name, path in paths.items() if path is not None)
    )


def auth_of(target: Target) -> Auth:
    basic = target.auth.basic
    token = target.auth.bearer_token_file
    return Auth(
        bearer_token_file=token.path if token is not None else None,
        username=basic.username if basic is not None else "",
        password_file=basic.password_file.path if basic is not None else None,
    )


def tls_of(target: Target) -> Tls:
    return Tls(
        ca_file=target.tls.ca_file,
        cert_file=target.tls.cert_file,
        key_file=target.tls.key_file.path if target.tls.key_file is not None else None,
        server_name=target.tls.server_name or "",
        insecure_skip_verify=target.tls.insecure_skip_verify,
    )


def fetcher_of(target: Target) -> Fetcher:
    return Fetcher(target.name, auth_of(target), tls_of(target))


def probe_of(config: Config, target: Target) -> ProbeSettings | None:
    """How a target is probed; None when it isn't."""
    common, own = config.probe, target.probe
    if not (common.enabled if own.enabled is None else own.enabled):
        return None
    settings = ProbeSettings(common.interval, common.timeout, common.max_tokens, own.url, own.path, own.model)
    return settings if own.prompt is None else replace(settings, prompt=own.prompt)


def asker_of(target: Target) -> Asker:
    return Asker(auth_of(target), tls_of(target))


def engine_of(config: Config, saved: dict[str, bytes] | None = None) -> SloEngine:
    """The judge of all objectives. Raises ConfigError where one of them makes no sense."""
    return SloEngine(objectives_of(config), saved)


def signals_of(
    config: Config,
    target: Target | None = None,
    *,
    gpus: ReadGpus | None = None,
    saved: dict[str, bytes] | None = None,
) -> Signals:
    """The derived signals of one target; `gpus` reads its GPUs' figures, `saved` is the store's content."""
    of = target if target is not None else Target()
    objectives = [one for one in objectives_from_config(config.slos) if one.covers_target(of.name)]
    settings = SignalSettings(
        target_utilisation=config.autoscaling.target_utilisation,
        drain_target=config.autoscaling.drain_target,
        gap_objectives=tuple(
            GapObjective(one.threshold, one.budget, one.models)
            for one in objectives
            if one.signal == "inter_token_latency" and one.threshold is not None
        ),
        idle_gap=of.capacity.idle_inter_token_latency,
        service_time=of.capacity.service_time,
        gpus=of.capacity.gpus,
        gpu_hour_price=config.cost.gpu_hour_price,
        currency=config.cost.currency,
    )
    return Signals(settings, gpus=gpus, saved=saved)


def stages_of(config: Config) -> list[Stage]:
    """The stages of a lone target's line, in order: its objectives, then what is derived of both."""
    signals = signals_of(config)
    return [engine_of(config), signals] if config.slos else [signals]


def otlp_of(
    config: Config,
    publication: Callable[[], Publication],
    itself: SelfMetrics,
    servers: Callable[[], dict[str, str]],
) -> OtlpOutput | None:
    """The push that the config asks for, not yet started. Raises ConfigError when it can't be had."""
    if config.outputs.otlp is None:
        return None
    instance = f"{socket.gethostname()}:{config.listen.port}"
    try:
        return OtlpOutput(config.outputs.otlp, publication, itself, servers, instance)
    except OtlpUnavailable as error:
        raise ConfigError([config.problem(("outputs", "otlp"), str(error))]) from None
