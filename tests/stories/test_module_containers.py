"""An untrusted module, from its installation to the end of its daemon, on a real Docker engine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import docker
import pytest

from parachuted.agents.sandbox.options import LABEL
from tests.api.calls import call, get
from tests.api.routes.test_modules import install
from tests.stories.apart import apart
from tests.stories.daemon_rig import save

MODULE = """
import os
import signal
from parachuted.modules import Module, route

class StayModule(Module):
    @route("POST", "/write")
    async def write(self, path: str):
        return await self.vault.create(path, "# By a stranger\\n")

    @route("POST", "/stay")
    async def stay(self):
        os._exit = lambda code: None
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        return {}
"""
MANIFEST = """name: stay
version: 0.1.0
module: module.py
permissions: {read: [Stay/**], write: [Stay/**]}
"""


@pytest.fixture
def client(
    engine: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[docker.DockerClient]:
    for name, value in engine.items():
        monkeypatch.setenv(name, value)
    found = docker.DockerClient.from_env(environment=dict(engine))
    yield found
    found.close()


async def test_it_writes_what_it_may_is_undone_and_ends_with_its_daemon(
    vault: Path, home: Path, tmp_path: Path, client: docker.DockerClient
):
    save(tmp_path / "stay/manifest.yaml", MANIFEST)
    save(tmp_path / "stay/module.py", MODULE)

    def running() -> set[str]:
        found = client.containers.list(all=True, filters={"label": LABEL})
        return {one.id for one in found if one.name.startswith("parachute-program")}

    others = running()
    async with apart(vault, home) as daemon_rig:
        shown = await install(daemon_rig, tmp_path / "stay", "untrusted")
        assert (shown["status"], shown["where"]) == ("running", "container"), shown["problem"]
        first = running() - others
        assert len(first) == 1
        status, _ = await call(daemon_rig, "POST", "/api/stay/write", json={"path": "Stay/a.md"})
        assert status == 200
        status, _ = await call(daemon_rig, "POST", "/api/stay/write", json={"path": "other.md"})
        assert status == 403
        history = await get(daemon_rig, "/api/history?path=Stay/a.md")
        run = history["versions"][0]["run"]
        status, _ = await call(daemon_rig, "POST", f"/api/runs/{run}/undo")
        assert status == 200
        assert not (vault / "Stay/a.md").exists()
        assert await call(daemon_rig, "POST", "/api/stay/stay") == (200, {})
        os.kill(daemon_rig.pid, signal.SIGKILL)

    async with apart(vault, home) as daemon_rig:
        async with asyncio.timeout(60):
            while (await get(daemon_rig, "/api/modules/stay"))["status"] != "running":
                await asyncio.sleep(0.05)
        second = running() - others
        assert len(second) == 1
        assert not first & second
    assert running() == others
