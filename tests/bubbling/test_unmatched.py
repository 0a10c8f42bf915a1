"""Unmatched: what is said of a pattern that matches nothing."""

from __future__ import annotations

import pytest

from parachuted.bubbling.patterns import parse_declaration
from parachuted.bubbling.watches import unmatched
from parachuted.vault import IndexEntry, VaultIndex

FILES = (
    "Projects/garden/AGENTS.md",
    "Projects/shed/notes.md",
    "People/Ann.md",
    "Daily/2026.md",
    "W.md",
)


@pytest.fixture
def tree() -> VaultIndex:
    index = VaultIndex()
    for path in FILES:
        index.set(path, IndexEntry(1, 1, 1, 1, "0"))
    return index


@pytest.mark.parametrize(
    "pattern",
    ["Projects/*", "Projects/garden", "People/*.md", "**/*.md", "./Daily/*.md", "!Projects/garden"],
)
def test_a_pattern_that_matches_is_not_reported(tree: VaultIndex, pattern: str):
    assert list(unmatched(parse_declaration("W.md", ["People/*.md", pattern]), tree)) == []


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("Projcts/*", "matches nothing: there is no folder Projcts; did you mean Projects?"),
        ("projects/garden", "matches nothing: there is no folder projects; did you mean Projects?"),
        (
            "Projects/shed",
            (
                "the folder Projects/shed has no AGENTS.md or CLAUDE.md; for its notes write "
                '"Projects/shed/*.md"'
            ),
        ),
        (
            "People/*",
            'none of these folders has an AGENTS.md or CLAUDE.md; for notes write "People/*.md"',
        ),
        ("People/Ann", 'there is no folder People/Ann; for the note write "People/Ann.md"'),
        ("People/An.md", "there is no file People/An.md; did you mean People/Ann.md?"),
        ("Zebra/x.md", "there is no folder Zebra"),
        ("People/Z*.md", "this file does not exist"),
        ("W.md", "matches nothing"),
        (
            "!Projects/attic",
            '"!Projects/attic" leaves nothing out: there is no folder Projects/attic',
        ),
        ("./", "the folder of the vault has no AGENTS.md or CLAUDE.md"),
    ],
)
def test_a_pattern_that_matches_nothing_is_reported_with_what_may_be_meant(
    tree: VaultIndex, pattern: str, says: str
):
    (reported,) = unmatched(parse_declaration("W.md", [pattern]), tree)

    assert pattern in reported
    assert says in reported
