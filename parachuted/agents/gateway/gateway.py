"""Gateway: the Messages API as agents see it.

It knows which run is calling, adds the credential, counts the cost, and refuses what exceeds a
budget.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path

import aiohttp
from aiohttp import web

from parachuted.agents.gateway.grant import GatewayGrant, OpenRun
from parachuted.agents.gateway.headers import (
    COUNT,
    allowed,
    headers_down,
    open_windows,
    token_of,
)
from parachuted.agents.gateway.limits import (
    BudgetName,
    BudgetPool,
    BudgetState,
    Endpoint,
    MoneyLimits,
    RunToken,
)
from parachuted.agents.gateway.listeners import GatewayListeners
from parachuted.agents.gateway.login import TOKEN_URL, Login
from parachuted.agents.gateway.message_request import (
    MessageRequest,
    RequestRefusedError,
    read_request,
)
from parachuted.agents.gateway.prices import Meter, price_note
from parachuted.agents.gateway.spending import Charge, OverBudgetError, Spending
from parachuted.agents.gateway.upstream import (
    Upstream,
    UpstreamReport,
    UpstreamResponse,
    is_anthropic,
    is_in_own_network,
    post_json,
)
from parachuted.agents.gateway.usage_store import UsageStore, UsageTotals
from parachuted.errors import AgentFailedError, AgentUnavailableError, StorageFailedError
from parachuted.redact import Redactor

_ANTHROPIC = "https://api.anthropic.com"
_BUSY = frozenset({408, 409, 429})
_LONGEST_RETRY_S = 10.0
_NO_RETRY = {"x-should-retry": "false"}
_SESSION = "X-Claude-Code-Session-Id"
_SESSION_CHARS = 100
# What comes back with time, by who pays it.
_OVER_TIME: dict[BudgetPool, tuple[BudgetName, ...]] = {
    "work": ("usd_per_hour", "usd_per_day"),
    "conversation": ("conversations_usd_per_day",),
}


class Gateway:
    """One for a daemon. It begins to listen at the first grant, on the loop that asks for it."""

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
        """`base_url` None is Anthropic."""
        self.limits, self.usage_store = limits, usage_store
        self._problems: dict[str, str] = {}
        self._report: UpstreamReport | None = None
        self._grants: dict[str, GatewayGrant] = {}
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
        self._listening = GatewayListeners(self._serve_by_token)

    def report_to(self, report: UpstreamReport) -> None:
        """Report problems to `report` from now on, beginning with those of the usage store.

        It takes a subject and what is wrong with it, or None once it is over.
        """
        self._report = report
        self._report_problem("usage", self.usage_store.problem)

    @asynccontextmanager
    async def open(
        self, run_token: RunToken, folder: Path | None = None, *, token: str | None = None
    ) -> AsyncIterator[Endpoint]:
        """A grant for one run; see `grant`. `token` is that of an earlier run of the same
        process.
        """
        async with self.grant(folder, token=token) as grant, grant.run(run_token) as endpoint:
            yield endpoint

    @asynccontextmanager
    async def grant(
        self, folder: Path | None = None, *, token: str | None = None
    ) -> AsyncIterator[GatewayGrant]:
        """A way to the model for one process, which serves one run after another; left, it leads
        nowhere.

        `folder` is where `gateway.sock` is put, for a process that reaches nothing else. Any
        process that can enter the folder may use it. Raises AgentUnavailableError.
        """
        async with AsyncExitStack() as stack:
            try:
                grant = GatewayGrant(
                    url=f"http://127.0.0.1:{await self._listening.port()}",
                    token=token or secrets.token_urlsafe(32),
                    admit=self._admit,
                )
                grant.socket = await stack.enter_async_context(
                    self._listening.socket(folder, partial(self._serve, grant))
                )
            except OSError as error:
                raise AgentUnavailableError(
                    f"the gateway to the model could not be opened: {error}"
                ) from error
            self._grants[grant.token] = grant
            try:
                yield grant
            finally:
                if self._grants.get(grant.token) is grant:
                    del self._grants[grant.token]

    def windows(self, now: datetime) -> dict[str, Mapping[str, object]]:
        """How much of its account's windows a login has used, as the latest answers said; empty for
        an API key.
        """
        return open_windows(self._upstream.windows, now)

    def spent(self, run: str) -> UsageTotals:
        """What a run has taken until now."""
        return self.usage_store.spent(run)

    def price_notes(self, models: Iterable[str]) -> list[str]:
        """What a person should know about the prices of these models."""
        notes = (price_note(model, may_cost=self._may_cost) for model in models)
        return [note for note in notes if note]

    def stop_all(self) -> int:
        """Stop the runs that go on: their requests, and their right to ask."""
        runs = [grant.present for grant in self._grants.values() if grant.present is not None]
        for run in runs:
            run.stop()
        return len(runs)

    async def close(self) -> None:
        self.stop_all()
        await self._listening.close()
        await self._upstream.close()
        await self._spending.close()

    async def _admit(self, run_token: RunToken) -> None:
        """Raises AgentUnavailableError, also while an hour's or a day's money is used up, which
        comes back with time; AgentFailedError when the run's own is, or its cause's.
        """
        try:
            budget = await self._spending.narrowest(run_token)
        except StorageFailedError as error:
            raise AgentUnavailableError(
                f"the gateway to the model could not be opened: {error}"
            ) from error
        self._report_exceeded(budget, run_token.pool)
        if budget.is_used_up:
            is_over_time = budget.budget in _OVER_TIME[run_token.pool]
            raise (AgentUnavailableError if is_over_time else AgentFailedError)(str(budget))
        if (left := self._upstream.paused_s) > 0:
            raise AgentUnavailableError(self._upstream.pause_message, wait_s=left)

    async def _serve_by_token(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._serve(self._grants.get(token_of(request.headers)), request)

    async def _serve(
        self, grant: GatewayGrant | None, request: web.BaseRequest
    ) -> web.StreamResponse:
        if request.method == "HEAD" and request.raw_path == "/":
            return web.Response()
        run = grant.present if grant is not None else None
        if run is None or run.is_stopped:
            why = "no run that goes on has this token" if run is None else "this run was stopped"
            return _error(401, "authentication_error", why)
        if not allowed(request.method, request.raw_path):
            why = "this gateway takes POST /v1/messages and /v1/messages/count_tokens alone"
            return _error(404, "not_found_error", why)
        with run.serving(request):
            return await self._serve_run(run, request)

    async def _serve_run(self, run: OpenRun, request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with run.body(request) as body:
                return await self._pass_on(run, request, body)
        except (aiohttp.ClientError, OSError, TimeoutError):
            # an answer cut off upstream is cut off here, so that it does not look complete
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except RequestRefusedError as error:
            return self._refuse(run, error)
        except StorageFailedError as error:
            said = f"the model is not asked while its cost cannot be written down: {error.message}"
            return _error(503, "api_error", said, _NO_RETRY)
        except AgentUnavailableError as error:
            said = self._upstream.clean(error.message)
            return _error(401, "authentication_error", said, _NO_RETRY)

    async def _pass_on(
        self, run: OpenRun, request: web.BaseRequest, body: bytes
    ) -> web.StreamResponse:
        target, message = request.raw_path, _read_for(run.run_token, body)
        if target.startswith(COUNT):
            async with self._upstream.ask(target, request.headers, body, None) as response:
                return await self._answer(run, request, response, None)
        session = run.run_token.session or request.headers.get(_SESSION, "")[:_SESSION_CHARS]
        async with self._spending.charge(run.run_token, session or None, message) as charge:
            body = message.body(body, charge.output)
            async with self._upstream.ask(target, request.headers, body, charge) as response:
                return await self._answer(run, request, response, charge)

    async def _answer(
        self,
        run: OpenRun,
        request: web.BaseRequest,
        response: UpstreamResponse,
        charge: Charge | None,
    ) -> web.StreamResponse:
        headers = {
            name: self._upstream.clean(value)
            for name, value in headers_down(response.raw.headers).items()
        }
        if response.is_refused:
            headers.pop("content-encoding", None)
            text = self._upstream.clean(response.refusal.decode("utf-8", "replace"))
            headers |= self._retry_headers(run, response.status)
            return web.Response(status=response.status, body=text.encode(), headers=headers)
        meter = _meter(response)
        if charge is not None:
            run.has_answer, charge.meter = True, meter
        return await self._relay(request, response, headers, meter)

    async def _relay(
        self,
        request: web.BaseRequest,
        response: UpstreamResponse,
        headers: Mapping[str, str],
        meter: Meter,
    ) -> web.StreamResponse:
        """Stream the answer, with any secret that the server repeats covered. It has no length, so
        that its agent sees its end once it has been counted.
        """
        source, redactor = response.raw, Redactor(self._upstream.login.secrets)
        answer = web.StreamResponse(status=response.status, headers=headers)
        await answer.prepare(request)
        while piece := await source.content.readany():
            meter.feed(piece)
            if shown := redactor.over(piece):
                await answer.write(shown)
        if rest := redactor.rest():
            await answer.write(rest)
        return answer

    def _refuse(self, run: OpenRun, error: RequestRefusedError) -> web.Response:
        if isinstance(error, OverBudgetError):
            self._report_exceeded(error.budget, run.run_token.pool)
        wait = {} if error.wait_s is None else {"retry-after": f"{math.ceil(error.wait_s)}"}
        headers = self._retry_headers(run, error.status) | wait
        return _error(error.status, error.kind, str(error), headers)

    def _retry_headers(self, run: OpenRun, status: int) -> dict[str, str]:
        """What keeps the agent from trying again in vain.

        A long pause its task waits out better than a process does; in the middle of its work it
        waits itself, while its time lasts, since what it did would be lost.
        """
        is_passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _BUSY
        is_soon = self._upstream.paused_s <= _LONGEST_RETRY_S
        return {} if is_passing and (is_soon or run.has_answer) else _NO_RETRY

    def _report_exceeded(self, exceeded: BudgetState, pool: BudgetPool) -> None:
        for budget in _OVER_TIME[pool]:
            is_it = exceeded.is_used_up and exceeded.budget == budget
            self._report_problem(f"budget:{budget}", str(exceeded) if is_it else None)

    def _report_problem(self, subject: str, problem: str | None) -> None:
        """Only what is news."""
        if problem is None and self._problems.pop(subject, None) is None:
            return
        if problem is not None:
            self._problems[subject] = problem
        if self._report is not None:
            self._report(subject, problem)


def _read_for(run_token: RunToken, body: bytes) -> MessageRequest:
    """What a request asks for.

    Raises RequestRefusedError, also where it names a model that is not the run's.
    """
    message = read_request(body)
    foreign = run_token.foreign_model((*message.models, message.model))
    if foreign is not None:
        asked = f"the model {foreign[:80]}" if foreign else "a request without a model"
        models = " or ".join(run_token.models) or "no model"
        raise RequestRefusedError(
            f"this gateway takes no requests for {asked}; this run may ask {models} "
            "(setting agent.model)"
        )
    return message


def _meter(response: UpstreamResponse) -> Meter:
    """An answer that came packed, though we asked for none such, is counted by its length."""
    is_packed = response.raw.headers.get("Content-Encoding", "identity").lower() != "identity"
    return Meter("" if is_packed else response.raw.headers.get("Content-Type", ""))


def _error(
    status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
