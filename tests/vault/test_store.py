"""The store: what a write does to the file, to everybody else's text, and to the record."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from parachuted.errors import ConflictError, PathRefusedError, StorageFailedError
from parachuted.vault import swap
from parachuted.vault.edits import AppendToSection, ReplaceAll, ReplaceSection, SetFrontmatterKey
from parachuted.vault.paths import VaultPath
from parachuted.vault.recovery import is_being_written
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


def test_an_edit_changes_just_its_place_and_is_recorded_with_both_texts(rig):
    base = rig.put(NOTE, TEXT)
    written = rig.store.edit(NOTE, FACTS, rig.agent, base=base)
    after = TEXT.replace("old", "new")
    assert (rig.text(NOTE), rig.names()) == (after, [NOTE])
    digest = digest_of(after.encode())
    assert (written.before, written.after) == (base, digest)
    assert (written.merged, written.changed) == (False, True)
    (write,) = rig.history.writes_of(NOTE)
    assert (write.author, write.at) == (rig.agent, rig.now)
    assert (write.operation, write.state) == ("ReplaceSection", "done")
    assert rig.objects.get(write.before).decode() == TEXT
    assert rig.objects.get(write.after).decode() == after


def test_texts_of_edits_that_wait_for_another_write_are_kept_meanwhile(rig):
    new = {VaultPath(f"{name}.md"): TEXT.replace("thought", name) for name in ("a", "b", "c")}
    for path, text in new.items():
        rig.put(path, text)
        new[path] = text.replace("old", "new")
    with ThreadPoolExecutor(len(new)) as pool:
        with rig.store.late_files():  # which lets no other thread write
            writing = [pool.submit(rig.store.edit, path, FACTS, rig.agent) for path in new]
            digests = [digest_of(text.encode()) for text in new.values()]
            deadline = time.monotonic() + 60
            while sum(digest in rig.objects for digest in digests) < 2:  # the first waits alone
                assert time.monotonic() < deadline
            assert not any(map(rig.history.writes_of, new))
        assert all(write.result().changed for write in writing)
    assert {path: rig.text(path) for path in new} == new


def test_what_was_saved_elsewhere_since_is_merged_and_a_clash_left_alone(rig):
    base = rig.put(NOTE, TEXT)
    rig.put(NOTE, TEXT.replace("thought", "another thought"))
    assert rig.store.edit(NOTE, FACTS, rig.agent, base=base).merged
    assert rig.text(NOTE) == TEXT.replace("old", "new").replace("thought", "another thought")
    theirs = TEXT.replace("old", "mine")
    rig.put(NOTE, theirs)
    with pytest.raises(ConflictError) as caught:
        rig.store.edit(NOTE, FACTS, rig.agent, base=base)
    assert caught.value.base.decode() == TEXT
    assert caught.value.theirs.decode() == rig.text(NOTE) == theirs
    assert len(rig.history.writes_of(NOTE)) == 1


def test_a_base_that_was_never_kept_is_asked_for_again(rig):
    rig.put(NOTE, TEXT)
    with pytest.raises(ConflictError, match="read it again"):
        rig.store.edit(NOTE, FACTS, rig.agent, base="0" * 64)
    (rig.vault / "kept.md").write_text("a\n")
    base = rig.store.read(VaultPath("kept.md"), keep=True).digest
    (rig.vault / "kept.md").write_text("a\nb\n")
    assert rig.store.replace(VaultPath("kept.md"), b"0\na\n", rig.agent, base=base).merged
    assert rig.text("kept.md") == "0\na\nb\n"


def test_what_a_person_saves_in_the_very_moment_of_the_swap_is_merged(rig, monkeypatch):
    base = rig.put(NOTE, TEXT)
    exchange, saves = swap.exchange, [TEXT.replace("thought", "saved just now")]

    def exchange_after_a_save(folder: int, temporary: str, name: str) -> None:
        while saves:
            (rig.vault / NOTE).write_text(saves.pop())
        exchange(folder, temporary, name)

    monkeypatch.setattr(swap, "exchange", exchange_after_a_save)
    rig.store.edit(NOTE, FACTS, rig.agent, base=base)
    assert rig.text(NOTE) == TEXT.replace("old", "new").replace("thought", "saved just now")
    assert rig.names() == [NOTE]
    assert [write.state for write in rig.history.writes_of(NOTE)] == ["done"]


def test_a_note_that_is_being_saved_in_place_is_waited_for(rig, monkeypatch):
    rig.put(NOTE, TEXT)
    program = (rig.vault / NOTE).open("r+")
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
    rig.store.edit(NOTE, FACTS, rig.agent)
    assert rig.text(NOTE) == "# Half saved\n\n## Facts\n\nnew\n"


def test_what_a_person_saves_in_the_very_moment_of_a_deletion_stays(rig, monkeypatch):
    rig.put(NOTE, TEXT)
    move, saves = swap.move_to_free_name, ["saved just now\n"]

    def move_after_a_save(source: tuple[int, str], target: tuple[int, str]) -> None:
        while saves:
            (rig.vault / NOTE).write_text(saves.pop())
        move(source, target)

    monkeypatch.setattr(swap, "move_to_free_name", move_after_a_save)
    with pytest.raises(ConflictError) as caught:
        rig.store.delete(NOTE, rig.agent)
    assert caught.value.theirs == b"saved just now\n"
    assert (rig.names(), rig.text(NOTE), rig.history.writes_of(NOTE)) == (
        [NOTE],
        "saved just now\n",
        [],
    )


def test_an_edit_that_changes_nothing_writes_nothing(rig):
    rig.put(NOTE, TEXT)
    before = (rig.vault / NOTE).stat()
    assert not rig.store.edit(NOTE, ReplaceAll(data=TEXT.encode()), rig.agent).changed
    assert os.path.samestat(before, (rig.vault / NOTE).stat())
    assert rig.history.writes_of(NOTE) == []


def test_a_created_file_gets_its_folders_and_a_taken_name_is_refused(rig):
    path = VaultPath("a/b/new.md")
    written = rig.store.create(path, b"hello\n", rig.agent)
    assert (written.before, written.after, rig.text(path)) == (
        None,
        digest_of(b"hello\n"),
        "hello\n",
    )
    with pytest.raises(ConflictError) as caught:
        rig.store.create(path, b"other\n", rig.agent)
    assert (caught.value.ours, caught.value.theirs) == (b"other\n", b"hello\n")
    assert rig.names() == [path]
    assert rig.history.intended() == []


def test_a_deleted_file_is_gone_but_its_text_is_kept(rig):
    base = rig.put(NOTE, TEXT)
    rig.put(NOTE, "saved since\n")
    with pytest.raises(ConflictError) as caught:
        rig.store.delete(NOTE, rig.agent, base=base)
    assert caught.value.theirs == b"saved since\n"
    written = rig.store.delete(NOTE, rig.agent)
    assert rig.names() == []
    assert rig.objects.get(written.before) == b"saved since\n"


def test_a_moved_file_is_recorded_at_both_ends_and_takes_no_taken_name(rig):
    digest = rig.put(NOTE, TEXT)
    rig.put("taken.md", "here already\n")
    with pytest.raises(ConflictError):
        rig.store.move(NOTE, VaultPath("taken.md"), rig.agent)
    assert (rig.text(NOTE), rig.text("taken.md")) == (TEXT, "here already\n")
    rig.store.move(NOTE, VaultPath("sub/note.md"), rig.agent)
    assert rig.names() == ["sub/note.md", "taken.md"]
    records = [(write.path, write.before, write.after) for write in rig.history.writes_by("r-1")]
    assert sorted(records) == [("note.md", digest, None), ("sub/note.md", None, digest)]


@pytest.mark.parametrize("folder", [".git", ".obsidian", ".Claude", ".para\u200bchute", "sub/.GIT"])
def test_folders_that_steer_programs_are_not_written(rig, folder):
    path = VaultPath(f"{folder}/config.md")
    with pytest.raises(PathRefusedError, match="settings"):
        rig.store.create(path, b"x", rig.agent)
    rig.put(path, "theirs\n")
    (rig.vault / "link.md").symlink_to(path)
    for name in (path, VaultPath("link.md")):
        with pytest.raises(PathRefusedError):
            rig.store.replace(name, b"ours\n", rig.agent)
    assert rig.text(path) == "theirs\n"


def test_links_are_followed_inside_the_vault_and_refused_beyond_it(rig, tmp_path):
    rig.put("real/note.md", TEXT)
    (tmp_path / "outside.md").write_text("outside\n")
    (rig.vault / "in.md").symlink_to("real/note.md")
    (rig.vault / "out.md").symlink_to(tmp_path / "outside.md")
    assert rig.store.replace(VaultPath("in.md"), b"through\n", rig.agent).path == "real/note.md"
    assert (rig.text("real/note.md"), (rig.vault / "in.md").is_symlink()) == ("through\n", True)
    with pytest.raises(PathRefusedError, match="leaves the vault"):
        rig.store.replace(VaultPath("out.md"), b"escaped\n", rig.agent)
    assert (tmp_path / "outside.md").read_text() == "outside\n"


def test_mode_and_extended_attributes_stay(rig):
    rig.put(NOTE, TEXT)
    (rig.vault / NOTE).chmod(0o640)
    if hasattr(os, "setxattr"):
        os.setxattr(rig.vault / NOTE, "user.tag", b"red")
    rig.store.edit(NOTE, FACTS, rig.agent)
    assert stat.S_IMODE((rig.vault / NOTE).stat().st_mode) == 0o640
    if hasattr(os, "getxattr"):
        assert os.getxattr(rig.vault / NOTE, "user.tag") == b"red"


def test_line_ends_and_a_byte_order_mark_stay(rig):
    data = b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    rig.put(NOTE, data)
    rig.store.edit(NOTE, AppendToSection(section="Facts", content="more\n"), rig.agent)
    rig.store.edit(NOTE, SetFrontmatterKey(key="status", value="done"), rig.agent)
    new = (rig.vault / NOTE).read_bytes()
    assert new.startswith(b"\xef\xbb\xbf---\r\n")
    assert b"more\r\n" in new
    assert new.count(b"\n") == new.count(b"\r\n")


@pytest.mark.parametrize("is_kept", [False, True])
def test_a_disk_that_refuses_leaves_the_old_text_and_nothing_else(rig, is_kept):
    """Once where the text cannot be kept among the objects, once where it is and cannot be written
    beside the old one.
    """
    rig.put(NOTE, TEXT)
    large = b"x" * (4 << 20)
    if is_kept:
        rig.objects.put(large)
    with small_files_only(2 << 20), pytest.raises(StorageFailedError):
        rig.store.replace(NOTE, large, rig.agent)
    assert (rig.text(NOTE), rig.names(), rig.history.intended()) == (TEXT, [NOTE], [])
    assert rig.history.writes_of(NOTE) == []
    rig.store.replace(NOTE, large, rig.agent)
    assert (rig.vault / NOTE).stat().st_size == len(large)
