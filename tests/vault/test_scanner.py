"""Scanner: single paths looked at, and rules that changed."""

from __future__ import annotations

import errno
import os

import pytest

from parachuted.vault.ignore import IgnoreRules
from parachuted.vault.index import IndexEntry, VaultIndex
from parachuted.vault.root import VaultRoot
from parachuted.vault.scanner import ScanFindings, Scanner
from tests.vault.conftest import fill, kinds

pytestmark = pytest.mark.usefixtures("each_disk")

UNREAD = IndexEntry(mtime_ns=1, ctime_ns=1, size=1, inode=1, digest=None)


@pytest.fixture
def index():
    return VaultIndex()


@pytest.fixture
def scanner(vault, index):
    return Scanner(VaultRoot(vault), index, IgnoreRules(), settle_s=60)


def test_single_paths_are_new_changed_gone_or_not_worth_a_word(scanner, vault, index):
    fill(vault, "new.md", "b/changed.md", "b/unasked.md")
    for path in ("b/changed.md", "b/gone.md", "none/gone.md"):
        index.set(path, UNREAD)
    scan = scanner.look(
        ["new.md", "b/changed.md", "b/gone.md", "none/gone.md", "never.md", "none/never.md"],
        finished=True,
    )
    assert kinds(scan) == {
        "new.md": "new",
        "b/changed.md": "changed",
        "b/gone.md": "gone",
        "none/gone.md": "gone",
    }
    assert scan.problems == {}


def test_a_look_changes_neither_index_nor_vault(scanner, vault, index):
    fill(vault, "new.md")
    index.set("gone.md", UNREAD)
    scanner.look(["new.md", "gone.md"], finished=True)
    scanner.walk(finished=True)
    assert (list(index.paths()), [path.name for path in vault.iterdir()]) == (
        ["gone.md"],
        ["new.md"],
    )


def test_what_was_written_just_now_waits_unless_it_is_finished(scanner, vault):
    fill(vault, "a.md")
    assert (scanner.look(["a.md"], finished=False).unsettled, scanner.walk().unsettled) == (
        {"a.md"},
        {"a.md"},
    )
    assert (
        kinds(scanner.look(["a.md"], finished=True))
        == kinds(scanner.walk(finished=True))
        == {"a.md": "new"}
    )


def test_no_more_than_a_moment_is_waited_by_default(vault, index):
    fill(vault, "a.md")
    at = (vault / "a.md").stat().st_mtime_ns - 10**9
    os.utime(vault / "a.md", ns=(at, at))
    assert kinds(Scanner(VaultRoot(vault), index, IgnoreRules()).walk()) == {"a.md": "new"}


def test_a_path_that_is_refused_or_ignored_is_not_looked_at(scanner, vault, tmp_path):
    fill(vault, ".git/a.md", "b/.hidden/c.md", "d.md~", ".parachuteignore", ".agents/e.md")
    (tmp_path / "outside.md").write_text("outside")
    refused = [
        "../outside.md",
        str(tmp_path / "outside.md"),
        "",
        "b/",
        "a\0.md",
        "b/../d.md",
        "x" * 256,
    ]
    ignored = [".git/a.md", "b/.hidden/c.md", "d.md~"]
    scan = scanner.look([*refused, *ignored, ".parachuteignore", ".agents/e.md"], finished=True)
    assert set(kinds(scan)) == {".parachuteignore", ".agents/e.md"}
    assert scan.problems == {}


@pytest.mark.on_disk
def test_a_known_note_that_became_a_folder_a_link_or_a_pipe_is_gone(scanner, vault, index):
    (vault / "folder.md").mkdir()
    (vault / "link.md").symlink_to("/etc/passwd")
    os.mkfifo(vault / "pipe.md")
    for path in ("folder.md", "link.md", "pipe.md"):
        index.set(path, UNREAD)
    names = ["folder.md", "link.md", "pipe.md"]
    assert kinds(scanner.look(names, finished=True)) == dict.fromkeys(names, "gone")


def test_a_folder_that_became_a_link_outside_is_not_entered(scanner, vault, index, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.md").write_text("outside")
    (vault / "folder").symlink_to(tmp_path / "outside")
    index.set("folder/a.md", UNREAD)
    assert kinds(scanner.look(["folder/a.md", "folder/b.md"], finished=True)) == {
        "folder/a.md": "gone"
    }


def test_nothing_is_inferred_for_a_vault_that_vanished(scanner, vault, index):
    index.set("a.md", UNREAD)
    index.set("b/c.md", UNREAD)
    vault.rmdir()
    for paths in (["a.md"], ["b/c.md"]):
        with pytest.raises(OSError, match="the vault is not there"):
            scanner.look(paths, finished=True)
    with pytest.raises(OSError, match="the vault is not there"):
        scanner.walk()


def test_new_rules_hold_for_known_files_from_the_next_walk_over_everything(scanner, vault, index):
    fill(vault, "a.pdf", "b/c.pdf", "d.md")
    scanner.walk()
    for path in ("a.pdf", "b/c.pdf", "d.md"):
        index.set(path, IndexEntry.of((vault / path).stat(), None))
    scanner.ignore = IgnoreRules("*.pdf")
    assert kinds(scanner.walk("b")) == {"b/c.pdf": "gone"}
    assert kinds(scanner.walk()) == {"a.pdf": "gone", "b/c.pdf": "gone"}
    assert scanner.walk() == ScanFindings()


def test_a_path_is_ignored_by_its_own_name_or_by_any_folder_on_the_way(scanner):
    scanner.ignore = IgnoreRules("Private/")
    assert [
        scanner.ignored(path)
        for path in ("a/b.md~", "Private/a/b.md", "a/Private/b.md", ".git/x/y.md")
    ] == [True] * 4
    assert [scanner.ignored(path) for path in ("a/b.md", "Private.md", ".agents/a.md")] == [
        False
    ] * 3
    assert scanner.ignored_folder("a/.git/hooks")
    assert not scanner.ignored_folder("a/b")
    assert not scanner.ignored_folder("")


def test_a_file_of_which_the_disk_does_not_tell_is_a_problem_and_not_gone(
    scanner, vault, index, monkeypatch
):
    fill(vault, "a.md", "b.md")
    for path in ("a.md", "b.md"):
        index.set(path, UNREAD)
    stat = os.stat

    def failing(path, **where):
        if path == "a.md":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return stat(path, **where)

    monkeypatch.setattr(os, "stat", failing)
    scan = scanner.look(["a.md", "b.md"], finished=True)
    assert kinds(scan) == {"b.md": "changed"}
    assert scan.problems == {"a.md": "Input/output error"}
