"""Gateway: the Messages API as agents see it, with the credential added and budgets held."""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from parachuted.agents.credentials import TOKEN_URL, Login
from parachuted.agents.gateway.listeners import GatewayListeners
from parachuted.agents.gateway.message_request import (
    MessageRequest,
    RequestRefusedError,
    read_request,
)
from parachuted.agents.gateway.prices import Meter
from parachuted.agents.gateway.upstream import (
    Upstream,
    UpstreamReport,
    UpstreamResponse,
    UsageWindow,
    headers_down,
    is_anthropic,
    is_in_own_network,
    post_json,
)
from parachuted.agents.gateway.usage import (
    OVER_TIME,
    BudgetPool,
    BudgetState,
    Charge,
    MoneyLimits,
    OverBudgetError,
    RunToken,
    Spending,
    UsageReport,
    UsageStore,
    is_same_model,
)
from parachuted.errors import AgentFailedError, AgentUnavailableError, StorageFailedError
from parachuted.texts.redact import Redactor

_ANTHROPIC = "https://api.anthropic.com"
_MESSAGES = "/v1/messages"
_QUERY = re.compile(r"[A-Za-z0-9=&_.,-]{0,200}")
_BUSY = frozenset({408, 409, 429})
_LONGEST_RETRY_S = 10.0
_NO_RETRY = {"x-should-retry": "false"}
_SESSION = "X-Claude-Code-Session-Id"
_SESSION_CHARS = 100
_LARGEST_REQUEST = 32 << 20  # as the API's own
_LARGEST_BUFFERED = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """At `url`, with `token` as its API key; or by `socket`, the run's own, without one."""

    url: str
    token: str
    model: str
    socket: Path | None = None


@dataclass(eq=False, slots=True, kw_only=True)
class _OpenRun:
    run_token: RunToken
    requests: dict[asyncio.Task[Any], web.BaseRequest] = field(default_factory=dict)
    is_stopped: bool = False
    has_answer: bool = False
    buffered: int = 0

    async def end(self) -> None:
        """Stop it, and wait until its requests have been counted."""
        self.is_stopped = True
        for task, request in self.requests.items():
            _cut(request)
            task.cancel()
        if self.requests:
            await asyncio.wait([*self.requests])

    @asynccontextmanager
    async def body(self, request: web.BaseRequest) -> AsyncIterator[bytes]:
        """What a request brings, which counts as the run's until this is left."""
        pieces, size = [], 0
        try:
            while piece := await request.content.readany():
                pieces.append(piece)
                size += len(piece)
                self.buffered += len(piece)
                if size > _LARGEST_REQUEST or self.buffered > _LARGEST_BUFFERED:
                    raise RequestRefusedError(
                        "a request is at most 32 MB, and all of a run's at once 64",
                        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        kind="request_too_large",
                    )
            yield b"".join(pieces)
        finally:
            self.buffered -= size


class Gateway:
    """One for a daemon. It begins to listen at the first run. `base_url` None is Anthropic."""

    def __init__(
        self,
        *,
        env: Mapping[str, str],
        vault: Path,
        user_home: Path,
        base_url: str | None,
        usage_store: UsageStore,
        limits: MoneyLimits,
        clock: Callable[[], datetime],
        token_url: str = TOKEN_URL,
    ) -> None:
        self.limits, self.usage_store = limits, usage_store
        self._report: UpstreamReport | None = None
        self._runs: dict[str, _OpenRun] = {}
        url = (base_url or _ANTHROPIC).rstrip("/")
        self._may_cost = not is_in_own_network(url)
        login = Login(
            env=env,
            vault=vault,
            user_home=user_home,
            is_anthropic=is_anthropic(url),
            clock=clock,
            post=partial(post_json, env),
            token_url=token_url,
        )
        self._upstream = Upstream(url=url, env=env, login=login, report=self._report_problem)
        self._spending = Spending(
            usage_store=usage_store,
            limits=limits,
            clock=clock,
            may_cost=self._may_cost,
            report=partial(self._report_problem, "usage"),
        )
        self._listeners = GatewayListeners(partial(self._serve, None))

    def report_to(self, report: UpstreamReport) -> None:
        """Report a subject and what is wrong with it, None once it is over, from now on."""
        self._report = report
        self._report_problem("usage", self.usage_store.database.problem)

    @asynccontextmanager
    async def open(
        self, run_token: RunToken, folder: Path | None = None, *, token: str | None = None
    ) -> AsyncIterator[Endpoint]:
        """A way to the model for one run; left, its requests have been ended and counted.

        `folder` is where `gateway.sock` is put: any process that can enter it may use it. `token`
        is that of an earlier run of the same process. Raises AgentUnavailableError, and
        AgentFailedError where the run has no money.
        """
        await self._admit(run_token)
        run, token = _OpenRun(run_token=run_token), token or secrets.token_urlsafe(32)
        async with AsyncExitStack() as stack:
            try:
                port = await self._listeners.port()
                socket = await stack.enter_async_context(
                    self._listeners.socket(folder, partial(self._serve, run))
                )
            except OSError as error:
                raise _unopened(error) from error
            self._runs[token] = run
            try:
                yield Endpoint(
                    url=f"http://127.0.0.1:{port}",
                    token=token,
                    socket=socket,
                    model=run_token.model,
                )
            finally:
                if self._runs.get(token) is run:
                    del self._runs[token]
                await run.end()

    def windows(self, now: datetime) -> dict[str, UsageWindow]:
        """How much of its account's windows a login has used; an API key has none."""
        return {
            name: window
            for name, window in self._upstream.windows.items()
            if window.resets_at is None or window.resets_at > now
        }

    def report(self, now: datetime, days: int) -> UsageReport:
        """What the last days cost, today among them. Blocks on the disk."""
        return self.usage_store.report(now, days, self.limits, may_cost=self._may_cost)

    async def close(self) -> None:
        for run in [*self._runs.values()]:
            await run.end()
        await self._listeners.close()
        await self._upstream.close()
        await asyncio.to_thread(self.usage_store.database.close)

    async def _admit(self, run_token: RunToken) -> None:
        """An hour's or a day's money comes back with time; the run's own and its cause's do not."""
        try:
            budget = await asyncio.to_thread(self.usage_store.narrowest, run_token, self.limits)
        except StorageFailedError as error:
            raise _unopened(error) from error
        self._report_exceeded(budget, run_token.pool)
        if budget.is_used_up:
            is_over_time = budget.budget in OVER_TIME[run_token.pool]
            raise (AgentUnavailableError if is_over_time else AgentFailedError)(str(budget))
        if (left := self._upstream.paused_s) > 0:
            raise AgentUnavailableError(self._upstream.pause_message, wait_s=left)

    async def _serve(self, run: _OpenRun | None, request: web.BaseRequest) -> web.StreamResponse:
        """`run` None: the one whose token the request has."""
        if request.method == "HEAD" and request.raw_path == "/":
            return web.Response()
        run = run or self._runs.get(token_of(request.headers))
        if run is None or run.is_stopped:
            why = "no run that goes on has this token" if run is None else "this run was stopped"
            return _error(401, "authentication_error", why)
        if not allowed(request.method, request.raw_path):
            why = "this gateway takes POST /v1/messages alone"
            return _error(404, "not_found_error", why)
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served outside a task")
        run.requests[task] = request
        try:
            return await self._serve_run(run, request)
        finally:
            del run.requests[task]

    async def _serve_run(self, run: _OpenRun, request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with run.body(request) as body:
                return await self._pass_on(run, request, body)
        except (aiohttp.ClientError, OSError, TimeoutError):
            _cut(request)  # as it was cut off upstream, so that it does not look complete
            return web.Response()
        except RequestRefusedError as error:
            if isinstance(error, OverBudgetError):
                self._report_exceeded(error.budget, run.run_token.pool)
            wait = {} if error.wait_s is None else {"retry-after": f"{math.ceil(error.wait_s)}"}
            headers = self._retry_headers(run, error.status) | wait
            return _error(error.status, error.kind, str(error), headers)
        except StorageFailedError as error:
            said = f"the model is not asked while its cost cannot be written down: {error.message}"
            return _error(503, "api_error", said, _NO_RETRY)
        except AgentUnavailableError as error:
            said = self._upstream.clean(error.message)
            return _error(401, "authentication_error", said, _NO_RETRY)

    async def _pass_on(
        self, run: _OpenRun, request: web.BaseRequest, body: bytes
    ) -> web.StreamResponse:
        target, run_token = request.raw_path, run.run_token
        message = _read_for(run_token, body)
        session = run_token.session or request.headers.get(_SESSION, "")[:_SESSION_CHARS] or None
        async with self._spending.charge(replace(run_token, session=session), message) as charge:
            body = message.body(body, charge.tokens.output)
            async with self._upstream.ask(target, request.headers, body, charge) as response:
                return await self._answer(run, request, response, charge)

    async def _answer(
        self,
        run: _OpenRun,
        request: web.BaseRequest,
        response: UpstreamResponse,
        charge: Charge,
    ) -> web.StreamResponse:
        """With any secret that the server repeats covered. It has no length, so that its agent sees
        its end once it has been counted.
        """
        source, clean = response.raw, self._upstream.clean
        headers = {name: clean(value) for name, value in headers_down(source.headers).items()}
        if response.is_refused:
            headers.pop("content-encoding", None)
            text = clean(response.refusal.decode("utf-8", "replace"))
            headers |= self._retry_headers(run, response.status)
            return web.Response(status=response.status, body=text.encode(), headers=headers)
        # an answer that came packed, though we asked for none such, is counted by its length
        is_packed = source.headers.get("Content-Encoding", "identity").lower() != "identity"
        meter = Meter("" if is_packed else source.headers.get("Content-Type", ""))
        run.has_answer, charge.meter = True, meter
        redactor = Redactor(self._upstream.login.secrets)
        answer = web.StreamResponse(status=response.status, headers=headers)
        await answer.prepare(request)
        while piece := await source.content.readany():
            meter.feed(piece)
            if shown := redactor.over(piece):
                await answer.write(shown)
        if rest := redactor.rest():
            await answer.write(rest)
        return answer

    def _retry_headers(self, run: _OpenRun, status: int) -> dict[str, str]:
        """A task waits better than a process; but what an agent did half would be lost."""
        is_passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _BUSY
        is_soon = self._upstream.paused_s <= _LONGEST_RETRY_S
        return {} if is_passing and (is_soon or run.has_answer) else _NO_RETRY

    def _report_exceeded(self, exceeded: BudgetState, pool: BudgetPool) -> None:
        for budget in OVER_TIME[pool]:
            is_it = exceeded.is_used_up and exceeded.budget == budget
            self._report_problem(f"budget:{budget}", str(exceeded) if is_it else None)

    def _report_problem(self, subject: str, problem: str | None) -> None:
        if self._report is not None:
            self._report(subject, problem)


def allowed(method: str, target: str) -> bool:
    """`target` is as sent: no spelling of a path widens this."""
    path, _, query = target.partition("?")
    return method == "POST" and path == _MESSAGES and bool(_QUERY.fullmatch(query))


def token_of(headers: Mapping[str, str]) -> str:
    """Wherever the agent put it; "" when it has none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return headers.get("X-Api-Key", "") or (token.strip() if scheme.lower() == "bearer" else "")


def _read_for(run_token: RunToken, body: bytes) -> MessageRequest:
    """Raises RequestRefusedError, also where it names a model that is not the run's."""
    message = read_request(body)
    for model in (*message.models, message.model):
        if not is_same_model(model, run_token.model):
            asked = f"the model {model[:80]}" if model else "a request without a model"
            raise RequestRefusedError(
                f"this gateway takes no requests for {asked}; this run may ask {run_token.model} "
                "(setting agent.model)"
            )
    return message


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _unopened(error: Exception) -> AgentUnavailableError:
    return AgentUnavailableError(f"the gateway to the model could not be opened: {error}")


def _error(
    status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    document = {"type": "error", "error": {"type": kind, "message": message}}
    return web.json_response(document, status=status, headers=headers)
