"""The composition root: one daemon at a time, what it takes up where the last one left it, and what
it does without it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from parachuted.agents.choice import BackendChoice
from parachuted.agents.job import Job, Step
from parachuted.agents.offline import OfflineBackend
from parachuted.config import load_settings
from parachuted.daemon import Daemon
from parachuted.errors import DaemonError
from parachuted.vault import ObjectStore
from tests.stories.daemon_rig import DaemonRig, Live, note, save

GARDEN = "Projects/garden/AGENTS.md"


class Endless(OfflineBackend):
    """Begins, and never ends."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def run(self, job: Job) -> AsyncIterator[Step]:
        """Nothing, for ever."""
        self.begun.set()
        await asyncio.Event().wait()
        async for step in super().run(job):
            yield step


@pytest.fixture
def pair(vault: Path) -> Path:
    """The root watches the garden."""
    save(vault / "AGENTS.md", note("Everything", watch=["Projects/*"]))
    save(vault / GARDEN, note("Garden", focus="- dig"))
    return vault


def state(home: Path) -> Path:
    (folder,) = (home / "state").iterdir()
    return folder


def daemon(home: Path, **flags: object) -> Daemon:
    settings = load_settings(home, {}, {"port": 0, **flags})
    return Daemon(
        settings, home, BackendChoice(backend=OfflineBackend(), reason="for a test", model=None)
    )


async def changed(daemon_rig: DaemonRig, focus: str) -> None:
    """Edit the garden and wait until the root has followed."""
    count = len(daemon_rig.reported("run.finished"))
    save(daemon_rig.vault / GARDEN, note("Garden", focus=focus))
    await daemon_rig.until(lambda: len(daemon_rig.reported("run.finished")) > count)
    await daemon_rig.settled()


async def test_a_save_is_noticed_while_a_start_still_reads_watched_texts(
    live: Live, pair, monkeypatch
):
    may_go_on, see = threading.Event(), ObjectStore.see

    def wait_and_see(objects, texts):
        may_go_on.wait(30)
        see(objects, texts)

    monkeypatch.setattr(ObjectStore, "see", wait_and_see)
    async with live() as daemon_rig:
        try:
            save(pair / "Unwatched.md", "# Noticed\n")
            await daemon_rig.until(lambda: daemon_rig.reported("file.created"))
        finally:
            may_go_on.set()


async def test_first_contact_is_a_baseline_and_no_storm(live: Live, pair):
    async with live() as daemon_rig:
        await daemon_rig.settled()

        assert [
            event.event
            for event in daemon_rig.events
            if event.event.startswith(("file.", "task.", "run."))
        ] == []
        assert len(daemon_rig.daemon.watched.index) == 2
        assert [one.watcher for one in daemon_rig.daemon.loop.watches.all()] == ["AGENTS.md"]
        await changed(daemon_rig, "- sow")


async def test_a_second_start_is_not_a_first_contact(live: Live, pair):
    async with live() as daemon_rig:
        await changed(daemon_rig, "- sow")
    save(pair / "new.md", note("New"))
    async with live() as daemon_rig:
        await daemon_rig.settled()

        assert [(change["path"], change["by"]) for change in daemon_rig.reported("file.")] == [
            ("new.md", "person")
        ]
        assert daemon_rig.reported("run.finished") == []


async def test_a_home_and_a_vault_have_one_daemon(live: Live, home, vault, tmp_path):
    (tmp_path / "another").mkdir()
    async with live() as daemon_rig:
        for folder, flags in (
            (home, {"vault": str(tmp_path / "another")}),
            (tmp_path / "new home", {"vault": str(vault)}),
        ):
            began = time.monotonic()
            with pytest.raises(DaemonError, match=r"already (running|at work)"):
                daemon(folder, **flags)
            assert time.monotonic() - began < 20
        assert not daemon_rig.daemon.watched.problems.open


async def test_a_vault_that_is_not_there_is_said_with_what_to_do(home, tmp_path):
    with pytest.raises(DaemonError, match="parachute init"):
        daemon(home, vault=str(tmp_path / "none"))


async def test_a_port_in_use_ends_the_start_and_lets_go_of_everything(live: Live, home, vault):
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    refused = daemon(home, vault=str(vault), port=port)
    with pytest.raises(DaemonError, match=f"port {port} cannot be used"):
        await refused.run()
    server.close()
    async with live():
        pass


async def test_a_run_that_a_stop_interrupted_is_taken_up_at_the_next_start(live: Live, pair):
    backend = Endless()
    async with live(backend):
        save(pair / GARDEN, note("Garden", focus="- sow the beans"))
        await asyncio.wait_for(backend.begun.wait(), 30)
        began = time.monotonic()
    assert time.monotonic() - began < 30
    async with live() as daemon_rig:
        await daemon_rig.until(lambda: daemon_rig.reported("run.finished"))
        await daemon_rig.settled()
        runs = daemon_rig.daemon.watched.history.runs(limit=9)

    assert "sow the beans" in (pair / "AGENTS.md").read_text("utf-8")
    assert [(run["outcome"], bool(run["ended"])) for run in runs] == [("changed", True)]


async def test_without_its_state_it_meets_the_vault_again_and_nothing_is_lost(
    live: Live, home, pair
):
    async with live() as daemon_rig:
        await changed(daemon_rig, "- sow")
    before = {file: file.read_bytes() for file in pair.rglob("*.md")}
    shutil.rmtree(home / "state")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        assert daemon_rig.reported("file.") == daemon_rig.reported("task.") == []
        assert {file: file.read_bytes() for file in pair.rglob("*.md")} == before
        assert daemon_rig.daemon.watched.problems.open == {}
        await changed(daemon_rig, "- harvest")
    assert "harvest" in (pair / "AGENTS.md").read_text("utf-8")


@pytest.mark.parametrize("name", ["state.db", "snapshot.json", "history.db"])
async def test_what_is_garbled_is_set_aside_and_said_and_the_daemon_goes_on(
    live: Live, home, pair, name
):
    async with live() as daemon_rig:
        await changed(daemon_rig, "- sow")
    for harm in ("garbled", "cut", "emptied"):
        file = state(home) / name
        data = file.read_bytes()
        for beside in state(home).glob(f"{name}-*"):  # what SQLite keeps beside its file
            beside.unlink()
        left = {"garbled": os.urandom(len(data)), "cut": data[: len(data) // 2], "emptied": b""}
        file.write_bytes(left[harm])
        async with live() as daemon_rig:
            problems = daemon_rig.daemon.watched.problems.open
            await changed(daemon_rig, f"- {harm}")

        assert harm in (pair / "AGENTS.md").read_text("utf-8")
        # a journal's torn end is what any crash leaves
        if harm in ("garbled", "cut"):
            assert "set aside" in " ".join(problems.values()), harm


async def test_what_changed_unseen_by_a_daemon_without_a_snapshot_is_no_storm(
    live: Live, home, pair
):
    async with live() as daemon_rig:
        await daemon_rig.settled()
    (state(home) / "snapshot.json").write_bytes(b"garbled")
    async with live() as daemon_rig:
        await daemon_rig.settled()

        assert daemon_rig.reported("run.finished") == []
        assert "snapshot" in daemon_rig.daemon.watched.problems.open
