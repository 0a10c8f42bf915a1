"""Ignore: a person's notes are seen, the rest is not."""

from __future__ import annotations

import pytest

from parachuted.vault.ignore import IgnoreRules

SCRAP = [
    *(
        ".~tmp",
        "~syncthing~note.md.tmp",
        ".goutputstream-X1Y2Z3",
        ".#note.md",
        "#note.md#",
        ".note.md.swp",
        "note.md.swx",
        "4913",
    ),
    *(
        "note.md~",
        "sedAb12Cd",
        "note.md.tmp",
        "NOTE.TMP",
        "note.temp",
        "note.part",
        "note.crdownload",
        "~$note.docx",
        "a\nb.swp",
    ),
]
CONFLICT_COPIES = [
    "note.sync-conflict-2026-08-01T10-00-00-phone.md",
    "note.sync-conflict-20260801-100000-ABCDEFG.md",
    "note (Conflicted copy phone 202608011000).md",
]


@pytest.mark.parametrize("name", [*SCRAP, ".DS_Store", ".gitignore", ".agents", ".hidden.md"])
def test_what_editors_and_sync_programs_leave_is_ignored(name):
    assert IgnoreRules().file("", name)
    assert IgnoreRules().file("Projects/a", name)


@pytest.mark.parametrize(
    "name",
    [
        *CONFLICT_COPIES,
        "AGENTS.md",
        "sedated.md",
        "sed.md",
        "4913.md",
        "swap.md",
        "a.swp.md",
        "#tag.md",
        "~a.md",
        ".parachuteignore",
        "🌱.md",
    ],
)
def test_a_persons_files_are_not(name):
    assert not IgnoreRules().file("", name)
    assert not IgnoreRules().file("Projects/a", name)


@pytest.mark.parametrize(
    "name",
    [".git", ".obsidian", ".versions", ".tombstones", ".stfolder", ".trash", ".parachuteignore"],
)
def test_dot_folders_are_ignored(name):
    assert IgnoreRules().folder("", name)
    assert IgnoreRules().folder("Daily", name)


@pytest.mark.parametrize("name", [".agents", "Projects", "4913", "a~"])
def test_the_agents_folder_and_ordinary_ones_are_not(name):
    assert not IgnoreRules().folder("Daily", name)


def test_a_pattern_holds_for_files_and_for_folders():
    ignore = IgnoreRules("*.pdf\nPrivate/\n/top.md\n")
    assert ignore.file("a/b", "x.pdf")
    assert ignore.folder("", "Private")
    assert ignore.folder("a", "Private")
    assert ignore.file("", "top.md")
    assert not ignore.file("a", "top.md")
    assert not ignore.file("", "Private")
    assert ignore.problem is None


def test_a_later_line_with_an_exclamation_mark_takes_one_back():
    ignore = IgnoreRules("*.md\n!kept.md\n")
    assert ignore.file("", "other.md")
    assert not ignore.file("", "kept.md")


def test_an_exclamation_mark_does_not_take_back_what_is_always_ignored():
    ignore = IgnoreRules("!.git\n!*.swp\n")
    assert ignore.folder("", ".git")
    assert ignore.file("", "a.swp")


def test_comments_blank_lines_and_windows_line_ends_are_understood():
    ignore = IgnoreRules("# mine\r\n\r\n*.pdf\r\nlast")
    assert ignore.file("", "x.pdf")
    assert ignore.file("", "last")
    assert not ignore.file("", "# mine")
    assert ignore.problem is None


def test_the_rules_themselves_are_never_ignored_so_that_their_change_is_noticed():
    assert not IgnoreRules("*").file("", ".parachuteignore")


def test_the_file_ends_after_a_thousand_lines():
    ignore = IgnoreRules("\n".join(["#"] * 999 + ["a.md", "b.md"]))
    assert ignore.file("", "a.md")
    assert not ignore.file("", "b.md")
    assert (
        ignore.problem == ".parachuteignore has 1001 lines; those after line 1000 are not applied"
    )
