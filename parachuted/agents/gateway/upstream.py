"""The model's server: sends requests with the credential, and retries until an answer begins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

import aiohttp

from parachuted.agents.gateway.login import Login, headers_up, read_windows
from parachuted.agents.gateway.retry import (
    Breaker,
    asked_wait_s,
    has_no_content,
    problem_of,
    read_refusal,
    wait_before_retry,
)
from parachuted.errors import AgentUnavailableError
from parachuted.redact import redact

_ANTHROPIC = "api.anthropic.com"
_ANTHROPICS = "anthropic.com"
_CONNECT_S = 10.0
_MOST_WINDOWS = 20
_SILENCE_S = 600.0
_IDLE_S = 60.0
_AUTHORITIES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_READ_AHEAD = 1 << 15
_LARGE = 1 << 20  # aiohttp sends more than that piece by piece, if it may
_LOGIN_S = 30.0
_OWN_NETWORK = (".local", ".lan", ".internal", ".home.arpa", ".localhost")
_BAD = 400
_FAULTS = 500
_REFUSED = 401
_LARGEST_ERROR = 64 << 10
_LONGEST_BEGINNING_S = 20.0  # an agent that hears nothing for minutes gives up
_ASKS_TO_WAIT = frozenset({429, 503, 529})
_LONGEST_PAUSE_S = 86_400.0
_REDIRECTS = range(300, 400)
_UNPAID = frozenset(range(300, 500)) - {408, 499} | {
    500,
    501,
    503,
    529,
}  # others may come from a proxy, after the model has answered it
_REASON_CHARS = 300

UpstreamReport = Callable[[str, str | None], None]


class AttemptListener(Protocol):
    """Is called each time a request is sent, since each attempt may cost money."""

    async def attempt(self) -> None:
        """It is about to be sent. What this raises, keeps it from being sent."""

    def refused(self) -> None:
        """The attempt did not reach the model."""


class FreeAttempts:
    """Attempts of a request that costs nothing."""

    async def attempt(self) -> None: ...

    def refused(self) -> None: ...


class UpstreamError(Exception):
    """No answer is available.

    `status` and `kind` are what the agent gets, in the API's terms; `wait_s` is how long to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 502,
        kind: str = "api_error",
        wait_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.wait_s = status, kind, wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamResponse:
    """An answer of which the first piece is here; b"" is an empty one.

    Of an error, which `status` tells, that is all of it.
    """

    raw: aiohttp.ClientResponse
    first: bytes
    status: int


class Upstream:
    """The way there. `base_url` None is Anthropic."""

    def __init__(
        self,
        *,
        base_url: str | None,
        env: Mapping[str, str],
        login: Callable[[Upstream], Login],
        clock: Callable[[], datetime],
        report: UpstreamReport,
    ) -> None:
        self.url = (base_url or f"https://{_ANTHROPIC}").rstrip("/")
        self.is_anthropic, self.may_cost = _is_anthropic(self.url), not _is_in_own_network(self.url)
        self._env, self._clock, self._report = env, clock, report
        self._proxy = _proxy_for(self.url, env)
        self._breaker = Breaker()
        self._paused_until = 0.0
        self._session: aiohttp.ClientSession | None = None
        self.windows: dict[str, dict[str, object]] = {}
        self.login = login(self)

    @property
    def host(self) -> str:
        """Its name, for a person."""
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @contextlib.asynccontextmanager
    async def ask(
        self,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: bytes,
        attempts: AttemptListener,
        *,
        model: str | None = None,
    ) -> AsyncIterator[UpstreamResponse]:
        """Send the request and yield the answer, whatever its status.

        Raises UpstreamError, AgentUnavailableError without a login, and what `attempts` raises.
        `model` is the model asked; None: the result does not affect the circuit breaker.
        """
        if model is not None and (left := self.paused_s()) > 0:
            raise UpstreamError(
                self.pause_message(), status=429, kind="rate_limit_error", wait_s=left
            )
        try:
            response = await self._send_until_begun(
                f"{self.url}{path}{'?' + query if query else ''}", headers, body, attempts
            )
        except AgentUnavailableError as error:
            self._report("model", self.clean(error.message))
            raise
        try:
            if model is not None:
                self._note(response, model)
            yield response
        finally:
            if not response.raw.content.is_eof():
                response.raw.close()  # cut, so that the far side stops as well
            response.raw.release()

    def paused_s(self) -> float:
        """How long, in seconds, the model is not to be asked, as its server wants it."""
        return max(0.0, self._paused_until - time.monotonic())

    def pause_message(self) -> str:
        return (
            f"the model at {self.host} asked for a pause; it is asked again in "
            f"{self.paused_s():.0f} s"
        )

    async def post(self, url: str, document: Mapping[str, object]) -> tuple[int, Any]:
        """Send JSON to the login server: its status and JSON, or 0 and None without an answer."""
        try:
            timeout = aiohttp.ClientTimeout(total=_LOGIN_S)
            proxy = _proxy_for(url, self._env)
            async with self._open().post(
                url,
                data=json.dumps(document),
                headers={"content-type": "application/json"},
                timeout=timeout,
                proxy=proxy,
                allow_redirects=False,
            ) as response:
                return response.status, json.loads(await response.content.read(1 << 20))
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
            return 0, None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _send_until_begun(
        self, url: str, headers: Mapping[str, str], body: bytes, attempts: AttemptListener
    ) -> UpstreamResponse:
        tries, waited, refused = 0, 0.0, None
        while True:
            secret = await self.login.secret(refused=refused)
            tries += 1
            response, problem = await self._try(
                url, headers_up(headers, secret.headers, secret.beta), body, attempts
            )
            if (
                response is not None
                and response.status == _REFUSED
                and secret.can_be_renewed
                and refused is None
            ):
                response.raw.close()
                refused = secret
                continue
            status, said = (
                (response.status, response.raw.headers) if response is not None else (None, {})
            )
            wait = wait_before_retry(
                tries,
                waited,
                status,
                said,
                now=self._clock(),
                chance=random.random(),  # noqa: S311
            )
            if wait is None or self._breaker.is_open:
                if response is None:
                    raise UpstreamError(f"the model at {self.host} could not be reached: {problem}")
                return response
            if response is not None:
                response.raw.close()
            waited += wait
            await asyncio.sleep(wait)

    async def _try(
        self, url: str, headers: Mapping[str, str], body: bytes, attempts: AttemptListener
    ) -> tuple[UpstreamResponse | None, str]:
        now = time.monotonic()
        if not self._breaker.admits(now):
            left = self._breaker.seconds_left(now)
            raise UpstreamError(
                f"the model at {self.host} does not answer; it is asked again in {left:.0f} s",
                status=503,
            )
        try:
            await attempts.attempt()
        except BaseException:
            self._breaker.left()
            raise
        try:
            response, status, first = await self._post(url, headers, body)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._failed()
            if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
                attempts.refused()
            why = (
                error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            )  # else it speaks of ssl where there is none
            return None, self.clean(str(why) or type(why).__name__)[:_REASON_CHARS]
        except BaseException:  # the caller went away
            self._breaker.left()
            raise
        self.windows = dict(
            [*(self.windows | read_windows(response.headers)).items()][-_MOST_WINDOWS:]
        )
        if status in _UNPAID:
            attempts.refused()
        if response.status in _REDIRECTS:
            raise self._redirected(response)
        if status >= _FAULTS:
            self._failed()
        else:
            self._succeeded()
        return UpstreamResponse(raw=response, first=first, status=status), ""

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[aiohttp.ClientResponse, int, bytes]:
        response = await self._open().post(
            _without_login(url) if "authorization" in headers else url,
            data=body if len(body) < _LARGE else BytesIO(body),
            headers=headers,
            proxy=self._proxy,
            allow_redirects=False,
        )
        try:
            return response, *await _read_first(response)
        except BaseException:
            response.close()
            raise

    def _redirected(self, response: aiohttp.ClientResponse) -> UpstreamError:
        self._succeeded()
        response.close()
        said = (
            f"the model's server at {self.host} sends elsewhere ({response.status}), where "
            "no credential goes"
        )
        self._report("model", said)
        return UpstreamError(said)

    def _note(self, response: UpstreamResponse, model: str) -> None:
        """Report what keeps the model from answering, or that it answers, and keep to the pause
        that its server asks for.
        """
        if response.status < _BAD:
            self._report("model", None)
            self._report(f"model:{model}", None)
        elif problem := problem_of(response.status, response.first, host=self.host, model=model):
            self._report(problem[0], self.clean(problem[1]))
        asked = (
            asked_wait_s(response.raw.headers, self._clock())
            if response.status in _ASKS_TO_WAIT
            else None
        )
        if asked:
            self._paused_until = time.monotonic() + min(asked, _LONGEST_PAUSE_S)

    def clean(self, text: str) -> str:
        return redact(text, self.login.secrets)

    def _failed(self) -> None:
        was_open = self._breaker.is_open
        self._breaker.failed(time.monotonic())
        if self._breaker.is_open and not was_open:
            self._report(
                "model", f"the model at {self.host} does not answer; runs that need it wait"
            )

    def _succeeded(self) -> None:
        if self._breaker.is_open:
            self._report("model", None)
        self._breaker.succeeded()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S
            )
            connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=_IDLE_S, ssl=_trust(self._env)
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
                read_bufsize=_READ_AHEAD,
            )
        return self._session


async def _read_first(response: aiohttp.ClientResponse) -> tuple[int, bytes]:
    """The status and beginning of an answer; of an error, all of it up to a limit.

    A stream is read until it has content, for a while: an error event before that replaces the
    answer.
    """
    first = await response.content.readany()
    if response.status >= _BAD:
        while len(first) < _LARGEST_ERROR and (more := await response.content.readany()):
            first += more
        return read_refusal(response.status, first[:_LARGEST_ERROR])
    if response.content_type == "text/event-stream":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_BEGINNING_S):
                while (
                    len(first) < _LARGEST_ERROR
                    and has_no_content(first)
                    and (more := await response.content.readany())
                ):
                    first += more
        return read_refusal(response.status, first)
    return response.status, first


def is_on_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without_login(url: str) -> str:
    """The address without a name and password in it: one request has one Authorization header, and
    the login's goes before.
    """
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _is_anthropic(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == _ANTHROPICS or host.endswith(f".{_ANTHROPICS}"))


def _is_in_own_network(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(_OWN_NETWORK)


def _proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """The proxy that the environment names for this address. Never for this machine's own."""
    parts = urlsplit(url)
    names = (f"{parts.scheme}_proxy", f"{parts.scheme.upper()}_PROXY")
    proxy = next((env[name] for name in names if env.get(name)), None)
    return (
        None
        if proxy is None or is_on_this_machine(url) or _is_spared(parts.hostname or "", env)
        else proxy
    )


def _is_spared(host: str, env: Mapping[str, str]) -> bool:
    """Whether NO_PROXY names the host, or a domain that it is in."""
    spared = [
        name.strip().lstrip(".").lower()
        for name in (env.get("no_proxy") or env.get("NO_PROXY") or "").split(",")
    ]
    return "*" in spared or any(
        name and (host == name or host.endswith(f".{name}")) for name in spared
    )


def _trust(env: Mapping[str, str]) -> ssl.SSLContext | bool:
    """The authorities of this machine, which aiohttp has loaded already, or these and those that
    the environment adds for Claude Code.
    """
    added = [file for name in _AUTHORITIES if (file := env.get(name)) and os.path.isfile(file)]  # noqa: PTH113
    if not added:
        return True
    context = ssl.create_default_context()
    for file in added:
        context.load_verify_locations(cafile=file)
    return context
