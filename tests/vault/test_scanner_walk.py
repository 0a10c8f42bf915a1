"""Walk: a whole vault compared with what is known of it, and nothing inferred from what could not
be seen.
"""

from __future__ import annotations

import errno
import os
import shutil
import time

import pytest

from parachuted.vault.ignore import IgnoreRules
from parachuted.vault.index import VaultIndex
from parachuted.vault.root import VaultRoot
from parachuted.vault.scanner import ScanFindings, VaultWalk
from tests.vault.conftest import fill, kinds

LATIN_1 = os.fsdecode(b"caf\xe9.md")


class RecordedScans:
    def __init__(self, vault) -> None:
        self.root, self.index = VaultRoot(vault), VaultIndex()
        self.ignore, self.entered = IgnoreRules(), []

    def walk(self, folder: str = "", *, is_strict: bool = False) -> ScanFindings:
        scan = ScanFindings()
        VaultWalk(
            root=self.root,
            index=self.index,
            ignore=self.ignore,
            scan=scan,
            enter=self.entered.append,
            settle_ns=0,
            is_strict=is_strict,
        ).below(folder)
        return scan

    def learn(self) -> None:
        """Walk until nothing differs: what was written within a tick of the clock is looked at
        twice.
        """
        deadline = time.monotonic() + 120
        while (scan := self.walk()).seen or scan.new_folders:
            assert time.monotonic() < deadline
            for folder in scan.new_folders:
                self.index.add_folder(folder)
            for seen in scan.seen:
                self.index.set(seen.path, seen.new)


@pytest.fixture
def looks(vault):
    return RecordedScans(vault)


def test_everything_in_a_new_vault_is_new_in_every_kind_of_name(looks, vault):
    files = ("a.md", "b/c/d.md", "🌱/-rf.md", LATIN_1, ".agents/x.md", ".parachuteignore")
    fill(vault, *files)
    scan = looks.walk()
    assert kinds(scan) == dict.fromkeys(files, "new")
    assert set(scan.new_folders) == {"b", "b/c", "🌱", ".agents"}
    assert (scan.gone_folders, scan.problems, scan.unsettled) == ([], {}, set())
    assert (looks.entered[0], set(looks.entered[1:])) == ("", set(scan.new_folders))
    assert looks.entered.index("b") < looks.entered.index("b/c")


def test_new_changed_and_gone_are_distinguished_from_what_is_known(looks, vault):
    fill(vault, "kept.md", "b/changed.md", "b/gone.md", "p.png")
    looks.learn()
    assert looks.walk() == ScanFindings()
    (vault / "b/changed.md").write_text("other")
    (vault / "b/gone.md").unlink()
    fill(vault, "b/new.md")
    found = {"b/changed.md": "changed", "b/gone.md": "gone", "b/new.md": "new"}
    assert kinds(looks.walk()) == found


def test_a_folder_that_is_gone_takes_all_below_it(looks, vault):
    fill(vault, "kept.md", "a/b/x.md", "a/y.md")
    looks.learn()
    shutil.rmtree(vault / "a")
    scan = looks.walk()
    assert kinds(scan) == {"a/b/x.md": "gone", "a/y.md": "gone"}
    assert set(scan.gone_folders) == {"a", "a/b"}
    assert looks.walk("a").gone_folders == scan.gone_folders


def test_a_walk_below_a_folder_says_nothing_of_the_rest(looks, vault):
    fill(vault, "a.md", "b/c.md", "b/d/e.md")
    assert set(kinds(looks.walk("b"))) == {"b/c.md", "b/d/e.md"}


def test_nothing_is_inferred_for_a_vault_that_vanished(looks, vault):
    fill(vault, "a.md", "b/c.md")
    looks.learn()
    shutil.rmtree(vault)
    for folder in ("", "b"):
        with pytest.raises(OSError, match="the vault is not there") as failed:
            looks.walk(folder)
        assert failed.value.errno == errno.ESTALE


def test_a_folder_that_cannot_be_listed_is_a_problem_and_loses_nothing(looks, vault, monkeypatch):
    fill(vault, "a/x.md", "b.md")
    looks.learn()
    open_ = os.open

    def refuse(name, *rest: int, **options: int) -> int:
        if name == "a":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return open_(name, *rest, **options)

    monkeypatch.setattr(os, "open", refuse)
    scan = looks.walk()
    assert (scan.seen, scan.gone_folders) == ([], [])
    assert scan.problems == {"a": "the folder cannot be read: Permission denied"}


def test_names_that_cannot_be_watched_are_reported_as_they_can_be_shown(looks, vault):
    fill(vault, "a\x1b.md", "b\n/c.md", "d.md")
    scan = looks.walk()
    assert set(kinds(scan)) == {"d.md"}
    assert set(scan.problems) == {r"a\x1b.md", r"b\x0a"}


def test_ignored_files_and_folders_are_passed_over_without_a_word(looks, vault):
    looks.ignore = IgnoreRules("*.pdf\nPrivate/\n")
    fill(vault, "a.md", "a.md~", ".hidden", ".git/config.md", "x.pdf", "Private/y.md", "b/4913")
    scan = looks.walk()
    assert (set(kinds(scan)), scan.new_folders, scan.problems) == ({"a.md"}, ["b"], {})


def test_known_files_are_held_against_new_rules_only_when_asked(looks, vault):
    fill(vault, "a.md", "b.md")
    looks.learn()
    looks.ignore = IgnoreRules("a.md")
    assert looks.walk().seen == []
    assert kinds(looks.walk(is_strict=True)) == {"a.md": "gone"}


def test_links_and_pipes_are_skipped_and_some_are_named(looks, vault, tmp_path):
    fill(vault, "a.md", "b/c.md")
    os.mkfifo(vault / "pipe.md")
    (vault / "inside.md").symlink_to("b/c.md")
    (vault / "inside").symlink_to("b")
    (vault / "loop").symlink_to(".")
    (vault / "outside").symlink_to(tmp_path.parent)
    (vault / "dangling.md").symlink_to("none.md")
    scan = looks.walk()
    assert set(kinds(scan)) == {"a.md", "b/c.md"}
    assert {
        path: problem.partition(";")[0] for path, problem in scan.problems.items() if path != "loop"
    } == {
        "pipe.md": "not a regular file",
        "outside": "a link that leaves the vault",
        "dangling.md": "a link that leads nowhere",
    }


def test_a_note_that_became_a_link_is_gone_from_where_it_was(looks, vault):
    fill(vault, "a.md", "b.md")
    looks.learn()
    (vault / "a.md").unlink()
    (vault / "a.md").symlink_to("b.md")
    assert kinds(looks.walk()) == {"a.md": "gone"}


def test_folders_are_walked_to_a_depth_and_the_first_below_it_is_named(looks, vault):
    deep = "/".join(["d"] * 120)
    fill(vault, f"{deep}/seen.md", f"{deep}/d/unseen.md")
    scan = looks.walk()
    assert set(kinds(scan)) == {f"{deep}/seen.md"}
    assert set(scan.problems) == {f"{deep}/d"}
