"""Agent sandboxes: what a run's container is given, and what comes of the work in it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from parachuted.access.agent_config import AgentConfig
from parachuted.access.grant import Grant, build_grant
from parachuted.access.own_folders import OwnFolders
from parachuted.access.strangers import Taint
from parachuted.agents.job import RunFolder, ToolResult
from parachuted.errors import AgentFailedError
from parachuted.keys import EVERYWHERE
from parachuted.runs.run_container import RunContainers
from tests.agents.sandbox.conftest import files_in, fill
from tests.modules.module_rig import ModuleRig
from tests.runs.task_rig import SmallRun


@dataclass
class FakeSandboxes:
    folder: Path
    problem: str | None = None
    user = (os.getuid(), os.getgid())

    async def status(self) -> FakeSandboxes:
        return self

    @contextlib.asynccontextmanager
    async def prepare(self) -> AsyncIterator[RunFolder]:
        folder = RunFolder(self.folder / "run")
        shutil.rmtree(folder.path, ignore_errors=True)
        folder.sockets.mkdir(parents=True)
        yield folder


class ContainedRun(SmallRun):
    """`allow` is what a person says to a command; hosts are refused."""

    def __init__(self, rig: ModuleRig, grant: Grant, taint: Taint, *, allow: bool) -> None:
        super().__init__(rig, grant=replace(grant, asks=True), taint=taint, ask=self._ask)
        self.asked: list[str] = []
        self.said: list[str] = []
        self.add_words = self.said.append
        self._allow = allow

    async def _ask(self, kind: str, what: str, _why: str) -> bool:
        self.asked += [what] if kind == "bash" else []
        return kind == "bash" and self._allow


@dataclass
class AgentSandboxRig:
    module_rig: ModuleRig
    sandboxes: FakeSandboxes
    boxes: RunContainers
    taint: Taint

    def run(self, *, allow: bool = False, **config: object) -> ContainedRun:
        agent = AgentConfig(
            **{"paths": ["Work/**"], "capabilities": ["read", "write"], "bash": ["git"], **config}
        )
        grant = build_grant(
            agent, agent="a", bounds_read=EVERYWHERE, bounds_write=EVERYWHERE, entry="cli"
        )
        return ContainedRun(self.module_rig, grant, self.taint, allow=allow)


@pytest.fixture
def sandbox_rig(module_rig: ModuleRig, tmp_path: Path) -> AgentSandboxRig:
    module_rig.save("Work/a.md", "# A\n")
    module_rig.save("Private/b.md", "heliotrope\n")
    sandboxes = FakeSandboxes(tmp_path)
    boxes = RunContainers(
        sandboxes=sandboxes,
        store=module_rig.store,
        index=module_rig.library.index,
        user_home=tmp_path,
        own_folders=OwnFolders((), tmp_path),
    )
    return AgentSandboxRig(module_rig=module_rig, sandboxes=sandboxes, boxes=boxes, taint=Taint())


async def test_a_run_gets_a_copy_of_what_it_may_read_and_its_work_is_taken_over(
    sandbox_rig: AgentSandboxRig,
):
    run = sandbox_rig.run()
    async with sandbox_rig.boxes.open(run) as job:
        folder = job.native.sandbox.folder
        assert files_in(folder.notes) == {"Work/a.md": "# A\n"}
        assert "1 files" in job.system_prompt
        fill(folder.returned, None, **{"Work/a.md": "# A\n\nnew\n", ".git/x": ""})
        assert await job.native.before("Bash", {"command": "curl x"}) is not None
        assert await job.native.before("Bash", {"command": "git status"}) is None
    assert sandbox_rig.module_rig.text("Work/a.md") == "# A\n\nnew\n"
    assert [written.path for written in run.written] == ["Work/a.md"]
    assert ["stays in the container" in words for words in run.said] == [True]

    async def fail() -> None:
        async with sandbox_rig.boxes.open(sandbox_rig.run()) as job:
            fill(job.native.sandbox.folder.returned, None, **{"Work/a.md": "# Half\n"})
            raise AgentFailedError

    with pytest.raises(AgentFailedError):
        await fail()
    assert sandbox_rig.module_rig.text("Work/a.md") == "# A\n\nnew\n"


@contextlib.asynccontextmanager
async def connected(sockets: Path, sent: bytes) -> AsyncIterator[asyncio.StreamReader]:
    at = os.open(sockets, os.O_RDONLY)
    try:
        reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{at}/proxy.sock")
    finally:
        os.close(at)
    writer.write(sent)
    yield reader
    writer.close()


async def asked(sockets: Path, host: str) -> str:
    async with connected(sockets, f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode()) as reader:
        return (await reader.read()).decode()


async def test_a_network_is_a_proxy_that_reaches_nothing_after_a_strangers_text(
    sandbox_rig: AgentSandboxRig,
):
    async with sandbox_rig.boxes.open(sandbox_rig.run(network=["a.invalid"])) as job:
        box = job.native.sandbox
        assert box.network == ("a.invalid",)
        assert "a was not granted b.invalid:443" in await asked(box.folder.sockets, "b.invalid")
        assert "was not granted" not in await asked(box.folder.sockets, "a.invalid")
        sandbox_rig.taint.read("Inbox/mail.md")
        assert "(Inbox/mail.md), so it may reach no network any more" in await asked(
            box.folder.sockets, "a.invalid"
        )
    async with sandbox_rig.boxes.open(sandbox_rig.run()) as job:
        assert not (job.native.sandbox.folder.sockets / "proxy.sock").exists()


@pytest.mark.parametrize("answer", [True, False])
async def test_a_command_beyond_the_list_is_asked_of_a_person_each_time(
    sandbox_rig: AgentSandboxRig, *, answer: bool
):
    run = sandbox_rig.run(allow=answer)
    asked = run.asked
    async with sandbox_rig.boxes.open(run) as job:
        before = job.native.before
        assert await before("Bash", {"command": "git status"}) is None
        assert asked == []
        for number in (1, 2):
            assert (await before("Bash", {"command": "make all"}) is None) == answer
            assert asked == ["make all"] * number
        assert await before("Bash", {"command": "make more", "run_in_background": True})
        sandbox_rig.taint.read("Inbox/a.md")
        assert "strangers" in str(await before("Bash", {"command": "rm all"}))
        assert "rm all" not in asked
    sandbox_rig.taint = Taint()
    run = sandbox_rig.run(allow=answer, bash=False, paths=["~/x/", "Work/**"])
    async with sandbox_rig.boxes.open(run) as job:
        assert await job.native.before("Bash", {"command": "ls"}) is not None
    assert run.asked == []


async def test_what_is_open_to_the_network_ends_when_a_strangers_text_is_read(
    sandbox_rig: AgentSandboxRig,
):
    async with sandbox_rig.boxes.open(sandbox_rig.run(network=["a.invalid"])) as job:
        sockets, file = job.native.sandbox.folder.sockets, {"file_path": "/vault/Work/a.md"}
        acts = (
            lambda: asyncio.to_thread(sandbox_rig.taint.read, "Inbox/mail.md"),
            lambda: job.native.before("Read", file),
            lambda: job.native.after("Read", file, ToolResult(text="")),
        )
        for act in acts:
            async with connected(sockets, b"CONNECT a.inva") as reader:
                await asked(sockets, "b.invalid")  # which came after the other one
                await act()
                with contextlib.suppress(ConnectionResetError):
                    left = await asyncio.wait_for(reader.read(), 30)
                    assert left == b""  # a request may take ten seconds
