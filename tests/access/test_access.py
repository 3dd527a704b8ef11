"""Own listeners with web.yml: no path answers without the credential that was asked for, and none leaks."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import bcrypt
import pytest
import trustme
import yaml

from sidecar.app import Application
from sidecar.config import ConfigError, load_bytes
from sidecar.outputs import access as access_module
from sidecar.outputs.access import Access
from sidecar.outputs.web_config import read_web_config

PASSWORD, TOKEN = "open-sesame-4711", "tok-5ecret-0815"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
HASH_2Y = "$2y$" + HASH[4:]  # as htpasswd writes it

Visit = Callable[[Application, aiohttp.ClientSession], Awaitable[None]]


def write(path: Path, document: object) -> Path:
    path.write_text(yaml.safe_dump(document))
    os.utime(path, (1e9 + path.stat().st_size, 1e9 + path.stat().st_size))  # settled long ago
    return path


def serve(web: Path, visit: Visit) -> None:
    async def story() -> None:
        config = f"listen: 127.0.0.1:0\ntargets: [{{url: 'http://127.0.0.1:9'}}]\nweb_config_file: {web}\n"
        app = Application(load_bytes(config.encode(), "test"))
        await app.start()
        try:
            async with aiohttp.ClientSession() as session:
                await visit(app, session)
        finally:
            await app.close()

    asyncio.run(story())


def login(user: str, password: str) -> dict[str, dict[str, str]]:
    return {"headers": {"Authorization": aiohttp.encode_basic_auth(user, password)}}


async def status(session: aiohttp.ClientSession, url: str, **more: object) -> int:
    async with session.get(url, **more) as answer:  # type: ignore[arg-type]
        return answer.status


def paths(app: Application) -> list[str]:
    assert app.listener is not None
    routes = app.listener._runner.app.router.routes()
    known = {
        one.resource.canonical.replace("{name}", "requests_running")
        for one in routes
        if one.resource is not None
    }
    return [*sorted(known), "/nothing/here", "/metrics/", "//metrics", "/v1/../metrics", "/%6detrics"]


def users_file(tmp_path: Path, **more: object) -> Path:
    (tmp_path / "token").write_text(TOKEN + "\n")
    return write(
        tmp_path / "web.yml",
        {"basic_auth_users": {"prom": HASH_2Y}, "bearer_token_files": ["token"], **more},
    )


def test_no_path_answers_without_the_credential(tmp_path: Path) -> None:
    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        asked = paths(app)
        assert {"/", "/metrics", "/healthz", "/readyz", "/v1/signals"} <= set(asked)
        wrong = [
            {},
            login("prom", "wrong"),
            login("prom", ""),
            login("nobody", PASSWORD),
            login("", PASSWORD),
            *({"headers": {"Authorization": value}} for value in WRONG_HEADERS),
        ]
        for path in asked:
            for method in ("GET", "HEAD", "POST", "OPTIONS"):
                async with session.request(method, app.url + path) as answer:
                    assert answer.status == 401, (method, path)
                    assert "inference" not in await answer.text()
        for credentials in wrong:
            async with session.get(app.url + "/metrics", **credentials) as answer:  # type: ignore[arg-type]
                assert answer.status == 401, credentials
                schemes = [one.split()[0] for one in answer.headers.getall("WWW-Authenticate")]
                assert schemes == ["Basic", "Bearer"]
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
        right = [
            login("prom", PASSWORD),
            {"headers": {"Authorization": f"Bearer {TOKEN}"}},
            {"headers": {"authorization": f"bearer  {TOKEN} "}},
        ]
        for credentials in right:
            for path in ("/metrics", "/v1/signals", "/healthz"):
                assert await status(session, app.url + path, **credentials) == 200, (path, credentials)
            assert await status(session, app.url + "/nothing", **credentials) == 404

    serve(users_file(tmp_path), visit)


WRONG_HEADERS = (
    "",
    "Basic",
    "Basic !!!",
    "Basic cHJvbQ==",
    "Basic /w==",
    "Bearer",
    "Bearer ",
    f"Bearer {TOKEN}x",
    f"Bearer {TOKEN[:-1]}",
    f"Token {TOKEN}",
    TOKEN,
    f"Basic {TOKEN}",
)


def test_excluded_paths_are_exactly_these(tmp_path: Path) -> None:
    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        open_ones = [path for path in paths(app) if await status(session, app.url + path) != 401]
        assert open_ones == ["/healthz"]

    serve(users_file(tmp_path, auth_excluded_paths=["/healthz"]), visit)


def test_a_scrape_costs_one_hash_in_its_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = []
    real = access_module._matches
    monkeypatch.setattr(access_module, "_matches", lambda *both: computed.append(both) or real(*both))

    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        for password, expected in ((PASSWORD, 200), ("old", 401)):
            known = login("prom", password)
            asked = await asyncio.gather(*(status(session, app.url + "/metrics", **known) for _ in range(3)))
            assert set(asked) == {expected}
            before = len(computed)
            for _ in range(20):
                assert await status(session, app.url + "/metrics", **known) == expected
            assert len(computed) == before
        flood = (login("prom", str(guess)) for guess in range(40))
        asked = await asyncio.gather(*(status(session, app.url + "/", **one) for one in flood))
        assert set(asked) <= {401, 503}
        known = login("prom", PASSWORD)
        assert await status(session, app.url + "/metrics", **known) == 200

    serve(users_file(tmp_path), visit)


def test_users_tokens_and_paths_change_while_it_runs(tmp_path: Path) -> None:
    web = users_file(tmp_path)
    new = bcrypt.hashpw(b"new", bcrypt.gensalt(4)).decode()

    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        async def asks(password: str) -> int:
            return await status(session, app.url + "/metrics", **login("prom", password))

        async def bears(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return await status(session, app.url + "/metrics", headers=headers)

        assert (await asks(PASSWORD), await asks("new"), await bears(TOKEN)) == (200, 401, 200)
        (tmp_path / "token").write_text("fresh-one\n")
        assert (await bears(TOKEN), await bears("fresh-one")) == (401, 200)
        (tmp_path / "token").unlink()
        assert (await bears(TOKEN), await bears("fresh-one"), await bears("")) == (401, 401, 401)
        for bad in ("", "{", "basic_auth_users: [prom]\n", "users: {}\n"):
            web.write_text(bad)
            os.utime(web, (1e9, 1e9))
            assert (await asks(PASSWORD), await status(session, app.url + "/")) == (200, 401)
        write(web, {"basic_auth_users": {"prom": new}})
        assert (await asks(PASSWORD), await asks("new")) == (401, 200)
        web.write_text("{}\n")  # just now: perhaps half written
        assert await status(session, app.url + "/metrics") == 401

    serve(web, visit)


def test_limits_and_headers(tmp_path: Path) -> None:
    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        asked = [await status(session, app.url + "/healthz") for _ in range(6)]
        assert asked == [200] * 4 + [429] * 2
        async with session.get(app.url + "/metrics") as answer:
            assert answer.headers["Strict-Transport-Security"] == "max-age=60"
            assert answer.headers["Content-Security-Policy"] == "default-src 'self'"

    serve(
        write(
            tmp_path / "web.yml",
            {
                "rate_limit": {"interval": "1h", "burst": 4},
                "http_server_config": {
                    "headers": {
                        "Strict-Transport-Security": "max-age=60",
                        "Content-Security-Policy": "default-src 'self'",
                    }
                },
            },
        ),
        visit,
    )


class Certificates:
    """An authority, the listener's files and a client's."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.cert, self.key, self.ca = folder / "tls.crt", folder / "tls.key", folder / "ca.crt"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.issue()

    def issue(self) -> None:
        issued = self.authority.issue_cert("127.0.0.1", "localhost")
        issued.cert_chain_pems[0].write_to_path(str(self.cert))
        issued.private_key_pem.write_to_path(str(self.key))

    def client(self, name: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        if name:
            self.authority.issue_cert(name).configure_cert(context)
        return context


def test_tls_and_a_certificate_that_is_renewed(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    web = write(tmp_path / "web.yml", {"tls_server_config": {"cert_file": "tls.crt", "key_file": "tls.key"}})

    async def serial(app: Application, name: str | None) -> int:
        assert app.listener is not None
        _, writer = await asyncio.open_connection(
            "127.0.0.1", app.listener.port, ssl=files.client(), server_hostname=name or "127.0.0.1"
        )
        certificate = writer.get_extra_info("peercert")
        writer.close()
        return int(certificate["serialNumber"], 16)

    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        assert app.url.startswith("https://")
        assert await status(session, app.url + "/healthz", ssl=files.client()) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status(session, app.url + "/healthz")
        with pytest.raises((aiohttp.ClientError, asyncio.TimeoutError)):
            await status(session, app.url.replace("https", "http") + "/metrics")
        old = files.client()
        with pytest.deprecated_call():
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(aiohttp.ClientError):
            await status(session, app.url + "/healthz", ssl=old)
        seen = [await serial(app, "localhost"), await serial(app, None)]
        files.issue()
        seen += [await serial(app, None), await serial(app, "localhost")]
        files.key.write_text("torn")
        seen += [await serial(app, None)]
        assert seen[0] == seen[1] != seen[2] == seen[3] == seen[4]

    serve(web, visit)


def test_client_certificates(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    tls = {
        "cert_file": "tls.crt",
        "key_file": "tls.key",
        "client_auth_type": "RequireAndVerifyClientCert",
        "client_ca_file": "ca.crt",
        "client_allowed_sans": ["prometheus.example"],
    }

    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        stranger = files.client()
        trustme.CA().issue_cert("prometheus.example").configure_cert(stranger)
        for context in (files.client(), stranger):
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await status(session, app.url + "/metrics", ssl=context)
        for path in paths(app):
            assert await status(session, app.url + path, ssl=files.client("grafana.example")) == 403
        assert await status(session, app.url + "/metrics", ssl=files.client("prometheus.example")) == 200

    serve(write(tmp_path / "web.yml", {"tls_server_config": tls}), visit)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file is empty"),
        ("basic_auth_user: {}", "did you mean basic_auth_users?"),
        (f"basic_auth_users: {{prom: {PASSWORD}}}", "isn't a bcrypt hash"),
        ("basic_auth_users: {prom: [1]}", "isn't a bcrypt hash"),
        ("tls_server_config: {cert_file: a}", "key_file: required"),
        ("tls_server_config: {cert_file: a, key: 'BEGIN'}", "write key_file"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}", "min_version"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: TLS13, max_version: TLS12}", "below"),
        ("tls_server_config: {cert_file: a, key_file: b, cipher_suites: []}", "OpenSSL's own"),
        ("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequestClientCert}", "verifies"),
        (
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: VerifyClientCertIfGiven}",
            "client_ca_file: required",
        ),
        ("tls_server_config: {cert_file: a, key_file: b, client_allowed_sans: [c]}", "RequireAndVerify"),
        ("bearer_token_files: token", "isn't a list"),
        ("auth_excluded_paths: [healthz]", "write it like /healthz"),
        ("http_server_config: {headers: {Server: x}}", "unknown key"),
        ("rate_limit: {interval: fast, burst: 0}", "rate_limit.interval"),
        ("!!python/object/apply:os.system ['true']", "tags aren't accepted"),
    ],
)
def test_what_cannot_be_used_is_said_and_no_secret_with_it(text: str, said: str, tmp_path: Path) -> None:
    web = tmp_path / "web.yml"
    web.write_text(text)
    with pytest.raises(ConfigError) as caught:
        Access(web)
    # wrapped at the line's end
    assert " ".join(said.split()) in " ".join(str(caught.value).split())
    assert PASSWORD not in str(caught.value)


def test_files_that_are_not_there_or_do_not_fit(tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    web = write(tmp_path / "web.yml", {"tls_server_config": {"cert_file": "tls.crt", "key_file": "ca.crt"}})
    with pytest.raises(ConfigError, match="certificate can't be used"):
        Access(web)
    files.cert.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        Access(web)
    with pytest.raises(ConfigError, match="No such file"):
        read_web_config(tmp_path / "gone.yml")


def test_secrets_are_in_no_log_no_page_and_no_process_list(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    web = users_file(tmp_path)
    caplog.set_level(logging.DEBUG)

    async def visit(app: Application, session: aiohttp.ClientSession) -> None:
        pages = []
        known = login("prom", PASSWORD)
        for path in ("/", "/metrics", "/v1/signals", "/nothing"):
            for more in (known, {"headers": {"Authorization": f"Bearer {TOKEN}"}}, {}):
                async with session.get(app.url + path, **more) as answer:  # type: ignore[arg-type]
                    pages.append(await answer.text() + str(answer.headers))
        web.write_text(f"basic_auth_users: {{prom: '{PASSWORD}'}}")
        os.utime(web, (1e9, 1e9))
        assert await status(session, app.url + "/metrics", **known) == 200
        told = "".join(pages) + caplog.text + repr(vars(app)) + repr(app.config) + str(sys.argv)
        assert "isn't a bcrypt hash" in caplog.text
        for secret in (PASSWORD, TOKEN, HASH[7:]):
            assert secret not in told

    serve(web, visit)


def test_the_command_refuses_to_run_without_the_lock_that_was_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("listen: 127.0.0.1:0\nweb_config_file: web.yml\n")
    (tmp_path / "web.yml").write_text(f"basic_auth_users: {{prom: {PASSWORD}}}\n")
    command = [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "web.yml:1" in done.stderr and PASSWORD not in done.stderr
    command = [sys.executable, "-m", "sidecar.cli", "check-config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "web.yml:1" in done.stderr and PASSWORD not in done.stderr
