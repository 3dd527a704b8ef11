"""`fleet`: several sidecars as one, and KEDA's external scaler."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sidecar.commands.tell import tell
from sidecar.config import ConfigError
from sidecar.config.quantities import parse_duration, parse_share
from sidecar.fleet.discover import PORT, Dns, File, Source, Static, urls
from sidecar.fleet.role import FleetRole, FleetSettings
from sidecar.fleet.router import Router, Selector, selector
from sidecar.outputs.server import ListenError
from sidecar.targets.auth import Auth, Tls

T = TypeVar("T")

NAME = "fleet"
HELP = "add sidecars up, answer KEDA over gRPC and JSON without a Prometheus in the path"


def configure(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group("where the sidecars are, one of").add_mutually_exclusive_group(
        required=True
    )
    where.add_argument(
        "--dns", metavar="NAME", help=f"headless service of the pods, NAME or NAME:PORT (port {PORT})"
    )
    where.add_argument("--file", type=Path, metavar="FILE", help="a list in Prometheus' file_sd form")
    where.add_argument(
        "--sidecar",
        action="append",
        metavar="HOST",
        help=f"an address, HOST or HOST:PORT (port {PORT}); may be repeated",
    )
    parser.add_argument(
        "--listen", default="0.0.0.0:9845", metavar="HOST:PORT", help="own pages (%(default)s)"
    )
    parser.add_argument("--grpc-listen", metavar="HOST:PORT", help="serve KEDA's external scaler, e.g. :9846")
    parser.add_argument("--grpc-cert", type=Path, metavar="FILE", help="certificate of the scaler, PEM")
    parser.add_argument("--grpc-key", type=Path, metavar="FILE", help="its key, PEM")
    parser.add_argument("--grpc-client-ca", type=Path, metavar="FILE", help="only clients of this authority")
    parser.add_argument("--web-config", type=Path, metavar="FILE", help="TLS and users of the own pages")
    parser.add_argument(
        "--interval", type=_duration, default=5.0, metavar="TIME", help="how often a sidecar is read (5s)"
    )
    parser.add_argument(
        "--timeout", type=_duration, default=4.0, metavar="TIME", help="deadline of a reading (4s)"
    )
    parser.add_argument("--https", action="store_true", help="the sidecars speak TLS")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="authority of the sidecars' certificates")
    parser.add_argument("--server-name", default="", metavar="NAME", help="name in their certificates")
    parser.add_argument("--token", type=Path, metavar="FILE", help="bearer token towards the sidecars")
    parser.add_argument(
        "--router", metavar="URL", help="metrics page of the router: what wakes a fleet of none"
    )
    parser.add_argument(
        "--router-in-flight", type=_selector, metavar="METRIC", help="gauge, with labels or not"
    )
    parser.add_argument("--router-requests", type=_selector, metavar="METRIC", help="counter of all requests")
    parser.add_argument(
        "--target-utilisation",
        type=_share,
        default=0.9,
        metavar="SHARE",
        help="of a replica's capacity that it should carry, for the first answer from zero (90%%)",
    )


def run(options: argparse.Namespace) -> int:
    """0: told to stop. 2: the command line or a file can't be used, or an address can't be had."""
    try:
        asyncio.run(_serve(options))
    except ConfigError as error:
        tell(error)
        return 2
    except (ListenError, ValueError) as error:
        tell(f"fleet: {error}")
        return 2
    except ImportError as error:
        tell(f"fleet: {error.name} is missing: pip install 'inference-sidecar[keda]'")
        return 2
    except OSError as error:
        tell(f"fleet: {error.filename}: {error.strerror}")
        return 2
    return 0


async def _serve(options: argparse.Namespace) -> None:
    await FleetRole(settings_of(options)).run()


def settings_of(options: argparse.Namespace) -> FleetSettings:
    """Raises ValueError for what doesn't fit together."""
    if (options.grpc_cert is None) != (options.grpc_key is None):
        raise ValueError("--grpc-cert and --grpc-key belong together")
    if options.grpc_client_ca is not None and options.grpc_cert is None:
        raise ValueError("--grpc-client-ca needs --grpc-cert and --grpc-key")
    if (options.router is None) != (options.router_in_flight is None):
        raise ValueError("--router and --router-in-flight belong together")
    router = None
    if options.router is not None:
        router = Router(options.router, options.router_in_flight, options.router_requests)
    return FleetSettings(
        _source(options),
        listen=options.listen,
        grpc_listen=options.grpc_listen,
        grpc_cert=options.grpc_cert,
        grpc_key=options.grpc_key,
        grpc_client_ca=options.grpc_client_ca,
        interval=options.interval,
        timeout=min(options.timeout, options.interval),
        auth=Auth(bearer_token_file=options.token),
        tls=Tls(ca_file=options.ca, server_name=options.server_name),
        router=router,
        utilisation=options.target_utilisation,
        web_config_file=options.web_config,
    )


def _source(options: argparse.Namespace) -> Source:
    scheme = "https" if options.https else "http"
    if options.dns is not None:
        name, _, port = options.dns.partition(":")
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"--dns {options.dns}: write it like vllm-sidecars:{PORT}")
        return Dns(name, int(port or PORT), scheme)
    if options.file is not None:
        return File(options.file, scheme)
    return Static(tuple(urls(options.sidecar, scheme)))


def _duration(text: str) -> float:
    seconds = _told(parse_duration, text)
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text} isn't between 100ms and 1h")
    return seconds


def _share(text: str) -> float:
    share = _told(parse_share, text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text} isn't above 0 and at most 100%")
    return share


def _told(read: Callable[[str], T], text: str) -> T:
    """argparse shows the message of this kind of error alone."""
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _selector(text: str) -> Selector:
    return _told(selector, text)
