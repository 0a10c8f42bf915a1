"""The store: what a write does to the file, to everybody else's text, and to the record."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from parachuted.errors import ConflictError, NotFoundError, PathRefusedError, StorageFailedError
from parachuted.vault import swap
from parachuted.vault.edits import AppendToSection, ReplaceAll, ReplaceSection, SetKey
from parachuted.vault.late_writes import is_being_written
from parachuted.vault.paths import VaultPath
from parachuted.vault.root import digest_of

NOTE = VaultPath("note.md")
TEXT = "# Note\n\n## Facts\n\nold\n\n## Ideas\n\nthought\n"
FACTS = ReplaceSection(section="Facts", content="new\n")


@contextmanager
def small_files_only(size: int) -> Iterator[None]:
    """The system refuses to let any file grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_an_edit_on_the_text_it_was_decided_on_changes_just_that_place(shelf):
    base = shelf.put(NOTE, TEXT)
    written = shelf.store.edit(NOTE, FACTS, shelf.agent, base=base)
    assert shelf.text(NOTE) == TEXT.replace("old", "new")
    assert (written.before, written.after, written.merged, written.changed) == (
        base,
        digest_of(TEXT.replace("old", "new").encode()),
        False,
        True,
    )
    assert shelf.names() == [NOTE]


def test_an_edit_whose_section_was_left_alone_is_applied_to_what_is_there_now(shelf):
    base = shelf.put(NOTE, TEXT)
    shelf.put(NOTE, TEXT.replace("thought", "another thought"))
    assert shelf.store.edit(NOTE, FACTS, shelf.agent, base=base).merged
    assert shelf.text(NOTE) == TEXT.replace("old", "new").replace("thought", "another thought")


def test_a_change_elsewhere_in_the_file_is_merged_with_a_replaced_text(shelf):
    base = shelf.put(NOTE, TEXT)
    shelf.put(NOTE, TEXT.replace("# Note", "# A note"))
    shelf.store.replace(NOTE, TEXT.replace("thought", "deed").encode(), shelf.agent, base=base)
    assert shelf.text(NOTE) == TEXT.replace("# Note", "# A note").replace("thought", "deed")


def test_a_clash_is_refused_with_all_three_texts_and_the_file_is_left_alone(shelf):
    base = shelf.put(NOTE, TEXT)
    theirs = TEXT.replace("old", "mine")
    shelf.put(NOTE, theirs)
    with pytest.raises(ConflictError) as caught:
        shelf.store.edit(NOTE, FACTS, shelf.agent, base=base)
    assert caught.value.base.decode() == TEXT
    assert caught.value.ours.decode() == TEXT.replace("old", "new")
    assert caught.value.theirs.decode() == shelf.text(NOTE) == theirs
    assert shelf.history.writes_of(NOTE) == []


def test_a_base_that_was_never_kept_is_asked_for_again(shelf):
    shelf.put(NOTE, TEXT)
    with pytest.raises(NotFoundError, match="read it again"):
        shelf.store.edit(NOTE, FACTS, shelf.agent, base="0" * 64)
    (shelf.vault / "kept.md").write_text("a\n")
    base = shelf.store.read(VaultPath("kept.md"), keep=True).digest
    (shelf.vault / "kept.md").write_text("a\nb\n")
    assert shelf.store.replace(VaultPath("kept.md"), b"0\na\n", shelf.agent, base=base).merged
    assert shelf.text("kept.md") == "0\na\nb\n"


def test_what_a_person_saves_in_the_very_moment_of_the_swap_is_merged(shelf, monkeypatch):
    base = shelf.put(NOTE, TEXT)
    exchange, saves = swap.exchange, [TEXT.replace("thought", "saved just now")]

    def exchange_after_a_save(folder: int, temporary: str, name: str) -> None:
        while saves:
            (shelf.vault / NOTE).write_text(saves.pop())
        exchange(folder, temporary, name)

    monkeypatch.setattr(swap, "exchange", exchange_after_a_save)
    shelf.store.edit(NOTE, FACTS, shelf.agent, base=base)
    assert shelf.text(NOTE) == TEXT.replace("old", "new").replace("thought", "saved just now")
    assert shelf.names() == [NOTE]
    assert [write.state for write in shelf.history.writes_of(NOTE)] == ["done"]


def test_a_note_that_is_being_saved_in_place_is_waited_for(shelf, monkeypatch):
    shelf.put(NOTE, TEXT)
    program = (shelf.vault / NOTE).open("r+")
    if is_being_written(program.fileno()) is None:
        program.close()
        pytest.skip("only Linux says who is writing")
    program.write("# Half ")
    program.flush()

    def finish_the_save(_: float) -> None:
        program.write("saved\n\n## Facts\n\nold\n")
        program.truncate()
        program.close()

    monkeypatch.setattr("time.sleep", finish_the_save)
    shelf.store.edit(NOTE, FACTS, shelf.agent)
    assert shelf.text(NOTE) == "# Half saved\n\n## Facts\n\nnew\n"


def test_what_a_person_saves_in_the_very_moment_of_a_deletion_stays(shelf, monkeypatch):
    shelf.put(NOTE, TEXT)
    move, saves = swap.move_to_free_name, ["saved just now\n"]

    def move_after_a_save(source: tuple[int, str], target: tuple[int, str]) -> None:
        while saves:
            (shelf.vault / NOTE).write_text(saves.pop())
        move(source, target)

    monkeypatch.setattr(swap, "move_to_free_name", move_after_a_save)
    with pytest.raises(ConflictError) as caught:
        shelf.store.delete(NOTE, shelf.agent)
    assert caught.value.theirs == b"saved just now\n"
    assert (shelf.names(), shelf.text(NOTE), shelf.history.writes_of(NOTE)) == (
        [NOTE],
        "saved just now\n",
        [],
    )


def test_each_write_is_recorded_with_its_author_causes_digests_and_both_texts(shelf):
    shelf.put(NOTE, TEXT)
    shelf.store.edit(NOTE, FACTS, shelf.agent)
    (write,) = shelf.history.writes_of(NOTE)
    assert (write.author, write.at, write.operation, write.state) == (
        shelf.agent,
        shelf.now,
        "ReplaceSection",
        "done",
    )
    assert shelf.objects.get(write.before).decode() == TEXT
    assert shelf.objects.get(write.after).decode() == shelf.text(NOTE)


def test_an_edit_that_changes_nothing_writes_nothing(shelf):
    shelf.put(NOTE, TEXT)
    before = (shelf.vault / NOTE).stat()
    assert not shelf.store.edit(NOTE, ReplaceAll(data=TEXT.encode()), shelf.agent).changed
    assert os.path.samestat(before, (shelf.vault / NOTE).stat())
    assert shelf.history.writes_of(NOTE) == []


def test_a_created_file_gets_its_folders_and_a_taken_name_is_refused(shelf):
    path = VaultPath("a/b/new.md")
    written = shelf.store.create(path, b"hello\n", shelf.agent)
    assert (written.before, written.after, shelf.text(path)) == (
        None,
        digest_of(b"hello\n"),
        "hello\n",
    )
    with pytest.raises(ConflictError) as caught:
        shelf.store.create(path, b"other\n", shelf.agent)
    assert (caught.value.ours, caught.value.theirs) == (b"other\n", b"hello\n")
    assert shelf.names() == [path]
    assert shelf.history.intended() == []


def test_a_deleted_file_is_gone_but_its_text_is_kept(shelf):
    base = shelf.put(NOTE, TEXT)
    shelf.put(NOTE, "saved since\n")
    with pytest.raises(ConflictError) as caught:
        shelf.store.delete(NOTE, shelf.agent, base=base)
    assert caught.value.theirs == b"saved since\n"
    written = shelf.store.delete(NOTE, shelf.agent)
    assert shelf.names() == []
    assert shelf.objects.get(written.before) == b"saved since\n"


def test_a_moved_file_is_recorded_at_both_ends_and_takes_no_taken_name(shelf):
    digest = shelf.put(NOTE, TEXT)
    shelf.put("taken.md", "here already\n")
    with pytest.raises(ConflictError):
        shelf.store.move(NOTE, VaultPath("taken.md"), shelf.agent)
    assert (shelf.text(NOTE), shelf.text("taken.md")) == (TEXT, "here already\n")
    shelf.store.move(NOTE, VaultPath("sub/note.md"), shelf.agent)
    assert shelf.names() == ["sub/note.md", "taken.md"]
    records = [(write.path, write.before, write.after) for write in shelf.history.writes_by("r-1")]
    assert sorted(records) == [("note.md", digest, None), ("sub/note.md", None, digest)]


@pytest.mark.parametrize("folder", [".git", ".obsidian", ".Claude", ".para\u200bchute", "sub/.GIT"])
def test_folders_that_steer_programs_are_not_written(shelf, folder):
    path = VaultPath(f"{folder}/config.md")
    with pytest.raises(PathRefusedError, match="settings"):
        shelf.store.create(path, b"x", shelf.agent)
    shelf.put(path, "theirs\n")
    (shelf.vault / "link.md").symlink_to(path)
    for name in (path, VaultPath("link.md")):
        with pytest.raises(PathRefusedError):
            shelf.store.replace(name, b"ours\n", shelf.agent)
    assert shelf.text(path) == "theirs\n"


def test_links_are_followed_inside_the_vault_and_refused_where_they_leave_it(shelf, tmp_path):
    shelf.put("real/note.md", TEXT)
    (tmp_path / "outside.md").write_text("outside\n")
    (shelf.vault / "in.md").symlink_to("real/note.md")
    (shelf.vault / "out.md").symlink_to(tmp_path / "outside.md")
    assert shelf.store.replace(VaultPath("in.md"), b"through\n", shelf.agent).path == "real/note.md"
    assert (shelf.text("real/note.md"), (shelf.vault / "in.md").is_symlink()) == ("through\n", True)
    with pytest.raises(PathRefusedError, match="leaves the vault"):
        shelf.store.replace(VaultPath("out.md"), b"escaped\n", shelf.agent)
    assert (tmp_path / "outside.md").read_text() == "outside\n"


def test_mode_and_extended_attributes_stay(shelf):
    shelf.put(NOTE, TEXT)
    (shelf.vault / NOTE).chmod(0o640)
    if hasattr(os, "setxattr"):
        os.setxattr(shelf.vault / NOTE, "user.tag", b"red")
    shelf.store.edit(NOTE, FACTS, shelf.agent)
    assert stat.S_IMODE((shelf.vault / NOTE).stat().st_mode) == 0o640
    if hasattr(os, "getxattr"):
        assert os.getxattr(shelf.vault / NOTE, "user.tag") == b"red"


def test_line_ends_and_a_byte_order_mark_stay(shelf):
    data = b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    shelf.put(NOTE, data)
    shelf.store.edit(NOTE, AppendToSection(section="Facts", content="more\n"), shelf.agent)
    shelf.store.edit(NOTE, SetKey(key="status", value="done"), shelf.agent)
    new = (shelf.vault / NOTE).read_bytes()
    assert new.startswith(b"\xef\xbb\xbf---\r\n")
    assert b"more\r\n" in new
    assert new.count(b"\n") == new.count(b"\r\n")


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_disk_that_refuses_leaves_the_old_text_and_nothing_else(shelf, is_kept):
    """Once where the text cannot be kept among the objects, once where it is and cannot be written
    beside the old one.
    """
    shelf.put(NOTE, TEXT)
    large = b"x" * (4 << 20)
    if is_kept:
        shelf.objects.put(large)
    with small_files_only(2 << 20), pytest.raises(StorageFailedError):
        shelf.store.replace(NOTE, large, shelf.agent)
    assert (shelf.text(NOTE), shelf.names(), shelf.history.intended()) == (TEXT, [NOTE], [])
    assert shelf.history.writes_of(NOTE) == []
    shelf.store.replace(NOTE, large, shelf.agent)
    assert (shelf.vault / NOTE).stat().st_size == len(large)
