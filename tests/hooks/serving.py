"""Serving: the routes of hooks on a port, for those who are let in, with nothing else of the
daemon.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from parachuted.api.http.answers import answer_to
from parachuted.api.http.decorators import routes_of
from parachuted.api.http.route import ApiCall
from parachuted.api.routes.hooks import HookRoutes
from parachuted.hooks import Hooks
from parachuted.keys import EVERYTHING, Identity, KeyScope
from parachuted.vault import Requester

PERSON = Identity(kind="loopback", id="loopback", name="loopback", scopes=EVERYTHING)
READER = Identity(
    kind="key",
    id="k_1",
    name="a reader",
    scopes=(KeyScope(module="system", capabilities=frozenset({"read"})),),
)


@dataclass(frozen=True, kw_only=True)
class HookRoutesServer:
    """What the routes are given, and where they are."""

    hooks: Hooks
    vault: Path
    clock: Callable[[], datetime]
    url: str = ""


@contextlib.asynccontextmanager
async def running_hooks(home: Path, vault: Path, **options: Any) -> AsyncIterator[Hooks]:
    """The hooks of a home, as the daemon makes them; `options` are other arguments."""
    usual = {
        "runs": home / "run" / "hook-runs",
        "clock": lambda: datetime.now(UTC),
        "report": lambda *_: None,
        "env": {"PATH": "/usr/bin:/bin"},
    }
    hooks = Hooks(home=home, vault=vault, **{**usual, **options})
    try:
        yield hooks
    finally:
        await hooks.close()


@contextlib.asynccontextmanager
async def serving(
    home: Path, vault: Path, identity: Identity = PERSON
) -> AsyncIterator[HookRoutesServer]:
    """Answer as the front would, for `identity`."""
    async with running_hooks(home, vault) as hooks:
        parts = HookRoutesServer(hooks=hooks, vault=vault, clock=lambda: datetime.now(UTC))
        app = web.Application()
        for route in routes_of(HookRoutes(parts.hooks, parts.vault, parts.clock)):
            app.router.add_route(route.method, route.path, answering(route, identity))
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield HookRoutesServer(
                hooks=hooks,
                vault=vault,
                clock=parts.clock,
                url=f"http://127.0.0.1:{runner.addresses[0][1]}",
            )
        finally:
            await runner.cleanup()


def answering(route, identity):
    async def answer(request: web.Request) -> web.StreamResponse:
        if identity.grant(route.module, route.capability) is None:
            return web.json_response({"message": "not for this key"}, status=403)
        try:
            files: Any = None
            return await route.handle(
                ApiCall(
                    request=request,
                    route=route,
                    identity=identity,
                    files=files,
                    requester=Requester("api_key", "key", "r"),
                )
            )
        except Exception as error:  # noqa: BLE001  as the front does
            return answer_to(error, request, "r")

    return answer


def put_settings(home: Path, text: str, mode: int = 0o600) -> None:
    (home / "hooks.yaml").write_text(text)
    (home / "hooks.yaml").chmod(mode)


def drop(home: Path, name: str, text: str) -> Path:
    """A script in the home's hooks folder."""
    folder = home / "hooks"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path
