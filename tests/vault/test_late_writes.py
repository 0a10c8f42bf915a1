"""Late: files that lost their name are watched for as long as somebody may be writing into them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from parachuted.vault import recovery as module
from parachuted.vault.paths import VaultPath
from parachuted.vault.recovery import LateWrites, is_being_written
from parachuted.vault.root import digest_of

NOTE = VaultPath("note.md")


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def late(clock: Clock) -> Iterator[LateWrites]:
    late = LateWrites(clock)
    yield late
    late.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that does not say who is writing."""
    monkeypatch.delattr(module.fcntl, "F_SETLEASE", raising=False)


@pytest.fixture
def keep(vault: Path, late: LateWrites) -> Callable[[str], None]:
    """Watch a new file of the vault, then take its name away."""

    def keep(name: str = "note.md", text: str = "old\n") -> None:
        (vault / name).write_text(text)
        descriptor = os.open(vault / name, os.O_RDONLY)
        late.keep(VaultPath(name), descriptor, digest_of(text.encode()))
        os.close(descriptor)

    return keep


def arrived(late: LateWrites) -> list[tuple[str, bytes]]:
    found = []
    for file, data in late.arrived():
        file.digest = digest_of(data)
        found.append((str(file.path), data))
    return found


@pytest.mark.skipif(
    not hasattr(module.fcntl, "F_SETLEASE"), reason="only Linux says who is writing"
)
def test_a_file_that_no_one_writes_is_not_watched(late, keep):
    keep()
    assert len(late) == 0


def test_a_system_that_says_who_writes_says_so_as_long_as_it_is_open(vault):
    (vault / NOTE).write_text("x")
    with (vault / NOTE).open("rb") as reader:
        before = is_being_written(reader.fileno())
        with (vault / NOTE).open("ab"):
            during = is_being_written(reader.fileno())
        after = is_being_written(reader.fileno())
    assert (before, during, after) in {(False, True, False), (None, None, None)}


def test_what_is_written_late_arrives_once_when_it_rests(vault, silent, late, keep):
    keep()
    assert arrived(late) == []
    with (vault / NOTE).open("ab") as writer:
        writer.write(b"late\n")
    assert arrived(late) == []
    assert arrived(late) == [(NOTE, b"old\nlate\n")]
    assert arrived(late) == []
    assert len(late) == 1


def test_what_is_not_brought_to_a_safe_place_comes_again(vault, silent, late, keep, clock):
    keep()
    (vault / NOTE).write_bytes(b"late\n")
    list(late.arrived())
    clock.seconds = 31
    assert [data for _, data in late.arrived()] == [b"late\n"]
    assert arrived(late) == [(NOTE, b"late\n")]
    assert len(late) == 0


def test_after_half_a_minute_it_is_let_go(silent, late, keep, clock):
    keep()
    clock.seconds = 29
    assert (arrived(late), len(late)) == ([], 1)
    clock.seconds = 31
    assert (arrived(late), len(late)) == ([], 0)


def test_a_file_follows_its_note_to_another_path(vault, silent, late, keep, clock):
    keep()
    keep("other.md")
    late.follow(NOTE, VaultPath("sub/note.md"))
    (vault / NOTE).write_bytes(b"late\n")
    clock.seconds = 31
    assert arrived(late) == [("sub/note.md", b"late\n")]


def test_only_so_many_are_watched_and_the_oldest_goes_first(vault, silent, late, keep, clock):
    for number in range(65):
        keep(f"{number}.md")
    for number in (0, 1, 64):
        (vault / f"{number}.md").write_bytes(b"late\n")
    assert len(late) == 64
    clock.seconds = 31
    assert arrived(late) == [("1.md", b"late\n"), ("64.md", b"late\n")]


def test_who_was_done_before_the_first_look_is_not_missed(vault: Path, late: LateWrites):
    (vault / "note.md").write_text("old\n")
    descriptor = os.open(vault / "note.md", os.O_RDONLY)
    (vault / "note.md").write_text("old\nlate\n")
    late.keep(NOTE, descriptor, digest_of(b"old\n"))
    os.close(descriptor)

    assert [data for _file, data in late.arrived()] == [b"old\nlate\n"]


def test_at_the_last_call_nothing_is_waited_for(vault: Path, late: LateWrites):
    (vault / "note.md").write_text("old\n")
    descriptor = os.open(vault / "note.md", os.O_RDONLY)
    with (vault / "note.md").open("a") as writer:
        late.keep(NOTE, descriptor, digest_of(b"old\n"))
        writer.write("late\n")
        writer.flush()

        assert [data for _file, data in late.arrived(last_call=True)] == [b"old\nlate\n"]
    os.close(descriptor)
