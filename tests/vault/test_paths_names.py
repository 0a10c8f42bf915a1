"""Names: what some file system may take for one name."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parachuted.texts.visible import is_ignorable
from parachuted.vault.paths import begins_with_dot, fold_name

_PIECES = st.sampled_from(
    [
        ".",
        " ",
        "~1",
        ":",
        "$data",
        "\u2026",
        "\u200b",
        "\ufe0f",
        "\u3164",
        "\u1e9e",
        "\u0130",
        "\u0131",
        "\uff0e",
        "gi",
        "git",
        "7eb3",
        "\u0345",
    ]
)
NAMES = st.one_of(st.text(max_size=8), st.lists(_PIECES, max_size=6).map("".join))


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Modules", "MODULES."),
        ("Modules", "Modules . "),
        ("Modules", "Mod\u00adules"),
        ("Modules", "Modules\ufe0f"),
        ("Modules", "\u034fModules"),
        ("Modules", "Modules\u3164"),
        ("Modules", "Modules\uffa0"),
        ("Modules", "\u115fModules"),
        ("Modules", "\uff2d\uff4fdules"),
        ("Modules", "Modules\u3000"),
        ("caf\u00e9", "CAFE\u0301"),
        ("stra\u00dfe", "STRASSE"),
        ("k", "\u212a"),
        ("s", "\u017f"),
        ("i", "\u0131"),
        ("Modules", "modules::$INDEX_ALLOCATION"),
        (".git", "GIT~1"),
        (".git", "gi7eb3~1"),
        ("Suggestions", "SUGGES~2"),
        (".git", "\u200b.git"),
        (".git", "\u2024git"),
        (".git", ".git\u200c ."),
        (".mcp.json", "MCP~1.JSO"),
    ],
)
def test_names_that_some_disk_takes_for_one_fold_to_one(name, other):
    assert fold_name(name) == fold_name(other)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("a", "b"),
        ("a.b", "ab"),
        ("...", "a"),
        ("\u2026", "..."),
        ("Suggestions: mine", "Suggestions"),
        ("a~1", "a"),
        ("caf\u00e9", "cafe"),
        ("Modules", "My Modules"),
        ("plan~1.md", "plan.md"),
        (" a", "a"),
    ],
)
def test_names_that_no_disk_takes_for_one_stay_apart(name, other):
    assert fold_name(name) != fold_name(other)


DOTTED = [".git", "\u200b.git", "\u2024git", "\ufe0f.x", "git~1", "ENV~1", "..", "..."]
OTHERS = ["a", "a.b", "\u2026and then", "a~1", "~", "\u00e9.md", "", "\u200b", " .a"]


@pytest.mark.parametrize("name", [*DOTTED, *OTHERS])
def test_a_dot_at_the_beginning_is_seen_behind_what_is_invisible(name):
    assert begins_with_dot(name) == (name in DOTTED)


@given(NAMES)
@example("\u0345\u0399")
@example("git\u200b~1.")
@example("~1::$data")
def test_folding_what_is_folded_changes_nothing(name):
    assert fold_name(fold_name(name)) == fold_name(name)


@given(
    NAMES,
    st.sampled_from(["", ".", " ", ". ."]),
    st.text(alphabet="\u200b\ufe0f\u034f\u3164\u115f\u00ad\ufeff\U000e0041", max_size=3),
)
def test_case_ends_and_invisible_characters_make_no_other_name(name, end, unseen):
    folded = fold_name(name)
    if folded.strip(". ") and not all(map(is_ignorable, folded)):
        assert fold_name(unseen + folded + unseen + end) == folded


@given(st.text(max_size=8))
def test_only_nothing_folds_to_nothing(name):
    assert bool(fold_name(name)) == bool(name)
