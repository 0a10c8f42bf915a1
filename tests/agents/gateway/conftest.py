"""A gateway before a scripted model, with a clock that a test moves, and an agent that asks."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from parachuted.agents.gateway.gateway import Endpoint, Gateway
from parachuted.agents.gateway.usage import MoneyLimits, RunToken, UsageStore
from parachuted.testing import ScriptedMessages

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
KEY = "sk-ant-canary-0123456789abcdef"
MODEL = "claude-haiku-4-5-20251001"
BODY = {
    "model": MODEL,
    "max_tokens": 100,
    "stream": True,
    "messages": [{"role": "user", "content": "hi"}],
}


def run_token(name: str = "run-1", **parts: object) -> RunToken:
    usual = {
        "agent": "curator",
        "causes": ("cause-1",),
        "session": None,
        "max_cost_usd": 100.0,
        "model": MODEL,
    }
    return RunToken(run=name, **{**usual, **parts})


@dataclass(frozen=True)
class Answer:
    """What an agent got; `is_cut` when it broke off."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    is_cut: bool

    @property
    def error(self) -> Mapping[str, str]:
        document = json.loads(self.body)
        assert document["type"] == "error"
        return document["error"]


@dataclass
class GatewayRig:
    """One gateway. `reported` are its problems, as they stand; `now` is its time."""

    gateway: Gateway
    usage_store: UsageStore
    folder: Path
    now: list[datetime]
    reported: dict[str, str] = field(default_factory=dict)

    def report(self, subject: str, problem: str | None) -> None:
        self.reported.pop(subject, None)
        if problem is not None:
            self.reported[subject] = problem

    @asynccontextmanager
    async def run(
        self, name: str = "run-1", folder: Path | None = None, **parts: object
    ) -> AsyncIterator[Endpoint]:
        async with self.gateway.open(run_token(name, **parts), folder) as way:
            yield way

    async def ask(
        self,
        way: Endpoint,
        path: str = "/v1/messages?beta=true",
        *,
        token: str | None = None,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        body: object = BODY,
        by_socket: bool = False,
    ) -> Answer:
        connector = aiohttp.UnixConnector(str(way.socket)) if by_socket else None
        url = "http://localhost" if by_socket else way.url
        sent = {
            "x-api-key": way.token if token is None else token,
            "anthropic-version": "2023-06-01",
            **(headers or {}),
        }
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with (
            aiohttp.ClientSession(connector=connector, auto_decompress=False) as session,
            session.request(method, url + path, data=io.BytesIO(data), headers=sent) as response,
        ):
            body, is_cut = bytearray(), False
            try:
                async for piece in response.content.iter_any():
                    body += piece  # what came before a cut counts
            except aiohttp.ClientError:
                is_cut = True
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, headers, bytes(body), is_cut)


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture
async def make_gateway_rig(tmp_path: Path) -> AsyncIterator[Callable[..., GatewayRig]]:
    """Makes gateways before a server; keywords override the limits, or `env`."""
    async with AsyncExitStack() as stack:

        def make(base_url: str | None, **parts: object) -> GatewayRig:
            dollars = {
                name: parts.pop(name, 1_000.0)
                for name in ("usd_per_cause", "usd_per_hour", "usd_per_day")
            }
            now = [datetime(2026, 11, 22, 12, 0, tzinfo=UTC)]
            usage_store = UsageStore(
                tmp_path / "usage.db",
                lambda: datetime.timestamp(now[0]),
                MoneyLimits(**dollars),
                may_cost=False,
                clock=lambda: now[0],
            )
            gateway = Gateway(
                env=parts.get("env", {"ANTHROPIC_API_KEY": KEY}),
                vault=tmp_path / "vault",
                user_home=tmp_path / "user",
                base_url=base_url,
                usage_store=usage_store,
            )
            gateway_rig = GatewayRig(gateway, usage_store, tmp_path, now)
            gateway.report_to(gateway_rig.report)
            stack.push_async_callback(gateway.close)
            return gateway_rig

        yield make


@pytest.fixture
async def api() -> AsyncIterator[ScriptedMessages]:
    async with ScriptedMessages() as api:
        yield api


@pytest.fixture
def gateway_rig(api: ScriptedMessages, make_gateway_rig: Callable[..., GatewayRig]) -> GatewayRig:
    return make_gateway_rig(api.url)
