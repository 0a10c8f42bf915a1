"""Upstream: sends a request to the model's server, unless that is down or asks for a pause."""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from io import BytesIO
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from parachuted.agents.credentials import Login, RequestCredential
from parachuted.agents.gateway.message_request import RequestRefusedError
from parachuted.agents.gateway.usage import Charge
from parachuted.texts.redact import redact

_UP = re.compile(r"accept|content-type|user-agent|x-app|(?:anthropic|x-stainless)-.*")
_DOWN = re.compile(r"cache-control|request-id|retry-after(-ms)?|x-should-retry|anthropic-.*")
_BETA = "anthropic-beta"
_USED = re.compile(r"(anthropic-ratelimit-unified-([a-z0-9_-]+))-utilization", re.IGNORECASE)
_LATEST = 253_402_300_799.0  # the last second of the year 9999
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=600.0)
_LOGIN_TIMEOUT = aiohttp.ClientTimeout(total=30.0)
_LARGE = 1 << 20  # aiohttp sends more than that piece by piece, if it may
_LARGEST_ERROR = 64 << 10
_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 86_400.0
_ASKS_TO_WAIT = frozenset({429, 503, 529})
_OWN_NETWORK = (".local", ".lan", ".internal", ".home.arpa", ".localhost")
_REASON_CHARS = 300
_NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)
_UNSENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
)
# Statuses with which no model has answered; others may come from a proxy, after it has.
_UNPAID = frozenset(range(300, 500)) - {408, 499} | {500, 501, 503, 529}
# Of these, and of all faults, what is wrong is reported, until a request is answered.
_TROUBLE = frozenset({401, 402, 403, 404, 429})
_LOGIN_ADVICE = "`parachute auth status` shows which login is used"
_ADVICE = {
    401: _LOGIN_ADVICE,
    403: _LOGIN_ADVICE,
    404: "check the settings agent.model and agent.base_url",
}

UpstreamReport = Callable[[str, str | None], None]


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """How much of an account's allowance is used, in percent, and until when that is so."""

    utilization: float
    resets_at: datetime | None


class Upstream:
    """`windows` are those of the account, as the latest answers said; an API key has none."""

    def __init__(self, url: str, make_login: Callable[..., Login]) -> None:
        self.url = url
        self.report: UpstreamReport = lambda _subject, _problem: None
        self.login = make_login(is_anthropic=is_anthropic(url), post=self._post_json)
        self.windows: dict[str, UsageWindow] = {}
        self._paused_until, self._why_paused = 0.0, ""
        self._session: aiohttp.ClientSession | None = None

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def paused_s(self) -> float:
        return max(0.0, self._paused_until - time.monotonic())

    @property
    def pause_message(self) -> str:
        again = f"it is asked again in {self.paused_s:.0f} s"
        return f"the model at {self.host} {self._why_paused}; {again}"

    @contextlib.asynccontextmanager
    async def ask(
        self, target: str, headers: Mapping[str, str], body: bytes, charge: Charge
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer. Raises RequestRefusedError, also in the server's words, and
        AgentUnavailableError without a login.
        """
        if (left := self.paused_s) > 0:
            wait = {"retry-after": f"{math.ceil(left)}"}
            raise RequestRefusedError(
                self.pause_message, status=429, kind="rate_limit_error", headers=wait
            )
        credential = await self.login.credential()
        response = await self._post(target, headers_up(headers, credential), body, charge)
        # sent again here, since to the CLI, which knows no login, a refused one is final
        if response.status == HTTPStatus.UNAUTHORIZED and credential.can_be_renewed:
            response.release()
            credential = await self.login.credential(refused=credential)
            response = await self._post(target, headers_up(headers, credential), body, charge)
        try:
            self.windows |= read_windows(response.headers)
            if response.status >= HTTPStatus.MULTIPLE_CHOICES:
                raise await self._refusal(response, charge.model)
            self.report("model", None)
            yield response
        finally:
            response.release()  # closes what is not read to its end: the far side stops as well

    def clean(self, text: str) -> str:
        return redact(text, self.login.secrets)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(
        self, target: str, headers: Mapping[str, str], body: bytes, charge: Charge
    ) -> aiohttp.ClientResponse:
        url = self.url
        if "authorization" in headers:  # a request has one such header: none of the address
            url = urlsplit(url)._replace(netloc=self.host).geturl()
        charge.is_owed = True
        try:
            response = await self._open().post(
                f"{url}{target}",
                data=body if len(body) < _LARGE else BytesIO(body),
                headers=headers,
                proxy=proxy_for(self.url),
                allow_redirects=False,
            )
        except _NO_ANSWER as error:
            # aiohttp's own words speak of ssl where there is none
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            reason = self.clean(str(cause) or type(cause).__name__)[:_REASON_CHARS]
            said = f"the model at {self.host} could not be reached: {reason}"
            if isinstance(error, _UNSENT):
                charge.is_owed = False
                self._pause(_PAUSE_S, "could not be reached")
                self.report("model", f"{said}; runs that need it wait")
            raise RequestRefusedError(said, status=502, kind="api_error") from error
        charge.is_owed = response.status not in _UNPAID
        return response

    async def _refusal(self, response: aiohttp.ClientResponse, model: str) -> RequestRefusedError:
        status, kind, message = response.status, "api_error", ""
        wait_s = _number(response.headers.get("retry-after"))
        if status in _ASKS_TO_WAIT and wait_s > 0:
            self._pause(wait_s, "asked for a pause")
        with contextlib.suppress(*_NO_ANSWER):  # its status is enough
            kind, message = read_error(await _read(response))
        if status < HTTPStatus.BAD_REQUEST:
            status, message = 502, "it sends elsewhere, where no credential goes"
        if status == HTTPStatus.BAD_REQUEST and "credit balance" in message.lower():
            status = 402
        message = self.clean(message)
        if status in _TROUBLE or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            said = f"{self.host} answered {status} for {model}: {message or 'no reason'}"
            self.report("model", f"{said}; {_ADVICE.get(status, 'runs that need it wait')}")
        down = headers_down(response.headers)
        headers = {name: self.clean(value) for name, value in down.items()}
        return RequestRefusedError(message, status=status, kind=kind, headers=headers)

    async def _post_json(self, url: str, document: Mapping[str, object]) -> tuple[int, Any]:
        """Its status and JSON, or 0 and None without an answer."""
        try:
            async with self._open().post(
                url,
                json=document,
                headers={"User-Agent": aiohttp.http.SERVER_SOFTWARE},
                timeout=_LOGIN_TIMEOUT,
                proxy=proxy_for(url),
                allow_redirects=False,
            ) as response:
                return response.status, json.loads(await _read(response))
        except (*_NO_ANSWER, ValueError):
            return 0, None

    def _pause(self, seconds: float, why: str) -> None:
        until = time.monotonic() + min(seconds, _LONGEST_PAUSE_S)
        if until > self._paused_until:
            self._paused_until, self._why_paused = until, why

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60.0),
                timeout=_TIMEOUT,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
                read_bufsize=1 << 15,
            )
        return self._session


def headers_up(headers: Mapping[str, str], credential: RequestCredential) -> dict[str, str]:
    """Without the agent's own proof, and uncompressed, so that the answer can be metered."""
    up = {name.lower(): value for name, value in headers.items() if _UP.fullmatch(name.lower())}
    if credential.beta:
        betas = [part.strip() for part in up.get(_BETA, "").split(",") if part.strip()]
        up[_BETA] = ",".join(dict.fromkeys([*betas, credential.beta]))
    usual = {"anthropic-version": "2023-06-01", "content-type": "application/json"}
    return {**usual, **up, "accept-encoding": "identity", **credential.headers}


def headers_down(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items() if _DOWN.fullmatch(name.lower())}


async def _read(response: aiohttp.ClientResponse) -> bytes:
    body = b""
    while len(body) < _LARGEST_ERROR and (piece := await response.content.readany()):
        body += piece
    return body


def read_windows(headers: Mapping[str, str]) -> dict[str, UsageWindow]:
    """By their names, such as `5h` and `7d`."""
    windows: dict[str, UsageWindow] = {}
    for header, text in headers.items():
        if (match := _USED.fullmatch(header)) and (used := _number(text)) >= 0:
            ends = _number(headers.get(f"{match[1]}-reset"))
            resets_at = datetime.fromtimestamp(ends, UTC) if 0 <= ends <= _LATEST else None
            windows[match[2].lower()] = UsageWindow(round(used * 100, 1), resets_at)
    return windows


def _number(text: str | None) -> float:
    """-1 for what is no number."""
    try:
        number = float(text or "")
    except ValueError:
        return -1.0
    return number if math.isfinite(number) else -1.0


def read_error(body: bytes) -> tuple[str, str]:
    """The kind and the message of an error in the API's shape; other servers send anything."""
    try:
        error = json.loads(body)["error"]
        return str(error["type"]), str(error["message"])[:_REASON_CHARS]
    except (ValueError, RecursionError, KeyError, TypeError):
        return "api_error", body[:_REASON_CHARS].decode("utf-8", "replace")


def is_anthropic(url: str) -> bool:
    """Whether it is the only destination of a login."""
    parts = urlsplit(url)
    return parts.scheme == "https" and f".{parts.hostname}".endswith(".anthropic.com")


def is_in_own_network(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(_OWN_NETWORK)


def proxy_for(url: str) -> str | None:
    """As the environment names it; never for addresses of this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    is_here = host in {"localhost", "::1"} or host.startswith("127.")
    return None if is_here or proxy_bypass(host) else getproxies().get(parts.scheme)
