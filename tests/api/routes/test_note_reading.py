from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from aiohttp import web

from parachuted.access.filter import AccessFilter
from parachuted.api.routes import note_reading
from parachuted.api.routes.note_reading import NoteReading, is_note
from parachuted.errors import NotFoundError
from parachuted.keys import AccessGrant
from parachuted.vault import (
    History,
    IndexEntry,
    KnownBases,
    ObjectStore,
    VaultIndex,
    VaultPath,
    VaultRoot,
    digest_of,
)

PATH = VaultPath("a.md")


class NoteReadingRig:
    """A vault with one old note that is in the index."""

    def __init__(self, vault: Path, home: Path) -> None:
        self.file = vault / PATH
        self.root, self.index, self.objects = (
            VaultRoot(vault),
            VaultIndex(),
            ObjectStore(home / "objects"),
        )
        self.history = History(home / "history.db")
        self.reading = NoteReading(self.root, self.index, KnownBases(self.objects, self.history))
        self.sight = AccessFilter(self.root, AccessGrant(alternatives=None))
        self.write(b"# one\n")

    def write(self, data: bytes) -> None:
        self.file.write_bytes(data)
        os.utime(self.file, (1, 1))
        self.index.set(PATH, IndexEntry.of(self.file.stat(), digest_of(data)))

    def served(self, shape: note_reading.Shape = "json") -> bool:
        """Read it, and remember it where that is allowed; whether it was."""
        served, _real, _content, may_stay = self.reading.read(PATH, shape, self.sight)
        if may_stay:
            self.reading.remember(PATH, shape, served)
        return may_stay


@pytest.fixture
def reading_rig(vault, home, monkeypatch):
    monkeypatch.setattr(note_reading, "_YOUNG_NS", 0)
    made = NoteReadingRig(vault, home)
    yield made
    made.objects.close()
    made.history.close()


def test_an_answer_is_given_again_while_the_file_is_the_same(reading_rig: NoteReadingRig):
    assert reading_rig.reading.fresh(PATH, "json") is None
    assert reading_rig.served()
    first = reading_rig.reading.fresh(PATH, "json")

    assert first is not None
    assert first is reading_rig.reading.fresh(PATH, "json")
    assert reading_rig.reading.fresh(PATH, "raw") is None


def test_not_when_the_file_was_saved_even_if_no_one_noticed_yet(reading_rig: NoteReadingRig):
    reading_rig.served()
    reading_rig.file.write_bytes(b"# two\n")

    assert reading_rig.reading.fresh(PATH, "json") is None


def test_not_when_another_file_of_the_same_size_and_time_took_its_place(
    reading_rig: NoteReadingRig,
):
    reading_rig.served()
    other = reading_rig.file.with_name("other")
    other.write_bytes(b"# two\n")
    os.utime(other, (1, 1))
    other.replace(reading_rig.file)

    assert reading_rig.reading.fresh(PATH, "json") is None


def test_not_when_it_is_gone_or_no_longer_in_the_index(reading_rig: NoteReadingRig):
    reading_rig.served()
    reading_rig.index.set(PATH, None)
    assert reading_rig.reading.fresh(PATH, "json") is None
    reading_rig.write(b"# one\n")
    reading_rig.served()
    reading_rig.file.unlink()
    assert reading_rig.reading.fresh(PATH, "json") is None


def test_a_file_that_was_saved_a_moment_ago_may_change_again_within_the_same_tick(
    reading_rig: NoteReadingRig, monkeypatch
):
    monkeypatch.setattr(note_reading, "_YOUNG_NS", 10**18)

    assert not reading_rig.served()


def test_what_is_kept_has_a_limit(reading_rig: NoteReadingRig, monkeypatch):
    reading_rig.served()
    monkeypatch.setattr(note_reading, "_MOST_BYTES", 10)
    reading_rig.served("raw")

    assert reading_rig.reading.fresh(PATH, "json") is None
    assert reading_rig.reading.fresh(PATH, "raw") is not None
    monkeypatch.setattr(note_reading, "_LARGEST", 5)
    assert not reading_rig.served("raw")


def test_a_note_that_is_too_large_is_served_raw_alone(reading_rig: NoteReadingRig, monkeypatch):
    monkeypatch.setattr(note_reading, "_MOST_TOLD", 5)

    assert reading_rig.served("raw")
    for shape in ("json", "map"):
        with pytest.raises(web.HTTPUnprocessableEntity):
            reading_rig.served(shape)


def test_a_link_to_what_is_not_a_note_is_nothing(reading_rig: NoteReadingRig):
    reading_rig.file.with_name("b.md").symlink_to("b.txt")

    with pytest.raises(NotFoundError):
        reading_rig.reading.read(VaultPath("b.md"), "raw", reading_rig.sight)
    assert is_note("a.markdown")
    assert not is_note("a.txt")


async def test_what_was_served_is_kept_once_as_a_base(reading_rig: NoteReadingRig):
    _served, real, content, _ = reading_rig.reading.read(PATH, "json", reading_rig.sight)
    for _ in range(3):
        reading_rig.reading.keep(real, content)
    await reading_rig.reading.kept()

    assert reading_rig.objects.get(content.digest) == b"# one\n"
    assert reading_rig.objects.has_stood(PATH, content.digest)


async def test_a_disk_that_refuses_to_keep_it_refuses_no_answer(
    reading_rig: NoteReadingRig, caplog
):
    _served, real, content, _ = reading_rig.reading.read(PATH, "json", reading_rig.sight)
    reading_rig.objects.close()
    reading_rig.reading.keep(real, content)
    await asyncio.wait_for(reading_rig.reading.kept(), 30)

    assert "could not be kept" in caplog.text
