"""The edge of the probe: one request on a connection of its own, bounded in time and in size."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import aiohttp
from yarl import URL

from sidecar import __version__
from sidecar.probe.request import Question
from sidecar.probe.stream import Answer, Outcome, ProbeError
from sidecar.targets.auth import Auth, Credentials, Tls, TlsContext
from sidecar.targets.failure import FetchError, failure_of, one_line, where
from sidecar.targets.resolve import Resolver

_HEADERS = {
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": f"inference-sidecar/{__version__} (probe)",
}
_BAD_REQUEST = frozenset({400, 405, 413, 415, 422})
_REJECTED = frozenset({429, 503, 529})


class Asker:
    """Asks with a target's own credentials and TLS settings. Nothing secret is in what it says."""

    def __init__(self, auth: Auth | None = None, tls: Tls | None = None) -> None:
        settings = tls or Tls()
        self._credentials = Credentials(auth or Auth())
        self._tls = TlsContext(settings)
        self._server_name = settings.server_name or None

    async def ask(self, question: Question, deadline: float) -> Outcome:
        """The outcome, whatever happens. `deadline` is a moment of the event loop's clock.

        The clock starts when the request goes out, with the connection made: a new one each time, so that no
        probe measures another one's keep-alive.
        """
        answer = Answer(question)
        error: ProbeError | FetchError
        try:
            async with asyncio.timeout_at(deadline):
                sent = await self._exchange(question, answer)
            return answer.outcome(sent)
        except TimeoutError:
            stage = f"{answer.generated} tokens came" if answer.generated else "no token came"
            error = ProbeError("timeout", f"{where(question.url)}: {stage} in time")
        except (ProbeError, FetchError) as failure:
            error = failure
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            error = failure_of(failure, question.url)
            if answer.generated and error.result == "http_error":
                error = ProbeError("cut", "the connection broke in the middle of the answer")
        return Outcome(error.result, error.detail, generated=answer.generated, prompt=answer.prompt)

    async def _exchange(self, question: Question, answer: Answer) -> float:
        """Send, and read until the answer is complete. Returns when the request went out."""
        url, clock = question.url, asyncio.get_running_loop().time
        sent = clock()

        async def stamp(session: aiohttp.ClientSession, context: SimpleNamespace, params: Any) -> None:
            nonlocal sent
            sent = clock()

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(stamp)
        headers = {"Authorization": header} if (header := self._credentials.header()) else {}
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True, resolver=Resolver()),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=None, sock_read=None),
                auto_decompress=False,
                headers=_HEADERS,
                trace_configs=[trace],
            ) as session,
            session.post(
                url,
                data=question.body,
                headers=headers,
                allow_redirects=False,
                ssl=self._tls.context() if url.scheme == "https" else True,
                server_hostname=self._server_name,
            ) as reply,
        ):
            if reply.status != 200:
                raise _refusal(reply.status, url, bool(headers), reply.content_type == _HEADERS["Accept"])
            while data := await reply.content.readany():
                if answer.feed(data, clock()):
                    break
        return sent


def _refusal(status: int, url: URL, with_credentials: bool, in_stream: bool) -> ProbeError:
    """What a status says. The body isn't read: it may repeat what was sent.

    Triton gives a model's error 400 as well, when it comes before the first token; but in an event (`in_stream`).
    """
    if status in (401, 403):
        mend = "the credentials were refused" if with_credentials else "set auth for this target"
        return ProbeError("unauthorized", f"HTTP {status}: {mend}")
    if status == 404:
        return ProbeError("not_found", f"HTTP 404 for {one_line(url.path)}: another path or model?")
    if status in _BAD_REQUEST and in_stream:
        return ProbeError("failed", f"HTTP {status}, in a stream: the model answered with an error")
    if status in _BAD_REQUEST:
        return ProbeError("bad_request", f"HTTP {status}: the runtime doesn't take the request")
    if status in _REJECTED:
        return ProbeError("rejected", f"HTTP {status}: the runtime takes no more requests")
    redirect = " (a redirect, never followed)" if status in (301, 302, 303, 307, 308) else ""
    return ProbeError("http_error", f"HTTP {status}{redirect}")
