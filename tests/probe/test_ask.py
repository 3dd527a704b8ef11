"""One request against real sockets: good answers, bad ones, none at all; no secret is in what is said of them."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path

import pytest
import trustme
from yarl import URL

from sidecar.probe.ask import Asker
from sidecar.probe.request import PROMPT, Question, question
from sidecar.probe.stream import Outcome
from sidecar.simulator.server import SimulatedVllm
from sidecar.targets.auth import Auth, Tls
from tests.probe.conftest import DONE, HEAD, Script, event, paced, refusal, serve_script, token, usage

GOOD = HEAD + token() * 3 + token(end="length") + usage(4) + DONE
SECRET = "s3cr3t-t0k3n"


def asked(url: str, tokens: int = 4, path: str = "/v1/completions") -> Question:
    return question(URL(url + path), "sim/llama-8b", tokens, "0123456789abcdef")


def ask(
    script: Script | bytes,
    *,
    within: float = 5.0,
    asker: Asker | None = None,
    tls: ssl.SSLContext | None = None,
    path: str = "/v1/completions",
) -> Outcome:
    async def story() -> Outcome:
        async with serve_script(script, tls=tls) as server:
            deadline = asyncio.get_running_loop().time() + within
            return await (asker or Asker()).ask(asked(server.url, path=path), deadline)

    return asyncio.run(story())


def test_the_simulators_engine_is_timed_as_it_is() -> None:
    """Prefill and decode of the simulated engine are exact: the client sees them a little later."""

    async def story() -> tuple[Outcome, float, float]:
        async with SimulatedVllm() as server:
            deadline = asyncio.get_running_loop().time() + 20
            found = await Asker().ask(asked(server.url, tokens=16), deadline)
            seen = server.replica.ranks[0]
            return found, seen.time_to_first_token.total, seen.inter_token.total

    found, first, gaps = asyncio.run(story())
    assert found.ok and found.generated == 16
    assert found.first > first * 0.99
    if found.gaps:  # a loaded machine reads several at a time
        assert len(found.gaps) == 15
        assert sum(found.gaps) == pytest.approx(gaps, rel=0.2)


def test_the_clock_starts_when_the_request_goes_out() -> None:
    found = ask(paced(b"", HEAD, token(), token(), token(), token(end="length"), usage(4) + DONE, every=0.1))
    assert found.first >= 0.19
    assert len(found.gaps) == 3 and sum(found.gaps) >= 0.25


def test_tokens_that_come_in_one_piece_have_no_gaps() -> None:
    found = ask(paced(HEAD, token() * 2, token() + token(end="length") + usage(4) + DONE))
    assert (found.ok, found.generated, found.gaps) == (True, 4, ())


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (GOOD, "ok"),
        (HEAD + DONE, "empty"),
        (HEAD, "empty"),
        (HEAD + token() * 2, "cut"),
        (HEAD + token() + b"data: {not json}\n\n", "not_a_stream"),
        (HEAD + b"<html>hello</html>", "not_a_stream"),
        (HEAD + token() + event({"error": {"message": SECRET}}), "failed"),
        (HEAD + b"data: " + b"x" * 100_000, "too_large"),
        (HEAD + b"\n" * 1_100_000, "too_large"),
        (HEAD + token() * 500, "too_large"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + token(), "cut"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", "http_error"),
        (b"\x00\x01\x02 no http at all\r\n\r\n", "http_error"),
        (b"", "http_error"),
        (refusal("401 Unauthorized"), "unauthorized"),
        (refusal("403 Forbidden"), "unauthorized"),
        (refusal("404 Not Found"), "not_found"),
        (refusal("400 Bad Request"), "bad_request"),
        (refusal("422 Unprocessable Entity"), "bad_request"),
        (refusal("400 Bad Request", "Content-Type: application/json"), "bad_request"),
        (refusal("400 Bad Request", "Content-Type: text/event-stream; charset=utf-8"), "failed"),
        (refusal("503 Service Unavailable", "Content-Type: text/event-stream"), "rejected"),
        (refusal("429 Too Many Requests"), "rejected"),
        (refusal("503 Service Unavailable"), "rejected"),
        (refusal("500 Internal Server Error"), "http_error"),
        (refusal("204 No Content"), "http_error"),
    ],
    ids=lambda one: one if isinstance(one, str) else None,
)
def test_each_answer_has_its_result(answer: bytes, result: str) -> None:
    found = ask(answer)
    assert found.result == result
    assert SECRET not in found.detail
    assert bool(found.detail) is not found.ok


def test_an_answer_that_hangs_ends_at_its_deadline_and_what_came_is_counted() -> None:
    async def hang(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + token() * 2)
        await asyncio.sleep(60)

    found = ask(hang, within=0.3)
    assert (found.result, found.generated) == ("timeout", 2)


def test_a_server_that_says_nothing_ends_at_the_deadline() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    assert ask(silent, within=0.2).result == "timeout"


def test_a_stream_without_end_is_cut() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while True:
            writer.write(token())
            await writer.drain()

    assert ask(endless).result == "too_large"


def test_what_drips_is_read_as_it_drips() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        for byte in GOOD:
            writer.write(bytes([byte]))
            await writer.drain()

    found = ask(drip)
    assert found.ok and found.generated == 4


def test_nobody_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"

        async def story() -> Outcome:
            return await Asker().ask(asked(url), asyncio.get_running_loop().time() + 5)

        assert asyncio.run(story()).result == "refused"


def test_a_redirect_is_never_followed(tmp_path: Path) -> None:
    """Not even to the same host: a request with credentials and a body goes where the config says."""
    (tmp_path / "token").write_text(SECRET)

    async def story() -> tuple[Outcome, list[str], list[str]]:
        async with serve_script(GOOD) as other:
            location = f"Location: {other.url}/v1/completions"
            async with serve_script(refusal("307 Temporary Redirect", location)) as server:
                asker = Asker(Auth(bearer_token_file=tmp_path / "token"))
                deadline = asyncio.get_running_loop().time() + 5
                return await asker.ask(asked(server.url), deadline), server.heads, other.heads

    found, asked_here, asked_there = asyncio.run(story())
    assert found.result == "http_error" and "redirect" in found.detail
    assert f"Authorization: Bearer {SECRET}" in asked_here[0]
    assert asked_there == []


def test_credentials_go_along_and_stand_in_no_detail(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(SECRET)
    asker = Asker(Auth(username="probe", password_file=tmp_path / "password"))
    found = ask(refusal("401 Unauthorized"), asker=asker)
    assert found.result == "unauthorized" and "were refused" in found.detail
    assert SECRET not in found.detail
    (tmp_path / "password").unlink()
    gone = ask(GOOD, asker=asker)
    assert gone.result == "unauthorized" and SECRET not in gone.detail
    assert ask(refusal("401 Unauthorized")).detail.endswith("set auth for this target")


def test_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusting = Asker(tls=Tls(ca_file=tmp_path / "ca.pem"))
    assert ask(GOOD, asker=trusting, tls=context).ok
    assert ask(GOOD, tls=context).result == "tls"
    assert ask(GOOD, asker=Asker(tls=Tls(insecure_skip_verify=True)), tls=context).ok
    assert ask(GOOD, asker=Asker(tls=Tls(ca_file=tmp_path / "none.pem")), tls=context).result == "tls"


def test_triton_is_asked_in_its_own_words() -> None:
    stream = paced(HEAD, *(event({"text_output": text}) for text in "abcd"))

    async def story() -> tuple[Outcome, dict[str, object]]:
        async with serve_script(stream) as server:
            path = "/v2/models/ensemble/generate_stream"
            deadline = asyncio.get_running_loop().time() + 5
            return await Asker().ask(asked(server.url, path=path), deadline), server.bodies[0]

    found, body = asyncio.run(story())
    assert found.ok and len(found.gaps) == 3
    assert set(body) == {"text_input", "max_tokens", "stream", "top_k"}


def test_a_model_that_has_other_names_for_it_is_asked_by_them() -> None:
    url = URL("http://127.0.0.1/v2/models/tensorrt_llm/generate_stream")
    body = json.loads(question(url, "tensorrt_llm", 5, "0123", names={"max_tokens": "most"}).body)
    assert body == {"text_input": f"0123 {PROMPT}", "most": 5, "stream": True, "top_k": 1}
