"""hooks/README: its tables are held against the code, and its blocks are run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.events import CATALOG
from parachuted.home_files.bundled import bundled_folder
from parachuted.hooks import HookEvent, Hooks, WriteHooks, document
from parachuted.hooks.loading import load_hooks
from parachuted.vault import Author, VaultPath, WriteIntent
from tests.hooks.serving import put_settings, running_hooks

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "hooks/README.md").read_text("utf-8")
NOON = datetime(2026, 1, 6, 12, tzinfo=UTC)


def table(head: str) -> list[list[str]]:
    """The rows of the table whose first head that is."""
    lines = README.partition(f"\n| {head} |")[2].splitlines()[2:]
    rows = lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]
    assert rows
    return [
        [cell.strip() for cell in row.removeprefix("|").removesuffix("|").split(" | ")]
        for row in rows
    ]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]*)`", cell)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def command_line(script: str, user: Path) -> None:
    subprocess.run(
        ["sh", "-e", "-c", script], check=True, cwd=ROOT, env={**os.environ, "HOME": str(user)}
    )


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A person's home folder, with the machine-local home in it."""
    (tmp_path / "user/.parachute").mkdir(parents=True, mode=0o700)
    return tmp_path / "user"


@pytest.fixture
async def hooks(user: Path, vault: Path) -> AsyncIterator[Hooks]:
    env = {"PATH": os.environ["PATH"], "HOME": str(user)}
    async with running_hooks(user / ".parachute", vault, clock=lambda: NOON, env=env) as hooks:
        yield hooks


def test_every_shipped_script_is_described_and_can_be_run():
    reported = [codes(row[0])[0] for row in table("script")]
    shipped = bundled_folder("hooks")

    assert sorted(reported) == sorted(
        path.name for path in shipped.iterdir() if path.suffix == ".py"
    )
    assert all(os.access(shipped / name, os.X_OK) for name in reported)


def test_every_key_of_the_settings_is_known_and_no_block_has_a_mistake(user: Path, vault: Path):
    home = user / ".parachute"
    for text in blocks("yaml"):
        put_settings(home, text)
        found = load_hooks(home, vault=vault, places={"HOME": str(user)})
        assert found.problems == []
        assert found.hooks
    keys = [
        code for row in table("key") for code in codes(row[0]) if code not in {"type", "onFailure"}
    ]
    values = {
        "timeout": "3",
        "async": "true",
        "on_failure": "block",
        "order": "2",
    }
    pairs = ", ".join(f"{key}: {values.get(key, 'x')}" for key in keys)
    put_settings(home, f"hooks:\n  write.before:\n    - {{type: command, {pairs}}}\n")

    assert load_hooks(home, vault=vault, places={}).problems == []


async def test_the_first_hook_does_what_it_says(hooks: Hooks, user: Path, vault: Path):
    copied, first = sorted(blocks("sh"), key=lambda text: "mkdir" in text)
    for script in (first, copied):
        command_line(script, user)
    hooks.look()
    assert {one.name for one in hooks.listed} == {"on-write-before.py", "on-session-start.py"}

    async def asked(actor: str, path: str) -> tuple[bool, str]:
        data = {"actor": actor, "path": path}
        decision = await hooks.ask(HookEvent(event="write.before", at=NOON, data=data, vault=vault))
        return decision.allowed, decision.reason

    async with asyncio.timeout(30):
        assert await asked("curator", "Diary/today.md") == (False, "agents do not write in Diary/")
        assert await asked("person", "Diary/today.md") == (True, "")
        assert await asked("curator", "Projects/a.md") == (True, "")


async def test_the_example_in_python_refuses_what_it_says(hooks: Hooks, user: Path, vault: Path):
    (script,) = blocks("python")
    folder = user / ".parachute/hooks"
    folder.mkdir()
    (folder / "on-tool-before.py").write_text(script)
    hooks.look()

    async def asked(content: str) -> tuple[bool, str]:
        data = {
            "tool_name": "update_context",
            "tool_input": {"content": content},
            "tool_use_id": "t",
        }
        decision = await hooks.ask(HookEvent(event="tool.before", at=NOON, data=data, vault=vault))
        return decision.allowed, decision.reason

    async with asyncio.timeout(30):
        assert await asked("a\n" * 200) == (False, "keep it under 100 lines")
        assert await asked("a\n") == (True, "")


class HookCalls:
    """Hooks that are asked from a thread, and keep what they were asked."""

    def __init__(self) -> None:
        self.asked: list[HookEvent] = []

    def wants(self, event: str) -> bool:
        return event == "write.before"

    def ask_from_thread(self, hook_event: HookEvent, _loop: asyncio.AbstractEventLoop) -> object:
        self.asked.append(hook_event)
        return type("Yes", (), {"allowed": True})()


async def test_what_a_hook_reads_has_the_shape_that_is_shown():
    (shown,) = map(json.loads, blocks("json"))
    ear = HookCalls()
    loop, vault = asyncio.get_running_loop(), Path("/home/me/Parachute")
    writes = WriteHooks(
        ear, vault=vault, loop=loop, clock=lambda: NOON, root_of=lambda _cause: "Journal/today.md"
    )
    intent = WriteIntent(
        path=VaultPath("Projects/garden/AGENTS.md"),
        author=Author(by="curator", run="r-20260106-1", causes=("c-20260106-1",)),
        operation="ReplaceSection",
        base="4",
        digest="a",
        texts=lambda: (b"# Garden\n", b"---\nstatus: draft\n---\n# Garden\n"),
    )
    writes.ask(intent)
    reported = json.loads(json.dumps(document(ear.asked[0])))
    varying = {"diff", "data"}

    assert {
        key: value for key, value in reported.items() if key not in varying | {"transcript_path"}
    } == {key: value for key, value in shown.items() if key not in varying}
    assert (
        set(reported["data"])
        == set(shown["data"])
        == {*CATALOG["write.before"].fields, "file_path"}
    )
    assert set(reported["diff"]) == set(shown["diff"])


def test_what_is_said_of_the_environment_is_all_there_is(hooks: Hooks):
    named = {code for row in table("variable") for code in codes(row[0])}

    assert set(hooks._environment("write.before")) | {"LANG"} == named


def test_the_settings_for_backups_name_a_script_that_is_there():
    (named,) = re.findall(r"hooks/([\w-]+\.py)", blocks("yaml")[0])

    assert (ROOT / "hooks" / named).is_file()
    assert shutil.which("git")
