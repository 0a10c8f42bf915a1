"""Disk scan: what one turn scans."""

from __future__ import annotations

import errno
import time

import pytest

from parachuted.events import load_ignore
from parachuted.events.disk_scan import ScanRequest
from parachuted.vault import PathDifference, VaultPath

ALL = ScanRequest(everything=True, first=True)


def commit(rig, look):
    for seen in look.scan.seen:
        rig.index.set(seen.path, seen.new)
    for folder in look.scan.new_folders:
        rig.index.add_folder(folder)
    return look


def known(rig, **texts):
    for name, text in texts.items():
        (rig.vault / f"{name}.md").write_text(text)
    return commit(rig, rig.disk_scan.look(ALL, None, ()))


def test_a_turn_over_everything_sees_everything_and_watches_each_folder(rig):
    (rig.vault / "deep/er").mkdir(parents=True)
    (rig.vault / "deep/er/note.md").write_text("note")
    look = rig.disk_scan.look(ALL, None, ())

    assert [seen.path for seen in look.scan.seen] == ["deep/er/note.md"]
    assert rig.watcher.entered == ["", "deep", "deep/er"]
    assert rig.disk_scan.entered == {"", "deep", "deep/er"}
    assert look.vault == rig.disk_scan.identity()


def test_a_turn_looks_at_no_more_than_it_names(rig):
    vault = known(rig, a="a", b="b").vault
    for name in "abc":
        (rig.vault / f"{name}.md").write_text("changed")
    look = rig.disk_scan.look(ScanRequest(closed={"a.md"}, finished={"c.md"}), vault, ())

    assert sorted(seen.path for seen in look.scan.seen) == ["a.md", "c.md"]


def test_an_unfinished_path_may_turn_out_to_be_unsettled(rig):
    vault = known(rig, a="a").vault
    (rig.vault / "a.md").write_text("changed")
    look = rig.disk_scan.look(ScanRequest(unfinished={"a.md"}), vault, ())

    assert look.scan.seen == []
    assert look.scan.unsettled == {"a.md"}


def test_when_a_file_is_new_those_that_are_missing_are_looked_at_too(rig):
    vault = known(rig, a="a", b="b").vault
    (rig.vault / "a.md").rename(rig.vault / "c.md")
    look = rig.disk_scan.look(ScanRequest(finished={"c.md"}), vault, ("a.md", "b.md"))

    assert {seen.path: seen.new is None for seen in look.scan.seen} == {"a.md": True, "c.md": False}


def test_ignored_folders_are_not_walked(rig):
    vault = known(rig).vault
    (rig.vault / ".git").mkdir()
    (rig.vault / ".git/note.md").write_text("note")

    assert rig.disk_scan.look(ScanRequest(folders={".git"}), vault, ()).scan.seen == []
    assert ".git" not in rig.watcher.entered


def test_what_is_ignored_by_now_is_distinguished_from_what_is_gone(rig):
    vault = known(rig, a="a", b="b").vault
    (rig.vault / ".parachuteignore").write_text("a.md\n")
    (rig.vault / "b.md").unlink()
    assert rig.disk_scan.reload_ignore() is None
    look = rig.disk_scan.look(ScanRequest(everything=True), vault, ())

    assert look.ignored == {"a.md"}
    assert {seen.path for seen in look.scan.seen if seen.new is None} == {"a.md", "b.md"}


def test_what_is_back_by_the_end_of_a_look_is_not_missing(rig):
    (rig.vault / "one").mkdir()
    (rig.vault / "one/a.md").write_text("a")
    vault = known(rig).vault
    (rig.vault / "one/a.md").unlink()
    rig.watcher.enter = lambda _folder: (rig.vault / "one/a.md").write_text("back")
    look = rig.disk_scan.look(ScanRequest(unfinished={"one/a.md"}, folders={"one"}), vault, ())

    assert look.scan.seen == []
    assert look.scan.unsettled == {"one/a.md"}


def test_a_vault_that_is_not_there_is_an_error(rig):
    rig.vault.rmdir()
    with pytest.raises(OSError, match="not there") as caught:
        rig.disk_scan.look(ALL, None, ())

    assert caught.value.errno == errno.ESTALE
    assert rig.disk_scan.identity() is None


def test_another_folder_in_the_vaults_place_is_an_error(rig):
    vault = known(rig, a="a").vault
    rig.vault.rename(rig.vault.with_name("away"))
    rig.vault.mkdir()
    with pytest.raises(OSError, match="another folder"):
        rig.disk_scan.look(ScanRequest(closed={"a.md"}), vault, ())

    assert rig.disk_scan.look(ScanRequest(everything=True), vault, ()).vault != vault


def test_a_vault_that_moves_during_the_look_is_an_error(rig):
    known(rig, a="a")
    rig.watcher.enter = lambda _folder: rig.vault.rename(rig.vault.with_name("away"))
    with pytest.raises(OSError, match="moved while"):
        rig.disk_scan.look(ScanRequest(everything=True), None, ())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
def test_a_system_without_watches_to_give_is_noted(rig, number):
    rig.watcher.refusal = OSError(number, "no more")
    vault = rig.disk_scan.look(ALL, None, ()).vault
    assert rig.disk_scan.is_unwatched
    rig.watcher.refusal = None
    rig.disk_scan.look(ScanRequest(everything=True), vault, ())

    assert not rig.disk_scan.is_unwatched


def test_the_rules_are_read_from_the_vault(rig):
    assert not load_ignore(rig.root).file("", "note.md")
    (rig.vault / ".parachuteignore").write_text("drafts/\n*.draft.md\n")
    ignore = load_ignore(rig.root)

    assert ignore.folder("", "drafts")
    assert [ignore.file("", name) for name in ("a.draft.md", "a.md")] == [True, False]


def test_a_link_in_place_of_the_rules_is_not_followed(rig):
    (rig.vault.parent / "elsewhere").write_text("*\n")
    (rig.vault / ".parachuteignore").symlink_to(rig.vault.parent / "elsewhere")

    rules = load_ignore(rig.root)
    assert not rules.file("", "note.md")
    assert rules.problem == ".parachuteignore is not applied as it is now: it is a link"


def test_while_the_rules_cannot_be_read_the_earlier_ones_hold(rig):
    rules = rig.vault / ".parachuteignore"
    rules.write_text("private/\n")
    earlier = load_ignore(rig.root)
    rules.unlink()
    rules.mkdir()
    kept = load_ignore(rig.root, earlier)

    assert kept.folder("", "private")
    assert kept.problem == ".parachuteignore is not applied as it is now: not a regular file"
    rules.rmdir()
    assert not load_ignore(rig.root, kept).folder("", "private")


def test_rules_beyond_a_megabyte_are_a_problem(rig):
    (rig.vault / ".parachuteignore").write_text("a.md\n" + f"#{'x' * 4000}\n" * 300)
    rules = load_ignore(rig.root)

    assert rules.file("", "a.md")
    assert rules.problem == ".parachuteignore is not applied after its first megabyte"


def test_a_new_file_with_an_old_ones_number_is_not_the_same(rig):
    def difference(name):
        return PathDifference(path=VaultPath(name), old=rig.index.get(name), new=None)

    known(rig, a="a", b="b")
    a, b = difference("a.md"), difference("b.md")
    (rig.vault / "a.md").rename(rig.vault / "moved.md")
    (rig.vault / "b.md").unlink()
    while time.time_ns() < max(a.old.mtime_ns, b.old.mtime_ns) + 20_000_000:
        pass
    (rig.vault / "other.md").write_text("other")

    assert rig.disk_scan.is_same(difference("moved.md"), a)
    assert not rig.disk_scan.is_same(difference("other.md"), b)
    assert not rig.disk_scan.is_same(difference("missing/c.md"), b)
