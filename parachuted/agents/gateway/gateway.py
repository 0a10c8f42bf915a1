"""The Messages API as agents see it.

It knows which run is calling, adds the credential, counts the cost, and refuses what exceeds a
budget.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

import aiohttp
from aiohttp import web

from parachuted.agents.gateway.limits import (
    BudgetName,
    BudgetPool,
    Endpoint,
    ExceededBudget,
    MoneyLimits,
    RequestEstimate,
    RequestRefusedError,
    RunToken,
    read_request,
)
from parachuted.agents.gateway.listeners import GatewayListeners, Grant, HeldBody, OpenRun
from parachuted.agents.gateway.login import (
    COUNT,
    MESSAGES,
    TOKEN_URL,
    Login,
    allowed,
    headers_down,
    still_open,
    token_of,
)
from parachuted.agents.gateway.prices import Meter, Tokens, cost_of
from parachuted.agents.gateway.spending import Charge, OverBudgetError, Spending
from parachuted.agents.gateway.upstream import (
    FreeAttempts,
    Upstream,
    UpstreamError,
    UpstreamReport,
    UpstreamResponse,
)
from parachuted.agents.gateway.usage_store import UsageStore, UsageTotals
from parachuted.errors import (
    AgentFailedError,
    AgentUnavailableError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.redact import Redactor

_LARGEST_COUNT = 64 << 10


_BAD = 400


_FAULTS = 500


_BUSY = frozenset({408, 409, 429})


_SESSION = "X-Claude-Code-Session-Id"


_SESSION_CHARS = 100


_NOT_AGAIN = {"x-should-retry": "false"}


_OVER_TIME: Mapping[BudgetPool, tuple[BudgetName, ...]] = MappingProxyType(
    {"work": ("usd_per_hour", "usd_per_day"), "conversation": ("conversations_usd_per_day",)}
)


class Gateway:
    """One for a daemon.

    It begins to listen when the first way is opened, on the loop that does so.
    """

    def __init__(  # noqa: PLR0913  its parts, each by name
        self,
        *,
        env: Mapping[str, str],
        vault: Path,
        user_home: Path,
        base_url: str | None,
        usage_store: UsageStore,
        limits: MoneyLimits,
        clock: Callable[[], datetime],
        report: UpstreamReport | None = None,
        token_url: str = TOKEN_URL,
    ) -> None:
        """`report` takes a subject and what is wrong with it, or None once it is over."""
        self.limits, self.usage_store = limits, usage_store
        self._report = report
        self._grants: dict[str, Grant] = {}
        self._open: set[str] = set()

        def make_login(upstream: Upstream) -> Login:
            return Login(
                env=env,
                vault=vault,
                user_home=user_home,
                is_anthropic=upstream.is_anthropic,
                clock=clock,
                post=upstream.post,
                token_url=token_url,
            )

        self._upstream = Upstream(
            base_url=base_url, env=env, login=make_login, clock=clock, report=self._report_problem
        )
        self._spending = Spending(
            usage_store=usage_store,
            limits=limits,
            clock=clock,
            may_cost=self._upstream.may_cost,
            report=lambda said: self._report_problem("usage", said),
        )
        self._listening = GatewayListeners(self._serve_by_token)

    def report_to(self, report: UpstreamReport) -> None:
        """Report problems to `report` from now on, beginning with those of the usage store."""
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
    ) -> AsyncIterator[Grant]:
        """A way to the model for one process, which serves one run after another; left, it leads
        nowhere.

        `folder` is where `gateway.sock` is put, for a process that reaches nothing else. Any
        process that can enter the folder may use it. Raises AgentUnavailableError.
        """
        async with AsyncExitStack() as stack:
            grant = Grant(self._admit, token or secrets.token_urlsafe(32))
            try:
                grant.url = f"http://127.0.0.1:{await self._listening.port()}"
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
                grant.end()

    async def _admit(self, run_token: RunToken) -> None:
        """Raises AgentUnavailableError, also while an hour's or a day's money is used up;
        AgentFailedError when the run's own is, or its cause's.
        """
        try:
            await asyncio.to_thread(self._follow, run_token)
        except StorageFailedError as error:
            raise AgentUnavailableError(
                f"the gateway to the model could not be opened: {error}"
            ) from error
        if (over := self._refused(run_token)) is not None:
            raise _kept_out_by(over)
        if (left := self._upstream.paused_s()) > 0:
            raise AgentUnavailableError(self._upstream.pause_message(), wait_s=left)

    def windows(self, now: datetime) -> dict[str, Mapping[str, object]]:
        """How much of its account's windows a login has used, as the latest answers said; empty for
        an API key.
        """
        return still_open(self._upstream.windows, now)

    def spent(self, run: str) -> UsageTotals:
        """What a run has taken until now; of one that was opened not long ago."""
        return self.usage_store.followed("run", run)

    def price_notes(self, models: Iterable[str]) -> list[str]:
        """What there is to know about the prices of these models, where one is not known."""
        priced = (cost_of(model, Tokens(), may_cost=self._upstream.may_cost) for model in models)
        return [one.note for one in priced if one.note]

    def stop_all(self) -> int:
        """End the runs that go on: their requests, and their right to ask."""
        runs = [grant.present for grant in self._grants.values() if grant.present is not None]
        for run in runs:
            run.end()
        return len(runs)

    async def close(self) -> None:
        self.stop_all()
        await self._listening.close()
        await self._upstream.close()
        await self._spending.close()

    async def _serve_by_token(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "HEAD" and request.raw_path == "/":
            return web.Response()
        grant = self._grants.get(token_of(request.headers))
        return await self._serve(grant, request)

    async def _serve(self, grant: Grant | None, request: web.BaseRequest) -> web.StreamResponse:
        run = grant.present if grant is not None else None
        if run is None:
            return _error(401, "authentication_error", "no run that goes on has this token")
        if run.is_stopped:
            return _error(401, "authentication_error", "this run was stopped")
        found = allowed(request.method, request.raw_path)
        if found is None:
            return _error(
                404,
                "not_found_error",
                "this gateway takes POST /v1/messages and /v1/messages/count_tokens alone",
            )
        if request.method == "HEAD":
            return web.Response()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a request is served outside a task")
        run.requests[task] = request
        try:
            return await self._pass_on(run, request, *found)
        except (
            UpstreamError,
            OverBudgetError,
            RequestRefusedError,
            StorageFailedError,
            AgentUnavailableError,
        ) as error:
            return self._answer_to(run, error)
        finally:
            run.requests.pop(task, None)

    def _answer_to(self, run: OpenRun, error: Exception) -> web.Response:
        if isinstance(error, UpstreamError):
            wait = {} if error.wait_s is None else {"retry-after": f"{math.ceil(error.wait_s)}"}
            return _error(
                error.status, error.kind, str(error), **self._no_retry(run, error.status), **wait
            )
        if isinstance(error, StorageFailedError):
            return _error(
                503,
                "api_error",
                f"the model is not asked while its cost cannot be written down: {error.message}",
                **_NOT_AGAIN,
            )
        if isinstance(error, AgentUnavailableError):
            return _error(
                401, "authentication_error", self._upstream.clean(error.message), **_NOT_AGAIN
            )
        if isinstance(error, OverBudgetError):
            self._report_exceeded(error.over, run.run_token.pool)
        return _error(400, "invalid_request_error", str(error), **_NOT_AGAIN)

    async def _pass_on(
        self, run: OpenRun, request: web.BaseRequest, path: str, query: str
    ) -> web.StreamResponse:
        if path == MESSAGES and (over := self._refused(run.run_token)) is not None:
            raise OverBudgetError(over)
        with HeldBody(run) as body:
            if not await body.read(request):
                return _error(
                    413,
                    "request_too_large",
                    "a request is at most 32 MB, and all of a run's at once 64",
                )
            estimate = self._read(run.run_token, body.data)
            if path == COUNT:
                return await self._send_on(run, request, f"{path}?{query}", body.data, None)
            session = (
                run.run_token.session or request.headers.get(_SESSION, "")[:_SESSION_CHARS] or None
            )
            async with self._spending.charge(
                run.run_token, session, estimate, partial(self._count_tokens, request.headers)
            ) as charge:
                sent = (
                    body.data
                    if estimate.asks_for(charge.purchase.output)
                    else estimate.body(charge.purchase.output)
                )
                return await self._send_on(run, request, f"{path}?{query}", sent, charge)

    def _read(self, run_token: RunToken, body: bytes) -> RequestEstimate:
        """What a request asks for.

        Raises RequestRefusedError, also where it names a model that is not the run's.
        """
        estimate = read_request(body)
        if (foreign := run_token.foreign_model((*estimate.models, estimate.model))) is not None:
            asked = f"the model {foreign[:80]}" if foreign else "a request without a model"
            allowed_ones = " or ".join(run_token.models) or "no model"
            raise RequestRefusedError(
                f"this gateway takes no requests for {asked}; this run may ask {allowed_ones} "
                "(setting agent.model)"
            )
        return estimate

    async def _count_tokens(
        self, headers: Mapping[str, str], estimate: RequestEstimate
    ) -> int | None:
        """A request's input tokens as the model's server counts them, free of charge; None if it
        does not.
        """
        try:
            async with self._upstream.ask(
                COUNT, "", headers, estimate.count_body(), FreeAttempts()
            ) as response:
                data = response.first
                while len(data) < _LARGEST_COUNT and (more := await response.raw.content.readany()):
                    data += more
                found = json.loads(data).get("input_tokens") if response.status < _BAD else None
        except (
            UpstreamError,
            aiohttp.ClientError,
            OSError,
            TimeoutError,
            ValueError,
            AttributeError,
        ):
            return None
        return (
            found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None
        )

    async def _send_on(
        self,
        run: OpenRun,
        request: web.BaseRequest,
        target: str,
        body: bytes,
        charge: Charge | None,
    ) -> web.StreamResponse:
        path, _, query = target.partition("?")
        model = charge.purchase.estimate.model if charge is not None else None
        async with self._upstream.ask(
            path, query, request.headers, body, charge or FreeAttempts(), model=model
        ) as response:
            if response.status >= _BAD:
                return self._refusal(response, self._no_retry(run, response.status))
            meter = _meter(response) if charge is not None else None
            try:
                return await self._relay(request, response, meter)
            finally:
                if charge is not None and meter is not None:
                    run.has_answer = True
                    charge.answered(meter.read())

    def _no_retry(self, run: OpenRun, status: int) -> dict[str, str]:
        """The header that keeps the agent from trying again what was tried here.

        In the middle of its work it may, while its time lasts: what it did would be lost. Before
        that, its task waits better than a process does.
        """
        is_passing = status >= _FAULTS or status in _BUSY
        return {} if is_passing and run.has_answer else _NOT_AGAIN

    def _refusal(self, response: UpstreamResponse, more_headers: Mapping[str, str]) -> web.Response:
        text = self._upstream.clean(response.first.decode("utf-8", "replace"))
        headers = {**self._headers(response), **more_headers}
        headers.pop("content-encoding", None)
        if response.raw.status < _BAD:  # it was an event of a stream
            headers["content-type"] = "application/json"
        return web.Response(status=response.status, body=text.encode(), headers=headers)

    def _headers(self, response: UpstreamResponse) -> dict[str, str]:
        return {
            name: self._upstream.clean(value)
            for name, value in headers_down(response.raw.headers).items()
        }

    async def _relay(
        self, request: web.BaseRequest, response: UpstreamResponse, meter: Meter | None
    ) -> web.StreamResponse:
        """Stream the answer, with any secret that the server repeats removed.

        An answer cut off upstream is cut off here, so that it does not look complete.
        """
        source, redactor = response.raw, Redactor(self._upstream.login.secrets)
        answer = web.StreamResponse(status=source.status, headers=self._headers(response))
        answer.content_length = source.content_length
        piece = response.first
        try:
            await answer.prepare(request)
            while piece:
                if meter is not None:
                    meter.feed(piece)
                if shown := redactor.over(piece):
                    await answer.write(shown)
                piece = await source.content.readany()
            if rest := redactor.rest():
                await answer.write(rest)
        except (aiohttp.ClientError, OSError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()
        return answer

    def _refused(self, run_token: RunToken) -> ExceededBudget | None:
        over = self._spending.over(run_token)
        self._report_exceeded(over, run_token.pool)
        return over

    def _report_exceeded(self, over: ExceededBudget | None, pool: BudgetPool) -> None:
        for budget in _OVER_TIME[pool]:
            is_it = over is not None and over.budget == budget
            if is_it or f"budget:{budget}" in self._open:
                self._report_problem(f"budget:{budget}", str(over) if is_it else None)

    def _follow(self, run_token: RunToken) -> None:
        self.usage_store.open()
        self.usage_store.follow(
            run_token.run,
            run_token.causes,
            run_token.session if run_token.pool == "conversation" else None,
        )

    def _report_problem(self, subject: str, problem: str | None) -> None:
        """Only what is news."""
        if problem is None and subject not in self._open:
            return
        self._open.add(subject) if problem is not None else self._open.discard(subject)
        if self._report is not None:
            self._report(subject, problem)


def _meter(response: UpstreamResponse) -> Meter:
    """An answer that came packed, though we asked for none such, is counted by its length."""
    is_packed = response.raw.headers.get("Content-Encoding", "identity").lower() != "identity"
    return Meter("" if is_packed else response.raw.headers.get("Content-Type", ""))


def _kept_out_by(over: ExceededBudget) -> ParachuteError:
    """An hour's and a day's money comes back with time, so work waits for it; a run's and a cause's
    does not.
    """
    return (
        AgentUnavailableError
        if any(over.budget in budgets for budgets in _OVER_TIME.values())
        else AgentFailedError
    )(str(over))


def _error(status: int, kind: str, message: str, **headers: str) -> web.Response:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)
