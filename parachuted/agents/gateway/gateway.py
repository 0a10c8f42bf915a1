"""Gateway: the Messages API as agents see it, with the credential added and budgets held."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from parachuted.agents.credentials import Login
from parachuted.agents.gateway.listeners import listen_in, start_server
from parachuted.agents.gateway.message_request import RequestRefusedError, read_request
from parachuted.agents.gateway.prices import Meter
from parachuted.agents.gateway.upstream import Upstream, UpstreamReport, UsageWindow, headers_down
from parachuted.agents.gateway.usage import (
    OVER_TIME,
    BudgetPool,
    BudgetState,
    OverBudgetError,
    RunToken,
    UsageStore,
)
from parachuted.errors import AgentFailedError, AgentUnavailableError, StorageFailedError

_ANTHROPIC = "https://api.anthropic.com"
_TARGETS = frozenset({"/v1/messages", "/v1/messages?beta=true"})  # as sent, however spelled
_BUSY = frozenset({408, 409, 429})
_LONGEST_RETRY_S = 60.0
_CONTENT = ("Content-Type", "Content-Encoding")
_SOCKET = "gateway.sock"
_SESSION = "X-Claude-Code-Session-Id"
_SESSION_CHARS = 100
_LARGEST_REQUEST = 32 << 20  # as the API's own
_MOST_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """At `url`, with `token` as its API key; or by `socket`, the run's own, without one."""

    url: str
    token: str
    model: str
    socket: Path | None = None


@dataclass(eq=False, slots=True)
class _OpenRun:
    """`slots`: the bodies of so many requests are in memory at once, others wait."""

    run_token: RunToken
    requests: set[asyncio.Task[Any]] = field(default_factory=set)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_AT_ONCE))
    is_stopped: bool = False

    async def end(self) -> None:
        """Stop it, and wait until its requests have been counted."""
        self.is_stopped = True
        for task in self.requests:
            task.cancel()
        if self.requests:
            await asyncio.wait([*self.requests])


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
    ) -> None:
        self.usage_store = usage_store
        self._runs: dict[str, _OpenRun] = {}
        self._upstream = Upstream(
            (base_url or _ANTHROPIC).rstrip("/"),
            partial(Login, env, vault, user_home),
        )
        self._opening = asyncio.Lock()
        self._runner: web.ServerRunner | None = None

    def report_to(self, report: UpstreamReport) -> None:
        """Report a subject and what is wrong with it, None once it is over, from now on."""
        self._upstream.report = report
        self.usage_store.report_problem = partial(report, "usage")
        report("usage", self.usage_store.database.problem)

    @asynccontextmanager
    async def open(
        self, run_token: RunToken, folder: Path | None = None, *, token: str | None = None
    ) -> AsyncIterator[Endpoint]:
        """A way to the model for one run; left, its requests have been ended and counted.

        `folder` is where `gateway.sock` is put: any process that can enter it may use it. `token`
        is that of an earlier run of the same process. Raises AgentUnavailableError, and
        AgentFailedError where the run has no money.
        """
        run, token = _OpenRun(run_token), token or secrets.token_urlsafe(32)
        own = None
        try:
            await self._admit(run_token)
            port = await self._port()
            if folder is not None:
                own = await start_server(partial(self._serve, run), listen_in(folder, _SOCKET))
        except (OSError, StorageFailedError) as error:
            raise AgentUnavailableError(
                f"the gateway to the model could not be opened: {error}"
            ) from error
        self._runs[token] = run
        try:
            yield Endpoint(
                url=f"http://127.0.0.1:{port}",
                token=token,
                socket=folder / _SOCKET if folder is not None else None,
                model=run_token.model,
            )
        finally:
            if self._runs.get(token) is run:
                del self._runs[token]
            await run.end()
            if own is not None and folder is not None:
                await own.cleanup()
                with suppress(OSError):
                    (folder / _SOCKET).unlink(missing_ok=True)

    def windows(self, now: datetime) -> dict[str, UsageWindow]:
        """How much of its account's windows a login has used; an API key has none."""
        return {
            name: window
            for name, window in self._upstream.windows.items()
            if window.resets_at is None or window.resets_at > now
        }

    async def close(self) -> None:
        for run in [*self._runs.values()]:
            await run.end()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._upstream.close()
        await asyncio.to_thread(self.usage_store.database.close)

    async def _port(self) -> int:
        async with self._opening:
            if self._runner is None:
                bound = socket.create_server(("127.0.0.1", 0))
                self._runner = await start_server(partial(self._serve, None), bound)
            return int(self._runner.addresses[0][1])

    async def _admit(self, run_token: RunToken) -> None:
        """An hour's or a day's money comes back with time; the run's own and its cause's do not."""
        budget = await asyncio.to_thread(self.usage_store.narrowest, run_token)
        self._report_exceeded(budget, run_token.pool)
        if budget.is_used_up:
            is_over_time = budget.setting in OVER_TIME[run_token.pool]
            raise (AgentUnavailableError if is_over_time else AgentFailedError)(str(budget))
        if (left := self._upstream.paused_s) > 0:
            raise AgentUnavailableError(self._upstream.pause_message, wait_s=left)

    async def _serve(self, run: _OpenRun | None, request: web.BaseRequest) -> web.StreamResponse:
        """`run` None: the one whose token the request has."""
        if request.method == "HEAD" and request.raw_path == "/":
            return web.Response()
        run = run or self._runs.get(request.headers.get("X-Api-Key", ""))
        try:
            return await self._serve_run(run, request)
        except (aiohttp.ClientError, OSError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()  # cut off as it was upstream: it must not look complete
            return web.Response()
        except RequestRefusedError as error:
            if isinstance(error, OverBudgetError) and run is not None:
                self._report_exceeded(error.budget, run.run_token.pool)
            is_passing = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR or error.status in _BUSY
            is_soon = self._upstream.paused_s <= _LONGEST_RETRY_S  # a task waits for longer
            again = {} if is_passing and is_soon else _NO_RETRY
            return _error(error.status, error.kind, str(error), {**error.headers, **again})
        except StorageFailedError as error:
            said = f"the model is not asked while its cost cannot be written down: {error.message}"
            return _error(503, "api_error", said)
        except AgentUnavailableError as error:
            said = self._upstream.clean(error.message)
            self._upstream.report("model", said)
            return _error(401, "authentication_error", said)

    async def _serve_run(
        self, run: _OpenRun | None, request: web.BaseRequest
    ) -> web.StreamResponse:
        task = asyncio.current_task()
        if run is None or run.is_stopped or task is None:
            said = "no run that goes on has this token"
            raise RequestRefusedError(said, status=401, kind="authentication_error")
        if request.method != "POST" or request.raw_path not in _TARGETS:
            said = "this gateway takes POST /v1/messages alone"
            raise RequestRefusedError(said, status=404, kind="not_found_error")
        run.requests.add(task)
        try:
            async with run.slots:
                body = await request.clone(client_max_size=_LARGEST_REQUEST).read()
                return await self._pass_on(run.run_token, request, body)
        finally:
            run.requests.discard(task)

    async def _pass_on(
        self, run_token: RunToken, request: web.BaseRequest, body: bytes
    ) -> web.StreamResponse:
        """The answer has no length, so that its agent sees its end once it has been counted."""
        message = read_request(body, run_token.model)
        session = run_token.session or request.headers.get(_SESSION, "")[:_SESSION_CHARS] or None
        run_token = replace(run_token, session=session)
        async with self.usage_store.charge(run_token, message) as charge:
            sent = message.body(charge.tokens.output)
            async with self._upstream.ask(
                request.raw_path, request.headers, sent, charge
            ) as source:
                # an answer that came packed, though we asked for none such, is not read
                is_packed = source.headers.get("Content-Encoding", "identity").lower() != "identity"
                charge.meter = Meter("" if is_packed else source.headers.get("Content-Type", ""))
                kept = {name: source.headers[name] for name in _CONTENT if name in source.headers}
                headers = headers_down(source.headers) | kept
                answer = web.StreamResponse(status=source.status, headers=headers)
                await answer.prepare(request)
                while piece := await source.content.readany():
                    charge.meter.feed(piece)
                    await answer.write(piece)
                return answer

    def _report_exceeded(self, exceeded: BudgetState, pool: BudgetPool) -> None:
        for setting in OVER_TIME[pool]:
            is_it = exceeded.is_used_up and exceeded.setting == setting
            self._upstream.report(setting, str(exceeded) if is_it else None)


_NO_RETRY = {"x-should-retry": "false"}


def _error(
    status: int, kind: str, message: str, headers: Mapping[str, str] = _NO_RETRY
) -> web.Response:
    document = {"type": "error", "error": {"type": kind, "message": message}}
    return web.json_response(document, status=status, headers=headers)
