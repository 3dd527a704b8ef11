"""Forms of what names a place on the network: a runtime's URL, a path on it, the address to listen on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sidecar.config.forms import Form
from sidecar.config.problem import Mistake, looks_secret

_LISTEN = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_.-]{1,253})?:([0-9]{1,5})")
_HOST = re.compile(r"[^\s/?#@\\]{1,253}")
_PATH = re.compile(r"/[!-~]*")


class Address(NamedTuple):
    """Where a listener binds; an empty host is every interface."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen(Form):
    def read(self, value: Any) -> Address:
        if isinstance(value, Address):
            return value
        found = _LISTEN.fullmatch(value) if isinstance(value, str) else None
        if found is None or int(found[2]) > 65_535:
            raise Mistake("isn't an address", "write it like 0.0.0.0:9845 or [::1]:9845")
        return Address((found[1] or "").strip("[]"), int(found[2]))

    def write(self, value: Address) -> str:
        return str(value)

    def describe(self) -> str:
        return "host:port"


@dataclass(frozen=True, slots=True, kw_only=True)
class Url(Form):
    """http or https, host, port, perhaps a path; nothing that could be a credential."""

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Mistake("isn't a URL", "write it like http://127.0.0.1:8000")
        # A password may stand before an @, a key after a ?: such a text is never repeated.
        echo = not any(mark in value for mark in "@?#")
        try:
            parts = urlsplit(value)
            port, host = parts.port, parts.hostname
        except ValueError:
            parts, port, host = None, None, None
        if parts is None or parts.scheme not in ("http", "https") or not host or port == 0:
            raise Mistake(
                "isn't a URL" if echo else "this isn't a URL",
                "write it like http://127.0.0.1:8000",
                echo=echo,
            )
        if parts.username is not None or parts.password is not None:
            raise Mistake("a URL with credentials in it", "put the credentials into auth", echo=False)
        if "?" in value or "#" in value:
            raise Mistake(
                "a URL with a query or fragment",
                "end it after the path; credentials go into auth",
                echo=False,
            )
        if not value.isascii() or not value.isprintable() or not _HOST.fullmatch(host) or " " in value:
            raise Mistake(
                "isn't a URL in plain characters", "write others as %XX, a host as xn--…", echo=echo
            )
        return value.rstrip("/")

    def describe(self) -> str:
        return "http or https URL"


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlPath(Form):
    def read(self, value: Any) -> str:
        if isinstance(value, str) and len(value) <= 2048 and _PATH.fullmatch(value) and "#" not in value:
            if looks_secret((value.partition("?")[2],)):
                raise Mistake("a path with a credential in it", "put the credentials into auth", echo=False)
            return value
        echo = not (isinstance(value, str) and ("@" in value or "?" in value))
        raise Mistake("isn't a path" if echo else "this isn't a path", "write it like /metrics", echo=echo)

    def describe(self) -> str:
        return "path"
