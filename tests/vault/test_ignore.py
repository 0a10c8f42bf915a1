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


DOTTED = [".git", ".obsidian", ".versions", ".tombstones", ".stfolder", ".trash"]


@pytest.mark.parametrize("name", [*DOTTED, ".parachuteignore", ".agents", "Projects", "4913", "a~"])
def test_dot_folders_are_ignored_but_the_agents_and_ordinary_ones_are_not(name):
    is_ignored = name in {*DOTTED, ".parachuteignore"}
    assert [IgnoreRules().folder(folder, name) for folder in ("", "Daily")] == [is_ignored] * 2


@pytest.mark.parametrize(
    ("rules", "ignored", "kept"),
    [
        ("*.pdf\n/top.md\n", [("a/b", "x.pdf"), ("", "top.md")], [("a", "top.md")]),
        ("*.md\n!kept.md\n", [("", "other.md")], [("", "kept.md")]),
        ("!*.swp\n", [("", "a.swp")], []),  # what is always ignored is not taken back
        ("# mine\r\n\r\n*.pdf\r\nlast", [("", "x.pdf"), ("", "last")], [("", "# mine")]),
        ("*", [], [("", ".parachuteignore")]),  # so that its change is noticed
    ],
)
def test_rules_hold_for_files_and_for_folders(rules, ignored, kept):
    ignore = IgnoreRules(rules)
    assert [name for name in ignored if not ignore.file(*name)] == []
    assert [name for name in kept if ignore.file(*name)] == []
    assert ignore.problem is None
    assert IgnoreRules("!.git\nPrivate/\n").folder("", ".git")
    assert IgnoreRules("Private/\n").folder("a", "Private")
    assert not IgnoreRules("Private/\n").file("", "Private")


def test_the_file_ends_after_a_thousand_lines():
    ignore = IgnoreRules("\n".join(["#"] * 999 + ["a.md", "b.md"]))
    assert ignore.file("", "a.md")
    assert not ignore.file("", "b.md")
    assert (
        ignore.problem == ".parachuteignore has 1001 lines; those after line 1000 are not applied"
    )
