"""Where the sidecars are: a headless service's DNS name, a file, a fixed list."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import yaml
from yarl import URL

from sidecar.targets.resolve import Resolver

PORT = 9845
_NOBODY = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


class DiscoveryError(Exception):
    """The list can't be had now; the message says why."""


class Source(Protocol):
    """`vouched` says that who is listed is ready to serve."""

    @property
    def vouched(self) -> bool: ...

    async def addresses(self) -> list[str]:
        """URLs of sidecars, without a path. Raises DiscoveryError."""
        ...


@dataclass(frozen=True, slots=True)
class Dns:
    """Every address of a name; of a headless service these are its ready pods."""

    name: str
    port: int = PORT
    scheme: str = "http"
    timeout: float = 5.0
    vouched: bool = True

    async def addresses(self) -> list[str]:
        try:
            async with asyncio.timeout(self.timeout):
                found = await Resolver().resolve(self.name, self.port)
        except TimeoutError:
            raise DiscoveryError(f"{self.name}: no answer from DNS within {self.timeout:g} s") from None
        except socket.gaierror as error:
            if error.errno in _NOBODY:
                return []  # a headless service without ready pods has no address
            raise DiscoveryError(f"{self.name}: {error.strerror}") from None
        except (OSError, UnicodeError) as error:
            raise DiscoveryError(f"{self.name}: {type(error).__name__}") from None
        hosts = sorted({one["host"] for one in found})
        return [f"{self.scheme}://{_bracketed(host)}:{self.port}" for host in hosts]


@dataclass(frozen=True, slots=True)
class File:
    """Prometheus' file_sd form (`[{"targets": ["host:port"]}]`, JSON or YAML), read anew each time."""

    path: Path
    scheme: str = "http"
    vouched: bool = False

    async def addresses(self) -> list[str]:
        try:
            text = await asyncio.to_thread(self.path.read_text, "utf-8")
            groups = json.loads(text) if self.path.suffix == ".json" else yaml.safe_load(text)
            return urls((one for group in groups for one in _targets(group)), self.scheme)
        except (OSError, UnicodeDecodeError, ValueError, TypeError, yaml.YAMLError) as error:
            said = str(error).partition("\n")[0][:120] if isinstance(error, ValueError) else ""
            raise DiscoveryError(f"{self.path}: {said or type(error).__name__}") from None


@dataclass(frozen=True, slots=True)
class Static:
    """A list that never changes."""

    listed: tuple[str, ...]
    vouched: bool = False

    async def addresses(self) -> list[str]:
        return list(self.listed)


def urls(hosts: Iterable[str], scheme: str = "http") -> list[str]:
    """`host`, `host:port` or a URL as URLs of sidecars, each once. Raises ValueError."""
    found: dict[str, None] = {}
    for host in hosts:
        text = host if "://" in host else f"{scheme}://{host}"
        url = URL(text)
        if url.scheme not in ("http", "https") or not url.host or url.user or url.query_string:
            raise ValueError(f"{host[:80]!r} is no sidecar: write it like 10.0.0.7:{PORT}")
        if url.explicit_port is None:
            url = url.with_port(PORT)
        found[str(url.origin())] = None
    return list(found)


def _targets(group: Any) -> list[str]:
    if not isinstance(group, dict) or not isinstance(group.get("targets"), list):
        raise ValueError('a group is written like {"targets": ["10.0.0.7:9845"]}')
    return [str(one) for one in group["targets"]]


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
