"""The whole config, as a user may write it; every key with its default, form and meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import PrivateAttr, model_validator

from sidecar.config.addresses import Address, Listen, Url
from sidecar.config.forms import Choice, FilePath, Flag, Word, Words
from sidecar.config.numbers import Count, Duration, Number, Share
from sidecar.config.problem import KeyPath, Mark, Origins, Problem
from sidecar.config.secret import Secret, SecretFile
from sidecar.config.section import Section
from sidecar.config.slos import Slo
from sidecar.config.targets import (
    DEVICE,
    INHERITED,
    STALENESS,
    Auth,
    Interval,
    MaxPageSize,
    MaxSeries,
    Target,
    Timeout,
    Tls,
    WedgedAfter,
)

_FAMILY = Word(pattern=r"gpu_[a-z0-9_]{1,60}", what="the name of a GPU family", like="gpu_pipe_active_ratio")


class Gpu(Section):
    source: Annotated[
        Literal["auto", "nvml", "dcgm", "amd", "intel", "none"],
        Choice(),
        "`auto` is NVML where it answers, else the page at `url`; `none` never touches a driver.",
    ] = "auto"
    url: Annotated[
        str | None,
        Url(optional="auto"),
        "Page of the GPU exporter (dcgm-exporter, AMD device-metrics-exporter, Intel xpumd).",
    ] = None
    interval: Annotated[float, Duration(low=0.5, high=3600), "How often GPUs are read."] = 10.0
    timeout: Annotated[
        float, Duration(low=0.1, high=300), "Deadline of one reading; a stuck driver is left behind."
    ] = 5.0
    devices: Annotated[
        tuple[str, ...] | Literal["auto", "all", "env"],
        Words(each=DEVICE, many="GPU UUIDs", instead=("auto", "all", "env")),
        "GPUs joined with the target: those that are surely its own, all, the environment's, or these.",
    ] = "auto"
    optional: Annotated[
        tuple[str, ...],
        Words(each=_FAMILY, many="GPU families"),
        "Families that are off by default and wanted here.",
    ] = ()
    pod_resources_socket: Annotated[
        Path | None,
        FilePath(optional="null"),
        "Socket of the kubelet, in node mode: which pod has which GPU.",
    ] = None
    exit_on_loss: Annotated[
        float | None,
        Duration(low=1, high=86_400, optional="null"),
        "End with code 3 once a GPU that NVML showed is lost, or NVML silent, for so long: to be restarted.",
    ] = None


class Autoscaling(Section):
    target_utilisation: Annotated[
        float, Share(above=True), "Share of its capacity that a replica should carry."
    ] = 0.9
    drain_target: Annotated[
        float, Duration(low=1, high=3600), "Time in which a queue should be worked off."
    ] = 30.0
    fleet: Annotated[
        str | None,
        Url(optional="null"),
        "Address of the fleet role: a new replica takes over what others like it have shown.",
    ] = None


class Cost(Section):
    gpu_hour_price: Annotated[
        float | None,
        Number(low=0, high=1_000_000, optional="null"),
        "Price of one GPU for one hour; without it, no cost.",
    ] = None
    currency: Annotated[
        str, Word(pattern=r"[A-Z]{3}", what="a currency's code", like="USD"), "Value of the label `currency`."
    ] = "USD"


class Probe(Section):
    enabled: Annotated[bool, Flag(), "Send real completions, timed on the client."] = False
    interval: Annotated[
        float, Duration(low=1, high=86_400), "How often a target is asked, one model at a time."
    ] = 60.0
    timeout: Annotated[float, Duration(low=0.1, high=3600), "Deadline of one completion."] = 30.0
    max_tokens: Annotated[
        int,
        Count(low=1, high=4096),
        "Longest answer; up to three first ones of an idle engine have 24, to know its idle gap.",
    ] = 8


class Otlp(Section):
    endpoint: Annotated[str, Url(), "Address of the collector."] = "http://127.0.0.1:4318"
    protocol: Annotated[Literal["http", "grpc"], Choice(), "HTTP with protobuf, or gRPC."] = "http"
    interval: Annotated[float, Duration(low=1, high=3600), "How often metrics are pushed."] = 15.0
    timeout: Annotated[float, Duration(low=0.1, high=300), "Deadline of one push."] = 10.0
    headers_file: Annotated[
        SecretFile | None, Secret(optional="null"), "File with one header a line, `Name: value`."
    ] = None
    auth: Annotated[Auth, "Credentials towards the collector."] = Auth()
    tls: Annotated[Tls, "TLS towards the collector."] = Tls()


class Outputs(Section):
    otlp: Annotated[Otlp | None, "Push over OTLP; off while the key isn't there."] = None


class Config(Section):
    """What is in force. Made by `load`; `locate` and `problem` lead back to where a key was written."""

    listen: Annotated[Address, Listen(), "Address of the sidecar's own pages."] = Address("0.0.0.0", 9845)
    interval: Interval = 2.0
    timeout: Timeout = 2.0
    staleness: Annotated[
        float | None,
        replace(STALENESS, optional="auto"),
        "Age at which a target's values vanish; `auto` is three intervals, at least 10 s.",
    ] = None
    wedged_after: WedgedAfter = 60.0
    max_page_size: MaxPageSize = 32 * 1024**2
    max_series: MaxSeries = 2000
    targets: Annotated[
        tuple[Target, ...], "What is read; empty: look for runtimes on localhost, at the usual ports."
    ] = ()
    gpu: Annotated[Gpu, "The GPUs."] = Gpu()
    slos: Annotated[tuple[Slo, ...], "Objectives."] = ()
    autoscaling: Annotated[Autoscaling, "What the demand for replicas aims at."] = Autoscaling()
    cost: Annotated[Cost, "What a GPU costs."] = Cost()
    probe: Annotated[Probe, "Completions of the sidecar's own, as a client would ask for them."] = Probe()
    outputs: Annotated[Outputs, "Where values are pushed to; `/metrics` is always served."] = Outputs()
    mappings: Annotated[
        tuple[dict[str, Any], ...],
        "Own runtimes, or rules in front of a known one's, in the form of a runtime's mapping file.",
    ] = ()
    state_file: Annotated[
        Path | None, FilePath(optional="null"), "SQLite file in which windows survive a restart."
    ] = None
    web_config_file: Annotated[
        Path | None,
        FilePath(optional="null"),
        "TLS and users of the own pages, in the exporter-toolkit's form.",
    ] = None

    _origins: Origins = PrivateAttr(default_factory=lambda: Origins("defaults"))

    @model_validator(mode="after")
    def _hand_down(self) -> Self:
        self.__dict__["targets"] = tuple(self._inheriting(target) for target in self.targets)
        return self

    def _inheriting(self, target: Target) -> Target:
        own = target.model_fields_set
        given = {key: getattr(self, key) for key in INHERITED if key not in own}
        if "staleness" in given and given["staleness"] is None:
            given["staleness"] = max(10.0, 3 * given.get("interval", target.interval))
        return target.model_copy(update=given) if given else target

    def with_targets(self, targets: Iterable[Target]) -> Config:
        """This config for other targets, those that were found; they inherit as if written in it."""
        return self.model_copy(update={"targets": tuple(self._inheriting(target) for target in targets)})

    def locate(self, path: KeyPath) -> Mark:
        """File, line and column of a key, or of the nearest one around it that was written."""
        return self._origins.locate(path)

    def problem(self, path: KeyPath, message: str, mend: str = "") -> Problem:
        """A problem with a key, for rooms that know more about it than its form."""
        return self._origins.problem(path, message, mend)

    def __eq__(self, other: object) -> bool:
        """Where a config was written says nothing of what it says."""
        return isinstance(other, Config) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]
