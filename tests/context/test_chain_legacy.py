"""Legacy: what names of contexts mean, as older programs and newer ones write them."""

from __future__ import annotations

import pytest

from parachuted.context.chain import choice_of, names_in
from parachuted.errors import PathRefusedError
from parachuted.vault import IndexEntry, VaultIndex


def index_of(*paths: str) -> VaultIndex:
    index = VaultIndex()
    for path in paths:
        index.set(path, IndexEntry(0, 0, 1, 1, "d"))
    return index


INDEX = index_of(
    "AGENTS.md", "CLAUDE.md", "a/CLAUDE.md", "b/note.md", "odd.md/AGENTS.md", "x, y/AGENTS.md"
)


@pytest.mark.parametrize(
    ("name", "folders", "files"),
    [
        ("", ("",), ()),
        (".", ("",), ()),
        ("a", ("a",), ()),
        ("a/", ("a",), ()),
        ("a/CLAUDE.md", ("a",), ()),
        ("AGENTS.md", ("",), ()),
        ("CLAUDE.md", (), ("CLAUDE.md",)),
        ("b/note.md", (), ("b/note.md",)),
        ("Chat/contexts/gone.md", (), ("Chat/contexts/gone.md",)),
        ("odd.md", ("odd.md",), ()),
        ("Nowhere", ("Nowhere",), ()),
    ],
)
def test_a_name_means_a_folder_or_as_it_was_once_a_file(name, folders, files):
    choice = choice_of([name, name], INDEX)

    assert (choice.folders, choice.files) == (folders, files)


@pytest.mark.parametrize("name", ["/etc", "..", "a/../b", "//", "/", "~", "a\0b", "a//b", "a/./b"])
def test_what_is_not_a_path_in_the_vault_is_refused(name):
    with pytest.raises(PathRefusedError):
        choice_of([name], INDEX)


def test_several_names_may_stand_in_one_text_unless_it_is_a_folder_s_own():
    assert names_in(["a, b,,c", "x, y", "d"], INDEX) == ["a", "b", "", "c", "x, y", "d"]
