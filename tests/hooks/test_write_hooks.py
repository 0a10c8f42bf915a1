"""Writes: real hooks, real processes, before a real write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from parachuted.errors import ActRefusedError
from parachuted.hooks.hooks import Hooks
from parachuted.hooks.listeners import WriteHooks
from parachuted.vault import (
    Author,
    ObjectStore,
    ReplaceSection,
    Store,
    VaultPath,
    VaultRoot,
    WriteJournal,
)
from tests.hooks.serving import drop, running_hooks

NOON = datetime(2026, 1, 6, 12, tzinfo=UTC)
NOTE = VaultPath("note.md")
TEXT = "---\nstatus: draft\n---\n# Note\n\n## Facts\n\nold\n"
FACTS = ReplaceSection(section="Facts", content="new")
CURATOR = Author(by="curator", run="r1", causes=("c1", "c2"))


@dataclass
class WriteHooksRig:
    """A vault with its store, and a home with hooks."""

    vault: Path
    home: Path
    hooks: Hooks
    store: Store
    writes: WriteHooks

    def script(self, text: str) -> None:
        drop(self.home, "on-write-before.sh", f"#!/bin/sh\n{text}\n")
        self.hooks.look()

    async def edit(self) -> None:
        async with asyncio.timeout(20):
            await asyncio.to_thread(self.store.edit, NOTE, FACTS, CURATOR)

    def text(self) -> str:
        return (self.vault / NOTE).read_text()


@pytest.fixture
async def write_rig(vault: Path, home: Path, tmp_path: Path) -> AsyncIterator[WriteHooksRig]:
    (vault / NOTE).write_text(TEXT)
    async with running_hooks(home, vault, clock=lambda: NOON) as hooks:
        writes = WriteHooks(
            hooks,
            vault=vault,
            loop=asyncio.get_running_loop(),
            clock=lambda: NOON,
            root_of=lambda cause: f"{cause}.md",
        )
        objects, history = ObjectStore(tmp_path / "objects"), WriteJournal(tmp_path / "history.db")
        asks = {"ask": writes.ask, "is_asked": writes.is_asked}
        store = Store(VaultRoot(vault), objects, history, lambda: NOON, **asks)
        writes.begin()
        yield WriteHooksRig(vault, home, hooks, store, writes)
    for part in (store, history, objects):
        part.close()


async def test_a_hook_that_objects_keeps_the_file_and_its_words_are_reported(
    write_rig: WriteHooksRig,
):
    write_rig.script("echo 'this note is mine' >&2; exit 2")
    with pytest.raises(
        ActRefusedError,
        match=r"a hook refused the write to note\.md, so nothing was written: this note is mine",
    ):
        await write_rig.edit()

    assert write_rig.text() == TEXT


async def test_a_hook_learns_what_would_be_written_by_whom_and_why(
    write_rig: WriteHooksRig, tmp_path: Path
):
    write_rig.script(f"cat > {tmp_path}/told.json")
    await write_rig.edit()
    reported = json.loads((tmp_path / "told.json").read_text())
    data = reported["data"]

    assert write_rig.text() == TEXT.replace("old", "new")
    assert (reported["event"], reported["vault_path"], reported["session_id"], reported["cwd"]) == (
        "write.before",
        str(write_rig.vault),
        "r1",
        str(write_rig.vault),
    )
    assert (data["path"], data["file_path"], data["from"]) == (
        "note.md",
        str(write_rig.vault / NOTE),
        None,
    )
    assert (data["actor"], data["run"], data["causes"], data["operation"]) == (
        "curator",
        "r1",
        ["c1", "c2"],
        "ReplaceSection",
    )
    assert (data["sections"], data["frontmatter"]) == (["Note > Facts"], {"status": "draft"})
    assert len(data["base"]) == len(data["digest"]) == 64
    assert reported["diff"]["changed"] == ["Note > Facts"]
    assert "-old\n+new\n" in reported["diff"]["text"]
    assert reported["cause"] == {
        "id": "c1",
        "root": "c1.md",
        "depth": 1,
        "actor": "curator",
        "run": "r1",
        "chain": ["c1", "c2"],
    }


async def test_before_the_beginning_and_without_a_hook_no_one_is_asked(write_rig: WriteHooksRig):
    assert not write_rig.writes.is_asked()
    write_rig.script("exit 2")

    assert write_rig.writes.is_asked()
    assert not WriteHooks(
        write_rig.hooks, vault=write_rig.vault, loop=asyncio.get_running_loop(), clock=lambda: NOON
    ).is_asked()


async def test_a_hook_may_save_the_very_file_meanwhile_and_nothing_is_lost(
    write_rig: WriteHooksRig,
):
    write_rig.script(
        f"grep -q more {write_rig.vault}/note.md || printf '\\n## More\\n\\nmore\\n' >> "
        f"{write_rig.vault}/note.md"
    )
    await write_rig.edit()

    assert write_rig.text() == TEXT.replace("old", "new") + "\n## More\n\nmore\n"


async def test_more_writes_than_there_are_threads_are_all_asked_about_and_made(
    write_rig: WriteHooksRig,
):
    write_rig.script("exit 0")
    for number in range(40):
        (write_rig.vault / f"{number}.md").write_text(TEXT)

    async def edit(number: int) -> None:
        await asyncio.to_thread(write_rig.store.edit, VaultPath(f"{number}.md"), FACTS, CURATOR)

    async with asyncio.timeout(60):
        await asyncio.gather(*(edit(number) for number in range(40)))

    assert all(
        (write_rig.vault / f"{number}.md").read_text() == TEXT.replace("old", "new")
        for number in range(40)
    )
