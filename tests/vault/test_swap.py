"""Swap: new bytes in place of old ones, never in place of bytes that no one looked at."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.vault import swap
from parachuted.vault.root import digest_of

OLD, NEW = b"old\n", b"new\n"
TEMPORARY = swap.temporary_name()


def names(vault: Path) -> list[str]:
    return sorted(file.name for file in vault.iterdir())


@pytest.fixture(autouse=True)
def note(vault: Path) -> None:
    (vault / "note.md").write_bytes(OLD)


@pytest.fixture
def original(folder: int) -> Iterator[int]:
    with swap.opened(folder, "note.md") as descriptor:
        yield descriptor


def test_temporary_names_differ_and_are_hidden():
    names = {swap.temporary_name() for _ in range(50)}
    assert len(names) == 50
    assert all(
        name.startswith(swap.TEMPORARY_PREFIX) and name.endswith(swap.TEMPORARY_SUFFIX)
        for name in names
    )


def test_a_replaced_file_holds_the_new_text_and_nothing_is_left_beside_it(vault, folder, original):
    swap.write_temporary(folder, TEMPORARY, NEW, original)
    swap.replace(folder, "note.md", TEMPORARY, original, old=digest_of(OLD))
    assert (names(vault), (vault / "note.md").read_bytes()) == (["note.md"], NEW)
    assert swap.holds(original) == OLD


def test_a_text_that_is_not_the_expected_one_stays(vault, folder, original):
    swap.write_temporary(folder, TEMPORARY, NEW, original)
    other = digest_of(b"something else")
    with pytest.raises(swap.MovedBaseError):
        swap.replace(folder, "note.md", TEMPORARY, original, old=other)
    with pytest.raises(swap.MovedBaseError):
        swap.remove(folder, "note.md", "unused", original, old=other)
    assert (vault / "note.md").read_bytes() == OLD


def test_another_file_with_the_same_text_is_not_the_expected_one(vault, folder, original):
    (vault / "copy.md").write_bytes(OLD)
    (vault / "copy.md").rename(vault / "note.md")
    swap.write_temporary(folder, TEMPORARY, NEW)
    with pytest.raises(swap.MovedBaseError):
        swap.replace(folder, "note.md", TEMPORARY, original, old=digest_of(OLD))
    assert (vault / "note.md").read_bytes() == OLD


def test_what_slips_in_before_the_exchange_is_held_as_the_temporary_file(
    vault, folder, original, monkeypatch
):
    exchange = swap.exchange

    def exchange_after_a_save(*names: object) -> None:
        (vault / "note.md").write_bytes(b"a person's\n")
        exchange(*names)

    monkeypatch.setattr(swap, "exchange", exchange_after_a_save)
    swap.write_temporary(folder, TEMPORARY, NEW, original)
    with pytest.raises(swap.MovedBaseError):
        swap.replace(folder, "note.md", TEMPORARY, original, old=digest_of(OLD))
    assert (vault / TEMPORARY).read_bytes() == b"a person's\n"


def test_a_taken_name_is_not_taken_by_a_new_file_or_a_rename(vault, folder):
    swap.write_temporary(folder, TEMPORARY, NEW)
    for act in (
        lambda: swap.create(folder, "note.md", TEMPORARY),
        lambda: swap.rename_durably((folder, TEMPORARY), (folder, "note.md")),
    ):
        with pytest.raises(swap.MovedBaseError):
            act()
    assert ((vault / "note.md").read_bytes(), (vault / TEMPORARY).read_bytes()) == (OLD, NEW)
    swap.create(folder, "free.md", TEMPORARY)
    swap.rename_durably((folder, "note.md"), (folder, "third.md"))
    assert ((vault / "free.md").read_bytes(), (vault / "third.md").read_bytes()) == (NEW, OLD)


def test_a_removed_file_is_gone_under_both_names(vault, folder, original):
    swap.remove(folder, "note.md", TEMPORARY, original, old=digest_of(OLD))
    assert names(vault) == []


def test_only_regular_files_have_a_digest(vault, folder):
    (vault / "link.md").symlink_to("note.md")
    os.mkfifo(vault / "pipe.md")
    assert swap.digest_at(folder, "note.md") == digest_of(OLD)
    assert [swap.digest_at(folder, name) for name in ("link.md", "pipe.md", "missing.md")] == [
        None
    ] * 3


def test_a_new_file_takes_over_the_mode_without_an_exchange_too(
    vault, folder, original, monkeypatch
):
    without_new_calls(monkeypatch)
    (vault / "note.md").chmod(0o604)
    swap.write_temporary(folder, TEMPORARY, NEW, original)
    assert (vault / TEMPORARY).stat().st_mode & 0o777 == 0o604
    swap.replace(folder, "note.md", TEMPORARY, original, old=digest_of(OLD))
    assert (names(vault), (vault / "note.md").read_bytes()) == (["note.md"], NEW)


def refused(*_arguments: object, **_options: object) -> None:
    raise OSError(errno.EIO, "the disk refuses")


def without_new_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that knows neither exchange nor a rename that replaces nothing."""
    monkeypatch.setattr(swap, "_renameat2", None)


ACTS = {
    "create": lambda folder: swap.create(folder, "new.md", TEMPORARY),
    "rename": lambda folder: swap.rename_durably((folder, TEMPORARY), (folder, "new.md")),
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS.keys())
@pytest.mark.parametrize("is_old", [False, True], ids=["renameat2", "links"])
def test_a_name_that_may_not_be_durable_is_taken_back(vault, folder, monkeypatch, act, is_old):
    if is_old:
        without_new_calls(monkeypatch)
    swap.write_temporary(folder, TEMPORARY, NEW)
    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(OSError, match="the disk refuses"):
        act(folder)
    assert names(vault) == [TEMPORARY, "note.md"]


def test_of_two_names_the_new_one_goes_when_the_old_one_cannot(vault, folder, monkeypatch):
    without_new_calls(monkeypatch)
    unlink, asked = os.unlink, []

    def unlink_second(name, **where):
        asked.append(name)
        if len(asked) == 1:
            refused()
        unlink(name, **where)

    monkeypatch.setattr(os, "unlink", unlink_second)
    for _ in range(2):  # then where there can be no second name
        with pytest.raises(OSError, match="the disk refuses"):
            swap.move_to_free_name((folder, "note.md"), (folder, "new.md"))
        assert names(vault) == ["note.md"]
        monkeypatch.setattr(os, "link", refused)


def test_a_file_whose_owner_cannot_be_kept_keeps_its_group(folder, original, monkeypatch):
    asked, fstat = [], os.fstat
    like = fstat(original)
    others = os.stat_result((*like[:4], like.st_uid + 1, like.st_gid, *like[6:]))

    def only_groups(_descriptor, user, group):
        asked.append((user, group))
        if user != -1:
            raise PermissionError

    monkeypatch.setattr(os, "fchown", only_groups)
    monkeypatch.setattr(os, "fstat", lambda file: others if file == original else fstat(file))
    swap.write_temporary(folder, TEMPORARY, NEW, original)
    assert asked == [(like.st_uid + 1, like.st_gid), (-1, like.st_gid)]


def test_attributes_are_taken_over_as_far_as_the_disk_has_any(folder, original, monkeypatch):
    given = {}
    monkeypatch.setattr(os, "listxattr", lambda _file: ["user.a", "user.gone"])
    monkeypatch.setattr(os, "getxattr", lambda _file, name: {"user.a": b"1"}.get(name) or gone())
    monkeypatch.setattr(os, "setxattr", lambda _file, name, value: given.update({name: value}))

    def gone():
        raise OSError(errno.ENODATA, "it went meanwhile")

    swap.write_temporary(folder, TEMPORARY, NEW, original)
    assert given == {"user.a": b"1"}

    def unsupported(_file):
        raise OSError(errno.ENOTSUP, "none here")

    monkeypatch.setattr(os, "listxattr", unsupported)
    swap.write_temporary(folder, f"{TEMPORARY}2", NEW, original)
    monkeypatch.setattr(os, "listxattr", refused)
    with pytest.raises(OSError, match="the disk refuses"):
        swap.write_temporary(folder, f"{TEMPORARY}3", NEW, original)


def test_a_temporary_file_that_cannot_be_written_is_closed(folder, original, monkeypatch):
    opened = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(os, "write", refused)
    with pytest.raises(OSError, match="the disk refuses"):
        swap.write_temporary(folder, TEMPORARY, NEW, original)
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_when_a_file_was_made_is_known_or_none(folder, monkeypatch):
    assert swap.born_ns(folder, "none.md") is None
    monkeypatch.setattr(swap, "_statx", None)
    assert swap.born_ns(folder, "none.md") is None
    assert swap.born_ns(folder, "note.md") is None or sys.platform == "darwin"
