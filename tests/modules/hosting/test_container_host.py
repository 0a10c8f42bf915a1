"""A module in a real container: it serves as any other, whatever it does there, and it reaches
nothing but the services that its key opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import docker
import pytest

from parachuted.access.authority import Authority, current
from parachuted.access.origin import Taint
from parachuted.agents.sandbox import Sandboxes
from parachuted.agents.sandbox.options import LABEL
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.modules.hosting.container_host import ContainerHost, RestartDelays
from parachuted.modules.results import Response
from parachuted.modules.services import Services
from tests.modules.container_rig import ContainerRig
from tests.modules.module_rig import ModuleRig
from tests.modules.small_modules import StubServices, approve, until, write_module

QUICK = RestartDelays(first_wait_s=0.05)
Host = Callable[..., AbstractAsyncContextManager[ContainerHost]]


@pytest.fixture
def rig(tmp_path: Path, sandboxes: Sandboxes) -> ContainerRig:
    return ContainerRig(tmp_path / "rig", sandboxes)


@pytest.fixture
def containers(engine: Mapping[str, str], sandboxes: Sandboxes) -> Callable[[], list[str]]:
    """Those of these sandboxes that the engine has, running or not."""
    client = docker.DockerClient.from_env(environment=dict(engine))
    label = f"{LABEL}={sandboxes._owner.daemon}"
    yield lambda: [one.id for one in client.containers.list(all=True, filters={"label": label})]
    client.close()


@pytest.fixture
def hosted(tmp_path: Path, rig: ContainerRig, containers: Callable[[], list[str]]) -> Host:
    """`async with hosted(body, services) as host`, started; nothing of it is left."""

    @contextlib.asynccontextmanager
    async def live(
        body: str, services: Services | None = None, manifest: str = ""
    ) -> AsyncIterator[ContainerHost]:
        folder = write_module(tmp_path / "copies/daily", body, manifest=manifest)
        approved = approve(folder, trust="untrusted")
        made = services or StubServices()
        host = ContainerHost(
            approved, made(approved) if callable(made) else made, rig.containers, pace=QUICK
        )
        await host.start()
        try:
            yield host
        finally:
            await host.stop()
            assert containers() == []
            assert list(rig.run.iterdir()) == []
            assert rig.ring._kept == []

    return live


SERVES = """
@route("GET", "/hello")
async def hello(self, n: int = 1):
    print("printed")
    self.log.warning("logged\\x1b[2J")
    return {"n": n}

@route("GET", "/created")
async def created(self):
    return Response(status=201, body={"a": 1}, headers={"X-A": "b"})

@route("GET", "/count")
async def count(self, n: int = 3):
    for i in range(n):
        yield {"i": i}

@event("daily.x")
async def said(self, a: int):
    await self.state.put("said", a)

@interface("BrainInterface")
async def suggest(self, text, limit=1):
    return [{"text": text, "limit": limit}]

async def on_enable(self):
    await self.state.put("enabled", True)

async def on_disable(self):
    await self.state.put("disabled", True)
"""


async def test_it_serves_as_a_module_in_the_daemon_does(hosted, caplog):
    services = StubServices()
    async with hosted(SERVES, services, "provides: [BrainInterface]\n") as host:
        assert services.state.kept == {"enabled": True}
        assert await host.call("hello", {}, query={"n": "3"}) == {"n": 3}
        assert await host.call("created", {}) == Response(
            status=201, body={"a": 1}, headers={"X-A": "b"}
        )
        assert [item async for item in host.stream("count", {}, query={"n": "4"})] == [
            {"i": n} for n in range(4)
        ]
        await host.tell("said", {"a": 5, "more": 1})
        assert services.state.kept["said"] == 5
        assert await host.interface("BrainInterface").suggest("text", limit=2) == [
            {"text": "text", "limit": 2}
        ]
        await until(lambda: "logged" in caplog.text and "printed" in caplog.text)
        assert "\x1b" not in caplog.text
        assert host.problem is None

    assert services.state.kept["disabled"] is True
    with pytest.raises(ModuleFailedError):
        await host.call("hello", {})
