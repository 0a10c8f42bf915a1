"""Upstream: sends a request to the model's server, unless that is down or asks for a pause."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from io import BytesIO
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

import aiohttp

from parachuted.agents.credentials import Login, RequestCredential
from parachuted.agents.gateway.message_request import RequestRefusedError
from parachuted.agents.gateway.usage import Charge
from parachuted.errors import AgentUnavailableError
from parachuted.texts.redact import redact

_UP = re.compile(r"accept|content-type|user-agent|x-app|(?:anthropic|x-stainless)-.*")
_DOWN = re.compile(
    r"content-type|content-encoding|cache-control|request-id|retry-after|retry-after-ms"
    r"|x-should-retry|anthropic-.*"
)
_VERSION = "2023-06-01"
_BETA = "anthropic-beta"
_WINDOW = "anthropic-ratelimit-unified-"
_USED = re.compile(rf"{_WINDOW}([a-z0-9_-]{{1,40}})-utilization", re.IGNORECASE)
_MOST_WINDOWS = 20
_MOST_PERCENT = 1000.0
_IDLE_S = 60.0
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=600.0)
_LOGIN_TIMEOUT = aiohttp.ClientTimeout(total=30.0)
_READ_AHEAD = 1 << 15
_LARGE = 1 << 20  # aiohttp sends more than that piece by piece, if it may
_LARGEST_ERROR = 64 << 10
_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 86_400.0
_ASKS_TO_WAIT = frozenset({429, 503, 529})
_AUTHORITIES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
_OWN_NETWORK = (".local", ".lan", ".internal", ".home.arpa", ".localhost")
_REASON_CHARS = 300
# Statuses with which no model has answered; others may come from a proxy, after it has.
_UNPAID = frozenset(range(300, 500)) - {408, 499} | {500, 501, 503, 529}
# Of these what is wrong is reported, until a request is answered.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamResponse:
    """An answer that begins; of a refusal, `refusal` is all of it."""

    raw: aiohttp.ClientResponse
    status: int
    refusal: bytes = b""

    @property
    def is_refused(self) -> bool:
        return self.status >= HTTPStatus.BAD_REQUEST


class Upstream:
    """`windows` are those of the account, as the latest answers said; an API key has none."""

    def __init__(
        self, *, url: str, env: Mapping[str, str], login: Login, report: UpstreamReport
    ) -> None:
        self.url, self.login = url, login
        self.windows: dict[str, UsageWindow] = {}
        self._env, self._report = env, report
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
    ) -> AsyncIterator[UpstreamResponse]:
        """Yield the answer, whatever its status. Raises RequestRefusedError, and
        AgentUnavailableError without a login.
        """
        if (left := self.paused_s) > 0:
            raise RequestRefusedError(
                self.pause_message, status=429, kind="rate_limit_error", wait_s=left
            )
        try:
            credential = await self.login.credential()
            raw = await self._post(target, headers_up(headers, credential), body, charge)
            # sent again here, since to the CLI, which knows no login, a refused one is final
            if raw.status == HTTPStatus.UNAUTHORIZED and credential.can_be_renewed:
                raw.close()
                credential = await self.login.credential(refused=credential)
                raw = await self._post(target, headers_up(headers, credential), body, charge)
        except AgentUnavailableError as error:
            self._report("model", self.clean(error.message))
            raise
        try:
            response = await _read_refusal(raw)
            self._note(response, charge.request.model)
            yield response
        finally:
            if not raw.content.is_eof():
                raw.close()  # cut, so that the far side stops as well
            raw.release()

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
                proxy=proxy_for(self.url, self._env),
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            unsent = (
                aiohttp.ClientConnectorError,
                aiohttp.ClientHttpProxyError,
                aiohttp.ConnectionTimeoutError,
            )
            # aiohttp's own words speak of ssl where there is none
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            reason = self.clean(str(cause) or type(cause).__name__)[:_REASON_CHARS]
            said = f"the model at {self.host} could not be reached: {reason}"
            if isinstance(error, unsent):
                charge.is_owed = False
                self._pause(_PAUSE_S, "could not be reached")
                self._report("model", f"{said}; runs that need it wait")
            raise RequestRefusedError(said, status=502, kind="api_error") from error
        charge.is_owed = response.status not in _UNPAID
        if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
            response.close()
            elsewhere = f"sends elsewhere ({response.status}), where no credential goes"
            said = f"the model's server at {self.host} {elsewhere}"
            self._report("model", said)
            raise RequestRefusedError(said, status=502, kind="api_error")
        return response

    def _note(self, response: UpstreamResponse, model: str) -> None:
        status, headers = response.status, response.raw.headers
        windows = [*(self.windows | read_windows(headers)).items()]
        self.windows = dict(windows[-_MOST_WINDOWS:])
        if status in _ASKS_TO_WAIT and (wait_s := asked_wait_s(headers)) > 0:
            self._pause(wait_s, "asked for a pause")
        message = read_error(response.refusal).get("message", "")[:_REASON_CHARS]
        if not response.is_refused:
            self._report("model", None)
        elif status in _TROUBLE or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            advice = _ADVICE.get(status, "runs that need it wait")
            said = f"{self.host} answered {status} for {model}: {message or 'no reason'}; {advice}"
            self._report("model", self.clean(said))

    def _pause(self, seconds: float, why: str) -> None:
        until = time.monotonic() + min(seconds, _LONGEST_PAUSE_S)
        if until > self._paused_until:
            self._paused_until, self._why_paused = until, why

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            ssl_ = trust(self._env)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S, ssl=ssl_),
                timeout=_TIMEOUT,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
                read_bufsize=_READ_AHEAD,
            )
        return self._session


def headers_up(headers: Mapping[str, str], credential: RequestCredential) -> dict[str, str]:
    """Without the agent's own proof, and uncompressed, so that the answer can be metered."""
    up = {name.lower(): value for name, value in headers.items() if _UP.fullmatch(name.lower())}
    if credential.beta:
        betas = [part.strip() for part in up.get(_BETA, "").split(",") if part.strip()]
        up[_BETA] = ",".join(dict.fromkeys([*betas, credential.beta]))
    up.setdefault("anthropic-version", _VERSION)
    up.setdefault("content-type", "application/json")
    return {**up, "accept-encoding": "identity", **credential.headers}


def headers_down(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in headers.items() if _DOWN.fullmatch(name.lower())}


def read_windows(headers: Mapping[str, str]) -> dict[str, UsageWindow]:
    """By their names, such as `5h` and `7d`."""
    names = [found[1].lower() for header in headers if (found := _USED.fullmatch(header))]
    windows: dict[str, UsageWindow] = {}
    for name in names[:_MOST_WINDOWS]:
        used = _number(headers.get(f"{_WINDOW}{name}-utilization"))
        ends, resets_at = _number(headers.get(f"{_WINDOW}{name}-reset")), None
        with contextlib.suppress(OverflowError, OSError, ValueError):
            resets_at = datetime.fromtimestamp(ends, UTC) if ends >= 0 else None
        if used >= 0:
            windows[name] = UsageWindow(round(min(used * 100, _MOST_PERCENT), 1), resets_at)
    return windows


def asked_wait_s(headers: Mapping[str, str]) -> float:
    """0 if it asks for nothing that makes sense."""
    milliseconds = _number(headers.get("retry-after-ms"))
    seconds = milliseconds / 1000 if milliseconds >= 0 else _number(headers.get("retry-after"))
    return max(0.0, seconds)


def _number(text: str | None) -> float:
    """-1 for what is no number."""
    try:
        number = float(text or "")
    except ValueError:
        return -1.0
    return number if math.isfinite(number) else -1.0


async def _read_refusal(raw: aiohttp.ClientResponse) -> UpstreamResponse:
    """Up to a limit. Anthropic answers 400 when the credit is used up."""
    if raw.status < HTTPStatus.BAD_REQUEST:
        return UpstreamResponse(raw=raw, status=raw.status)
    body = b""
    with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):  # its status is enough
        while len(body) < _LARGEST_ERROR and (more := await raw.content.readany()):
            body += more
    is_poor = "credit balance" in read_error(body).get("message", "").lower()
    status = 402 if raw.status == HTTPStatus.BAD_REQUEST and is_poor else raw.status
    return UpstreamResponse(raw=raw, status=status, refusal=body[:_LARGEST_ERROR])


def read_error(body: bytes) -> dict[str, str]:
    """The texts of an error in the API's shape; other servers send anything."""
    try:
        error = json.loads(body)["error"]
        return {name: text for name, text in error.items() if isinstance(text, str)}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}


async def post_json(
    env: Mapping[str, str], url: str, document: Mapping[str, object]
) -> tuple[int, Any]:
    """Its status and JSON, or 0 and None without an answer."""
    proxy = proxy_for(url, env)
    try:
        connector = aiohttp.TCPConnector(ssl=trust(env))
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_LOGIN_TIMEOUT) as session,
            session.post(url, json=document, proxy=proxy, allow_redirects=False) as response,
        ):
            return response.status, json.loads(await response.content.read(1 << 20))
    except (aiohttp.ClientError, OSError, ValueError, TimeoutError):
        return 0, None


def is_on_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """As the environment names it; never for this machine's own addresses."""
    parts = urlsplit(url)
    names = (f"{parts.scheme}_proxy", f"{parts.scheme.upper()}_PROXY")
    spared = env.get("no_proxy") or env.get("NO_PROXY") or ""
    if is_on_this_machine(url) or proxy_bypass_environment(parts.hostname or "", {"no": spared}):
        return None
    return next((env[name] for name in names if env.get(name)), None)


def trust(env: Mapping[str, str]) -> ssl.SSLContext | bool:
    """The authorities of this machine, and those that the environment adds for Claude Code."""
    added = [file for name in _AUTHORITIES if (file := env.get(name)) and os.path.isfile(file)]  # noqa: PTH113
    if not added:
        return True
    context = ssl.create_default_context()
    for file in added:
        context.load_verify_locations(cafile=file)
    return context
