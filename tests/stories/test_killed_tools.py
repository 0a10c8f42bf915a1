"""Killed in the middle of a tool: the container's program, the daemon, all agents, a module, a
grant; every file is old or new.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from parachuted.agents.sandbox import Sandboxes
from parachuted.testing import Block, ScriptedMessages, ToolUse, say, use
from tests.api.calls import call, get, post
from tests.api.routes.test_modules import install
from tests.stories.apart import DaemonProcess, apart
from tests.stories.boxed import SandboxedDaemon, boxed, native
from tests.stories.daemon_rig import save, seeded
from tests.stories.hostile_world import MANIFEST, MODULE, docker, its_boxes

NOTES = 8
MOVES = ("here.md", "there.md")
RUN = "/api/agents/keeper/shell/run"
ENTRY = "  keeper:\n"
NARROWED = "  keeper:\n    agents: {shell: {paths: [Work/0.md]}}\n"
_IN_PIECES = """\
python3 - <<'E'
import os, time
for n in range(%d):
    with open(f'/vault/Work/{n}.md', 'w') as note:
        for piece in [f'# Note {n}\\n\\n', *['turn %d\\n' * 500] * 8]:
            note.write(piece)
            note.flush()
            time.sleep(0.005)
for one, other in (('here.md', 'there.md'), ('there.md', 'here.md')):
    if os.path.exists('/vault/Work/' + one):
        os.rename('/vault/Work/' + one, '/vault/Work/' + other)
        break
E"""


def text(number: int, turn: int) -> str:
    """What a note says at one turn: long enough that half of it could be told."""
    return f"# Note {number}\n\n" + f"turn {turn}\n" * 4_000


def turns(first: int, count: int) -> list[list[Block]]:
    """A shell that writes all notes in pieces and gives one another name, the tool that writes
    whole files, and our own, in turn.
    """
    made: list[list[Block]] = []
    for turn in range(first, first + count):
        write: ToolUse = native(
            "Write", file_path=f"/vault/Work/{turn % NOTES}.md", content=text(turn % NOTES, turn)
        )
        path = f"Work/{(turn + 1) % NOTES}.md"
        ours = [
            use("read_note", path=path),
            use("write_note", path=path, text=text((turn + 1) % NOTES, turn)),
        ]
        made.append(
            [native("Bash", command=_IN_PIECES % (NOTES, turn), description="write"), write, *ours]
        )
    return [*made, [say("Done.")]]


def fill(folder: Path) -> None:
    for number in range(NOTES):
        save(folder / f"vault/Work/{number}.md", text(number, 0))
    save(folder / "vault/Work/here.md", "# Here or there\n")
    save(folder / "vault/Private/secret.md", "# Secret\n")
    save(folder / "keeper/manifest.yaml", MANIFEST)
    save(folder / "keeper/module.py", MODULE)


def torn(vault: Path, last: int, *, was_killed: bool = False) -> list[str]:
    """What is neither as it was nor as any turn made it.

    A daemon that was killed leaves a file of its own, which the next one removes.
    """
    found = {
        path.relative_to(vault).as_posix(): path
        for path in vault.rglob("*")
        if path.is_file() and ".parachute" not in path.parts
    }
    wrong = []
    for number in range(NOTES):
        said = found.pop(f"Work/{number}.md").read_text()
        turn = said.rpartition("turn ")[2].strip()
        if not turn.isdigit() or int(turn) > last or said != text(number, int(turn)):
            wrong.append(f"Work/{number}.md: {len(said)} characters, {said[-20:]!r}")
    moved = [path for name in MOVES if (path := found.pop(f"Work/{name}", None)) is not None]
    wrong += (
        []
        if [path.read_text() for path in moved] == ["# Here or there\n"]
        else [f"here and there: {moved}"]
    )
    wrong += (
        [] if found.pop("Private/secret.md").read_text() == "# Secret\n" else ["Private/secret.md"]
    )
    ours = [
        name
        for name in found
        if was_killed and name.startswith("Work/.parachute-") and name.endswith(".tmp")
    ]
    return [
        *wrong,
        *(name for name in found if not name.startswith("Modules/") and name not in ours[:1]),
    ]


def is_written(vault: Path) -> bool:
    """Whether a tool of ours has written; what a container made comes back when its run ends."""
    return any((vault / f"Work/{index}.md").read_text() != text(index, 0) for index in range(NOTES))


@dataclass
class RunEndings:
    """The ways in which a run is ended by others, each put right again afterwards."""

    box: SandboxedDaemon
    engine: Mapping[str, str]
    home: Path

    async def killed(self) -> None:
        """The container's programs, all of them, at once."""
        boxes = await asyncio.to_thread(its_boxes, self.engine, self.home)
        await asyncio.to_thread(docker, self.engine, "kill", "-s", "KILL", *boxes)

    async def stopped(self) -> None:
        """All agents, by a person."""
        await post(self.box.daemon_rig, "/api/agents/stop")
        await self.at_rest()
        await post(self.box.daemon_rig, "/api/resume")

    async def switched_off(self) -> None:
        """The module."""
        await post(self.box.daemon_rig, "/api/modules/keeper/disable")
        await self.at_rest()
        await post(self.box.daemon_rig, "/api/modules/keeper/enable")

    async def narrowed(self) -> None:
        """The grant, in modules.yaml."""
        file = self.home / "modules.yaml"
        whole = file.read_text()
        assert ENTRY in whole
        reported = len(self.box.daemon_rig.reported("module.disabled"))
        _replace(file, whole.replace(ENTRY, NARROWED))
        await self.box.daemon_rig.until(
            lambda: len(self.box.daemon_rig.reported("module.disabled")) > reported
        )
        await self.at_rest()
        enabled = len(self.box.daemon_rig.reported("module.enabled"))
        _replace(file, whole)
        await self.box.daemon_rig.until(
            lambda: len(self.box.daemon_rig.reported("module.enabled")) > enabled
        )

    async def at_rest(self) -> None:
        await self.box.daemon_rig.until(
            lambda: not self.box.daemon_rig.daemon.agents.active_runs.all(), 30
        )


def _replace(file: Path, words: str) -> None:
    made = file.with_name("modules.yaml.new")
    made.write_text(words)
    made.chmod(0o600)
    made.replace(file)


@pytest.mark.timeout(900)
async def test_a_run_ended_at_any_moment_of_a_tool_leaves_every_file_old_or_new(
    engine: Mapping[str, str], home: Path, vault: Path, tmp_path: Path, torture
):
    fill(tmp_path)
    seed, rng = seeded()
    last = 0
    async with boxed(
        engine, home, vault, agent__max_turns=100, agent__timeout_s=60, budget__runs_per_hour=1_000
    ) as box:
        daemon_rig, ends = box.daemon_rig, RunEndings(box, engine, home)
        reported = await install(daemon_rig, tmp_path / "keeper")
        assert reported["status"] == "running", reported["problem"]
        await daemon_rig.settled()
        every: list[Callable[[], Awaitable[None]]] = [
            ends.killed,
            ends.stopped,
            ends.switched_off,
            ends.narrowed,
        ]
        for number in range(60 if torture else 1):
            way = every[number % len(every)] if torture else rng.choice(every)
            async with asyncio.TaskGroup() as group:
                first = len(box.api.asked)
                box.api.add(*turns(last + 1, 60))
                group.create_task(call(daemon_rig, "POST", RUN, json={"prompt": "Write."}))
                await daemon_rig.until(lambda seen=first: len(box.api.asked) > seen + 1, 30)
                await asyncio.sleep(rng.uniform(0, 0.8))
                await way()
                await ends.at_rest()
            last += len(box.api.asked) - first
            box.api._turns.clear()
            await daemon_rig.settled()

            assert torn(vault, last) == [], f"seed {seed}, {way.__name__} at {number}"
        assert (await get(daemon_rig, "/api/health"))["status"] in {"ok", "healthy", "degraded"}
        assert is_written(vault)


def program(home: Path, vault: Path, engine: Mapping[str, str], url: str):
    """A daemon in a process of its own."""
    environ = {
        **engine,
        "PARACHUTE_AGENT_BACKEND": "claude",
        "PARACHUTE_AGENT_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-api03-x",
        "PARACHUTE_BUDGET_RUNS_PER_HOUR": "1000",
        "PARACHUTE_AGENT_MAX_TURNS": "100",
    }
    return apart(vault, home, **environ)


@pytest.mark.timeout(900)
async def test_a_daemon_killed_in_a_tool_leaves_files_whole_and_no_container(
    engine: Mapping[str, str],
    sandboxes: Sandboxes,
    home: Path,
    vault: Path,
    tmp_path: Path,
    torture,
):
    fill(tmp_path)
    seed, rng = seeded()
    last = 0
    assert (await sandboxes.status()).image is not None
    async with ScriptedMessages() as api:
        for number in range(25 if torture else 1):
            api.add(*turns(last + 1, 60))
            first = len(api.asked)
            async with (
                program(home, vault, engine, api.url) as daemon_rig,
                asyncio.TaskGroup() as group,
            ):
                if not number:
                    await install(daemon_rig, tmp_path / "keeper")
                asked = group.create_task(_asked(daemon_rig))
                await daemon_rig.until(
                    lambda seen=first, task=asked: task.done() or len(api.asked) >= seen + 2
                )
                assert not asked.done(), asked.result()
                left = await asyncio.to_thread(its_boxes, engine, home)
                await asyncio.sleep(rng.uniform(0, 0.8))
                os.kill(daemon_rig.pid, signal.SIGKILL)
            last += len(api.asked) - first
            api._turns.clear()

            assert left
            assert torn(vault, last, was_killed=True) == [], f"seed {seed}, at {number}"
            async with program(home, vault, engine, api.url) as daemon_rig:
                deadline = time.monotonic() + 20
                while set(left) & set(
                    await asyncio.to_thread(lambda: docker(engine, "ps", "-q").split())
                ):
                    assert time.monotonic() < deadline, "a killed daemon's container goes on"
                    await asyncio.sleep(0.1)
                assert (await call(daemon_rig, "GET", "/api/health"))[0] == 200
            assert torn(vault, last) == [], f"seed {seed}, after {number}"
    assert is_written(vault)


async def _asked(daemon_rig: DaemonProcess) -> object:
    with contextlib.suppress(aiohttp.ClientError):
        while (await call(daemon_rig, "GET", "/api/agents/keeper/shell"))[
            0
        ] != 200:  # the module is not started yet
            await asyncio.sleep(0.05)
        return await call(daemon_rig, "POST", RUN, json={"prompt": "Write."})
    return None
