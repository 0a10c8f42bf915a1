"""The watchers: inotify as the kernel speaks, and watchfiles' stream as it is spoken elsewhere."""
# ruff: noqa: ASYNC240  these tests are about files: what they do to them on the loop takes microseconds

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import resource
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from parachuted.events.watcher import (
    ChangeHints,
    HintKind,
    NullFileWatcher,
    WatchfilesWatcher,
    make_watcher,
)
from parachuted.home_files.vault_state import state_folder
from tests.events.conftest import EventsRig

QUEUE = Path("/proc/sys/fs/inotify/max_queued_events")
linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


@dataclass
class HintLog(ChangeHints):
    """All hints so far."""

    engine: str = "auto"
    poll: Callable[[], None] = lambda: None

    async def until(
        self,
        paths: Mapping[str, HintKind],
        *,
        folders: Collection[str] = (),
        old_names: Mapping[str, str] | None = None,
    ) -> None:
        """Inotify knows them at once and nothing else; watchfiles a little later, and of a path no
        more than that it was touched.
        """
        self.poll()
        if self.engine == "watchfiles":
            paths, old_names = dict.fromkeys(paths, "touched"), None
            await until(lambda: (self.paths, self.folders) == (paths, set(folders)))
        assert (self.paths, self.folders, self.missed) == (paths, set(folders), False)
        assert old_names is None or self.old_names == old_names


@pytest.fixture
async def heard(engine):
    return HintLog(engine=engine)


@pytest.fixture
async def watcher(vault, heard, engine):
    made = make_watcher(vault, engine)
    made.start(lambda hints: add(heard, hints))
    made.enter("")
    heard.poll = made.poll
    await asyncio.sleep(0)  # watchfiles begins to watch
    yield made
    made.close()


def add(heard, hints):
    heard.paths.update(hints.paths)
    heard.old_names.update(hints.old_names)
    heard.folders |= hints.folders
    heard.missed |= hints.missed


async def until(condition):
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.002)


async def test_a_file_is_open_until_it_is_closed(vault, watcher, heard):
    with (vault / "a.md").open("w") as file:
        file.write("text")
        file.flush()
        await heard.until({"a.md": "open"})
    await heard.until({"a.md": "closed"})


async def test_a_file_that_is_deleted_or_renamed_away_is_gone(vault, watcher, heard):
    for name in ("a.md", "b.md"):
        (vault / name).touch()
    (vault / "a.md").unlink()
    (vault / "b.md").rename(vault / "c.md")

    await heard.until({"a.md": "gone", "b.md": "gone", "c.md": "closed"})


async def test_a_renamed_file_is_heard_with_its_old_name(vault, watcher, heard):
    for name in ("a.md", "b.md", "c.md"):
        (vault / name).touch()
    (vault / "a.md").rename(vault / "new.md")
    (vault / "b.md").rename(vault / "gone.md")
    (vault / "gone.md").unlink()
    (vault.parent / "outside.md").touch()
    (vault.parent / "outside.md").rename(vault / "c.md")

    await heard.until(
        {"a.md": "gone", "b.md": "gone", "c.md": "closed", "new.md": "closed", "gone.md": "gone"},
        old_names={"new.md": "a.md"},
    )


async def test_what_was_heard_last_counts(vault, watcher, heard):
    (vault / "a.md").touch()
    (vault / "a.md").unlink()
    (vault / "a.md").touch()

    await heard.until({"a.md": "closed"})


async def test_touching_and_reading_are_not_heard(vault, watcher, heard):
    (vault / "a.md").touch()
    await heard.until({"a.md": "closed"})
    heard.paths.clear()
    os.utime(vault / "a.md", (1, 1))
    (vault / "a.md").chmod(0o600)
    (vault / "a.md").read_bytes()
    (vault / "b.md").touch()

    await heard.until({"b.md": "closed"})


async def test_folders_are_distinguished_and_watched_when_entered(vault, watcher, heard):
    (vault / "one").mkdir()
    await heard.until({}, folders={"one"})
    watcher.enter("one")
    (vault / "one/a.md").touch()

    await heard.until({"one/a.md": "closed"}, folders={"one"})


async def test_the_loop_hears_without_being_asked(vault, watcher, heard):
    (vault / "a.md").touch()

    await until(lambda: heard.paths)


async def test_a_folder_that_was_left_is_not_heard(vault, watcher, heard):
    (vault / "one").mkdir()
    watcher.enter("one")
    watcher.leave("one")
    watcher.leave("never entered")
    (vault / "one/a.md").touch()

    await heard.until({}, folders={"one"})


async def test_a_renamed_folder_is_heard_under_its_new_name_once_it_is_entered(
    vault, watcher, heard
):
    (vault / "one").mkdir()
    watcher.enter("one")
    (vault / "one").rename(vault / "two")
    watcher.enter("two")
    watcher.leave("one")
    (vault / "two/a.md").touch()

    await heard.until({"two/a.md": "closed"}, folders={"one", "two"})


async def test_a_folder_in_anothers_place_is_heard_and_the_other_is_not(vault, watcher, heard):
    (vault / "one").mkdir()
    watcher.enter("one")
    (vault / "one").rename(vault.parent / "away")
    (vault / "one").mkdir()
    watcher.enter("one")
    (vault.parent / "away/old.md").touch()
    (vault / "one/new.md").touch()

    await heard.until({"one/new.md": "closed"}, folders={"one"})


async def test_a_folder_that_is_removed_leaves_nothing_behind(vault, watcher):
    for number in range(50):
        (vault / f"{number}").mkdir()
        watcher.enter(f"{number}")
        (vault / f"{number}").rmdir()
        watcher.poll()
        watcher.leave(f"{number}")

    assert len(watcher._folders) == len(watcher._watches) == 1


async def test_a_folder_that_is_not_there_is_passed_over(vault, watcher):
    (vault / "file").touch()
    watcher.enter("missing")
    watcher.enter("file")


async def test_a_vault_that_moves_is_heard(vault, watcher, heard):
    vault.rename(vault.with_name("away"))

    await until(lambda: heard.missed)


async def test_names_that_are_no_utf8_are_heard(vault, watcher, heard):
    name = os.fsdecode(b"\xff\xfe.md")
    (vault / name).touch()

    await heard.until({name: "closed"})


async def test_a_long_queue_is_reported_in_pieces(vault, watcher):
    pieces = []
    watcher.start(pieces.append)
    for number in range(4000):
        (vault / f"{number}.md").touch()
    watcher.poll()

    assert len(pieces) > 3
    assert len({path for piece in pieces for path in piece.paths}) == 4000


async def test_a_queue_that_overflowed_is_heard(vault, watcher, heard):
    limit = int(QUEUE.read_text())
    for number in range(limit + 10):
        os.close(os.open(vault / f"{number % 2}", os.O_WRONLY | os.O_CREAT, 0o644))
    watcher.poll()

    assert heard.missed


@linux
async def test_where_the_system_has_no_more_to_give_every_folder_is_refused(vault):
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    with (vault / "highest").open("w") as file:
        resource.setrlimit(resource.RLIMIT_NOFILE, (file.fileno(), usual[1]))
        try:
            watcher = make_watcher(vault)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert isinstance(watcher, NullFileWatcher)
    watcher.start(lambda _hints: None)
    with pytest.raises(OSError, match="open files") as caught:
        watcher.enter("folder")
    watcher.leave("folder")
    watcher.poll()
    watcher.close()

    assert caught.value.errno == errno.EMFILE


async def test_watchfiles_paths_are_reported_with_no_more_than_that(vault):
    heard = ChangeHints()
    (vault / "deep").mkdir()
    changes = {(1, str(vault / "deep")), (2, str(vault / "deep/a.md")), (3, str(vault / "gone"))}

    async def watch(root):
        assert root == vault
        yield changes
        await asyncio.Event().wait()

    watcher = WatchfilesWatcher(vault, watch)
    watcher.start(lambda hints: add(heard, hints))
    watcher.enter("deep")
    watcher.leave("deep")
    watcher.poll()
    await until(lambda: heard.paths)
    watcher.close()

    assert heard.folders == {"deep"}
    assert heard.paths == {"deep/a.md": "touched", "gone": "touched"}
    assert not heard.missed


@pytest.mark.parametrize("place", ["", "..", "../elsewhere"])
async def test_watchfiles_telling_of_the_vault_means_that_all_is_looked_at(vault, place):
    heard = ChangeHints()

    async def watch(root):
        yield {(1, str(root / place))}
        await asyncio.Event().wait()

    watcher = WatchfilesWatcher(vault, watch)
    watcher.start(lambda hints: add(heard, hints))
    await until(lambda: heard.missed)
    watcher.close()

    assert not heard.paths


async def test_a_stream_that_fails_is_started_again_and_all_is_looked_at(vault, monkeypatch):
    heard = ChangeHints()
    monkeypatch.setattr("parachuted.events.watcher._RESTART_S", 0.0)
    starts = []

    async def watch(root):
        starts.append(root)
        if len(starts) == 1:
            raise RuntimeError("too many open files")
        yield {(1, str(root / "a.md"))}
        await asyncio.Event().wait()

    watcher = WatchfilesWatcher(vault, watch)
    watcher.start(lambda hints: add(heard, hints))
    await until(lambda: heard.paths)
    watcher.close()

    assert heard.missed
    assert len(starts) == 2


@pytest.fixture
async def real_room(engine, vault, home, monkeypatch):
    """The events room with each engine that can be chosen here: what a detector finds out must not
    depend on who woke it.
    """
    monkeypatch.setattr("parachuted.events.watcher._RESTART_S", 0.0)
    state_folder(home, vault)
    (vault / "old").mkdir()
    for name in ("old/kept.md", "old/moved.md", "old/gone.md"):
        (vault / name).write_text(name)
    made = EventsRig(vault=vault, home=home, watcher=make_watcher(vault, engine))
    yield made
    made.history.close()


async def test_each_engine_hears_of_all_that_a_person_does(real_room):
    vault = real_room.vault
    async with real_room.detector():
        (vault / "new.md").write_text("new")
        (vault / "old/kept.md").write_text("other")
        (vault / "old/moved.md").rename(vault / "there.md")
        (vault / "old/gone.md").unlink()
        await real_room.until(lambda: len(real_room.reported()) == 4)
        assert set(real_room.reported()) == {
            ("created", "new.md"),
            ("modified", "old/kept.md"),
            ("moved", "there.md"),
            ("deleted", "old/gone.md"),
        }


async def test_each_engine_hears_what_new_and_renamed_folders_hold(real_room):
    vault = real_room.vault
    async with real_room.detector():
        (vault / "a/b").mkdir(parents=True)
        (vault / "a/b/c.md").write_text("c")
        await real_room.until(lambda: real_room.reported() == [("created", "a/b/c.md")])
        (vault / "a").rename(vault / "z")
        await real_room.until(lambda: ("moved", "z/b/c.md") in real_room.reported())
        (vault / "z/b/c.md").write_text("d")
        await real_room.until(lambda: ("modified", "z/b/c.md") in real_room.reported())


async def test_each_engine_hears_an_editor_that_saves_by_renaming_as_one_change(real_room):
    vault = real_room.vault
    async with real_room.detector():
        (vault / "old/.kept.md.swp").write_text("other")
        (vault / "old/.kept.md.swp").rename(vault / "old/kept.md")
        await real_room.until(real_room.reported)
        assert real_room.reported() == [("modified", "old/kept.md")]


@linux
async def test_each_engine_goes_on_after_a_name_that_is_not_utf8(real_room):
    vault = real_room.vault
    async with real_room.detector():
        (vault / os.fsdecode(b"\xff.txt")).touch()
        (vault / "new.md").write_text("new")
        await real_room.until(lambda: ("created", "new.md") in real_room.reported())
        (vault / "next.md").write_text("next")
        await real_room.until(lambda: ("created", "next.md") in real_room.reported())


@pytest.mark.on_disk
async def test_each_engine_finds_what_is_written_through_a_map_of_memory(real_room):
    file = real_room.vault / "old/kept.md"
    async with real_room.detector() as detector:
        with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as memory:
            memory[0:3] = b"new"
        is_reported = not isinstance(real_room.watcher, WatchfilesWatcher)
        next_walk_s = detector._next_full - asyncio.get_running_loop().time()
        assert is_reported or next_walk_s <= 60
        if not is_reported:
            await detector.rescan()  # that walk
        await real_room.until(real_room.reported)
        assert real_room.reported() == [("modified", "old/kept.md")]


async def test_each_engine_tells_of_the_canary(real_room):
    heard = []
    async with real_room.detector(canary=0.02, heartbeat=0.5) as detector:
        tell, canary = detector._canary.hears, detector._canary
        canary.hears = lambda path: tell(path) and (heard.append(path) or True)
        await real_room.until(lambda: len(heard) > 2)
        assert (detector.polling, real_room.problems.open) == (False, {})
