"""Faults: what the system, the disk or a storm of changes does to the daemon.

In the end it knows what is there, and has told each change once.
"""
# ruff: noqa: ASYNC240  these tests are about files: what they do to them on the loop takes microseconds

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from parachuted.errors import NotFoundError, StorageFailedError
from parachuted.events.watcher import DebounceTimes
from parachuted.vault import Author, VaultPath
from parachuted.vault.edits import SetFrontmatterKey
from tests.stories.apart import apart, index_left_by
from tests.stories.daemon_rig import DaemonRig, Live, note, save
from tests.stories.listing import assert_index_equals_disk, followed, fresh_index, kinds, listing

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
LONGEST_HOLD_S = 0.4
ACTOR = """
import os, pathlib, sys
sys.path.insert(0, os.getcwd())
from tests.stories import actors
getattr(actors, sys.argv[1])(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
"""


async def act(name: str, vault: Path, count: int) -> None:
    """Let another process do something to the vault, as others do."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ACTOR, name, str(vault), str(count)
    )
    assert await process.wait() == 0


@contextlib.asynccontextmanager
async def with_a_short_queue(live: Live) -> AsyncIterator[DaemonRig]:
    """A daemon with a short queue of hints; the system's setting counts at its start and is put
    back at once.
    """
    if not os.access(QUEUE, os.W_OK):
        pytest.skip("this system does not let us shorten inotify's queue")
    usual = QUEUE.read_text()
    async with contextlib.AsyncExitStack() as stack:
        try:
            QUEUE.write_text("16")
            daemon_rig = await stack.enter_async_context(live())
        finally:
            QUEUE.write_text(usual)
        yield daemon_rig


def with_watches(count: int) -> list[str]:
    """The words of a command that runs another with so many inotify watches."""
    script = f'echo {count} > /proc/sys/user/max_inotify_watches && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("this system does not let us have fewer watches")
    return command


async def quiet(daemon_rig: DaemonRig, seconds: float = 120) -> None:
    """Until what was done has been heard of and nothing is held back; no walk helps on."""
    daemon_rig.daemon.watched.detector._watcher.poll()
    await daemon_rig.until(lambda: not daemon_rig.daemon.watched.detector.busy, seconds)


def fill(vault: Path, count: int) -> list[str]:
    """Save so many notes; their paths."""
    paths = [f"{number % 5}/note {number}.md" for number in range(count)]
    for path in paths:
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(f"# {path}\n")
    return paths


# Storms


async def test_a_burst_of_new_files_is_reported_once_each_and_holds_no_loop(
    live: Live, vault: Path, torture
):
    count = 60_000 if torture else 1500
    async with live() as daemon_rig, longest_hold() as held:
        await act("write_many", vault, count)
        await quiet(daemon_rig, 120)
        of_its_own_work, by_the_clock = held

        assert of_its_own_work < LONGEST_HOLD_S
        assert by_the_clock < 25 * LONGEST_HOLD_S
        assert kinds(daemon_rig) == {
            f"{number % 10}/note {number}.md": ["created"] for number in range(count)
        }
        assert_index_equals_disk(daemon_rig.daemon, vault)


@contextlib.asynccontextmanager
async def longest_hold() -> AsyncIterator[list[float]]:
    """For how long the loop has been held at most, in seconds: of its own work, and, since the
    machine may be busy, by the clock.
    """
    longest = [0.0, 0.0]

    async def tick() -> None:
        before = time.thread_time(), time.monotonic()
        while True:
            await asyncio.sleep(0.001)
            now = time.thread_time(), time.monotonic()
            longest[:] = (
                max(held, end - start)
                for held, start, end in zip(longest, before, now, strict=True)
            )
            before = now

    task = asyncio.get_running_loop().create_task(tick(), name="tick")
    yield longest
    task.cancel()


async def test_a_checkout_of_another_branch_is_reported_once_a_file(
    live: Live, vault: Path, torture
):
    count = 10_000 if torture else 500
    git(vault, "init", "-q", "-b", "one")
    fill(vault, count)
    git(vault, "add", "-A")
    git(vault, "commit", "-q", "-m", "one")
    git(vault, "checkout", "-q", "-b", "two")
    for number, path in enumerate(sorted(vault.glob("*/*.md"))):
        if number % 10 == 0:
            path.unlink()
        else:
            path.write_text(f"another text of {path.name}\n")
    save(vault / "new/one.md", "new")
    git(vault, "add", "-A")
    git(vault, "commit", "-q", "-m", "two")
    before = fresh_index(vault)
    async with live() as daemon_rig:
        await asyncio.to_thread(git, vault, "checkout", "-q", "one")
        await quiet(daemon_rig, 60)

        assert followed(before.paths(), daemon_rig) == set(daemon_rig.daemon.watched.index.paths())
        told_twice = [reported for reported in kinds(daemon_rig).values() if len(reported) > 1]
        # Git removes a file before it writes it: where the system holds it up in between, the
        # file was gone, and is told so.
        assert all(reported == ["deleted", "created"] for reported in told_twice)
        assert len(told_twice) <= count // 100
        assert len(kinds(daemon_rig)) == count + 1
        assert_index_equals_disk(daemon_rig.daemon, vault)


def git(vault: Path, *words: str) -> None:
    settings = ("user.name=a", "user.email=a@example.org", "commit.gpgsign=false", "gc.auto=0")
    command = ["git", *(word for setting in settings for word in ("-c", setting)), *words]
    subprocess.run(command, cwd=vault, check=True, capture_output=True)


async def test_nothing_is_missed_when_the_queue_overflows(live: Live, vault: Path, torture):
    paths = fill(vault, 10_000 if torture else 300)
    async with with_a_short_queue(live) as daemon_rig:
        await act("replace_all", vault, 1)
        await act("make_nested_folders", vault, 50)
        await quiet(daemon_rig, 60)

        new = {f"d{number}/sub/deeper/note.md": ["created"] for number in range(50)}
        assert kinds(daemon_rig) == {path: ["modified"] for path in paths} | new
        assert_index_equals_disk(daemon_rig.daemon, vault)


async def test_nothing_is_missed_while_the_process_is_stopped(vault: Path, home: Path, torture):
    count = 8000 if torture else 2000
    paths = fill(vault, count)
    async with apart(vault, home) as daemon_rig:
        os.kill(daemon_rig.pid, signal.SIGSTOP)
        # fills the queue, so that the hints that follow are lost
        await act("make_noise", vault, 20_000)
        await act("replace_all", vault, 1)
        os.kill(daemon_rig.pid, signal.SIGCONT)
        await daemon_rig.until(lambda: len(kinds(daemon_rig)) == count)
        last = fresh_index(vault)
        await daemon_rig.until(
            lambda: (
                {str(e.data["path"]): e.data["digest"] for e in daemon_rig.events}
                == {p: last.get(p).digest for p in paths}
            )
        )

    assert kinds(daemon_rig) == {path: ["modified"] for path in paths}
    assert listing(index_left_by(vault, home)) == listing(fresh_index(vault))


# Files that are being written


# The vault itself


async def test_a_vault_that_is_renamed_away_is_waited_for(live: Live, vault: Path):
    fill(vault, 30)
    async with live() as daemon_rig:
        vault.rename(vault.with_name("away"))
        await daemon_rig.until(lambda: "vault" in daemon_rig.daemon.watched.problems.open)
        save(vault.with_name("away") / "0/note 0.md", "changed while away")
        with pytest.raises(StorageFailedError):
            await daemon_rig.daemon.watched.detector.rescan()
        vault.with_name("away").rename(vault)
        await daemon_rig.until(lambda: "vault" not in daemon_rig.daemon.watched.problems.open)
        await quiet(daemon_rig)

        assert kinds(daemon_rig) == {"0/note 0.md": ["modified"]}
        assert_index_equals_disk(daemon_rig.daemon, vault)


def hasten(daemon_rig: DaemonRig) -> None:
    """Let the daemon look more often at whether its vault is there: a folder put in its place gives
    no hint.
    """
    detector = daemon_rig.daemon.watched.detector
    detector._pace, detector._rest_until = DebounceTimes(heartbeat=0.05), 0.0
    detector._wake.set()


async def test_a_disk_mounted_over_the_vault_deletes_nothing(live: Live, vault: Path):
    fill(vault, 30)
    async with live() as daemon_rig:
        hasten(daemon_rig)
        with mounted(vault):
            await daemon_rig.until(lambda: "missing" in daemon_rig.daemon.watched.problems.open)
        await daemon_rig.until(lambda: not daemon_rig.daemon.watched.problems.open)
        await quiet(daemon_rig)

        assert kinds(daemon_rig) == {}
        assert_index_equals_disk(daemon_rig.daemon, vault)


async def test_nothing_is_written_in_a_folder_that_stands_in_the_vaults_place(
    live: Live, vault: Path
):
    """Such as the mount point of a disk that is gone: what was written there would be hidden when
    the disk is back.
    """
    save(vault / "a.md", "# A\n\n## Facts\n")
    save(vault / "b.md", "# B\n")
    away, person = vault.with_name("away"), Author(by="person")
    async with live() as daemon_rig:
        await daemon_rig.settled()
        store = daemon_rig.daemon.vault.store
        vault.rename(away)
        for others in ({}, {"a.md": "# Another's\n\n## Facts\n", "b.md": "# Another's\n"}):
            vault.mkdir()
            for name, text in others.items():
                (vault / name).write_text(text)
            for act in (
                lambda: store.create(VaultPath("new.md"), b"# New\n", person),
                lambda: store.edit(
                    VaultPath("a.md"), SetFrontmatterKey(key="status", value="open"), person
                ),
                lambda: store.delete(VaultPath("a.md"), person),
                lambda: store.move(VaultPath("b.md"), VaultPath("c.md"), person),
            ):
                with pytest.raises((StorageFailedError, NotFoundError)):
                    act()
            found = {file.name: file.read_text() for file in vault.glob("*.md")}
            assert found == others
            shutil.rmtree(vault)

        shutil.copytree(away, vault)  # another folder, and the same vault
        store.create(VaultPath("new.md"), b"# New\n", person)
        assert (vault / "new.md").read_text() == "# New\n"
        shutil.rmtree(away)


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[None]:
    if subprocess.run(
        ["mount", "-t", "tmpfs", "tmpfs", folder], check=False, capture_output=True
    ).returncode:
        pytest.skip("this system does not let us mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


async def test_most_files_deleted_at_once_are_believed_once_a_person_says_so(
    live: Live, vault: Path
):
    paths = fill(vault, 60)
    async with live() as daemon_rig:
        for path in paths[:40]:
            (vault / path).unlink()
        await daemon_rig.until(lambda: "missing" in daemon_rig.daemon.watched.problems.open)
        save(vault / paths[50], "changed meanwhile")
        await quiet(daemon_rig)
        await daemon_rig.daemon.watched.detector.rescan()
        assert kinds(daemon_rig) == {paths[50]: ["modified"]}
        await daemon_rig.daemon.watched.detector.rescan(accept_missing=True)

        assert kinds(daemon_rig) == {paths[50]: ["modified"]} | {
            path: ["deleted"] for path in paths[:40]
        }
        assert daemon_rig.daemon.watched.problems.open == {}
        assert_index_equals_disk(daemon_rig.daemon, vault)


# Limits and rights


async def test_where_watches_run_out_the_vault_is_walked_again_and_again(vault: Path, home: Path):
    for number in range(80):
        save(vault / f"{number}/note.md", f"# {number}\n")
    async with apart(vault, home, *with_watches(64)) as daemon_rig:
        health = await daemon_rig.health()
        assert health["vault"]["watched_by"] == "polling"
        assert "watching" in health["problems"]
        for number in range(80):
            save(vault / f"{number}/note.md", "changed")
        await daemon_rig.until(lambda: len(kinds(daemon_rig)) == 80)

    assert kinds(daemon_rig) == {f"{number}/note.md": ["modified"] for number in range(80)}
    assert listing(index_left_by(vault, home)) == listing(fresh_index(vault))


# What is ignored


# The state


async def test_what_cannot_be_recorded_is_noticed_once_it_can(live: Live, vault: Path, home: Path):
    save(vault / "AGENTS.md", note("Everything", watch=["*.md"]))
    save(vault / "note.md", "# one\n")
    async with live() as daemon_rig:
        hasten(daemon_rig)
        keeper = daemon_rig.daemon.watched.detector._committer
        listeners = keeper._listeners
        refused: list[object] = []

        async def refuse(changes: object) -> NoReturn:
            refused.append(changes)
            raise StorageFailedError("the disk is full")

        keeper._listeners = replace(listeners, record=refuse)
        save(vault / "note.md", "# two\n")
        await daemon_rig.until(lambda: "vault" in daemon_rig.daemon.watched.problems.open)
        keeper._listeners = listeners
        await daemon_rig.until(lambda: not daemon_rig.daemon.watched.problems.open)
        await quiet(daemon_rig)

        assert refused
        assert kinds(daemon_rig)["note.md"] == ["modified"]
        assert_index_equals_disk(daemon_rig.daemon, vault)
