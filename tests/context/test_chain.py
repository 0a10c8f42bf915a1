"""Chain: what a choice of folders loads, what it does not, and why; what names of contexts mean, as
older programs and newer ones write them; and which folders have a context file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.context import LARGEST_FILE, Chain, ContextSelection, chain_of, context_folders
from parachuted.context.chain import choice_of, names_in, tokens_of
from parachuted.errors import PathRefusedError
from parachuted.vault import IndexEntry, VaultIndex, VaultPath

FILES = {
    "AGENTS.md": 40,
    "Projects/AGENTS.md": 80,
    "Projects/a/AGENTS.md": 120,
    "Projects/b/CLAUDE.md": 160,
    "Areas/x/AGENTS.md": 200,
}


def index_of(*paths: str, **sizes: int) -> VaultIndex:
    index = VaultIndex()
    for path, size in {**dict.fromkeys(paths, 1), **sizes}.items():
        index.set(path, IndexEntry(0, 0, size, 1, "d"))
    return index


def chain(
    *folders: str,
    files: Sequence[str] = (),
    watched: Mapping[str, list[str]] | None = None,
    max_tokens: int | None = None,
    sees: Callable[[str], bool] = lambda _path: True,
) -> Chain:
    index = index_of(**FILES, **{"Areas/x/plan.md": 4})
    index.add_folder("Empty")
    watches = watched or {}
    choice = ContextSelection(folders=folders, files=tuple(map(VaultPath, files)))
    return chain_of(
        choice,
        index,
        lambda path: map(VaultPath, watches.get(path, [])),
        max_tokens=max_tokens,
        sees=sees,
    )


def rows(found: Chain) -> list[tuple[str, str, bool]]:
    return [(file.path, file.level, file.included) for file in found.files]


def test_a_chosen_folder_is_included_and_its_parents_are_listed():
    found = chain("Projects/a")

    assert rows(found) == [
        ("AGENTS.md", "root", False),
        ("Projects/AGENTS.md", "parent", False),
        ("Projects/a/AGENTS.md", "direct", True),
    ]
    parent = "a parent, neither chosen nor watched"
    assert [file.reason for file in found.files] == [parent, parent, "chosen"]
    assert (found.total_tokens, found.truncated) == (30, False)
    assert rows(chain("")) == [("AGENTS.md", "root", True)]


def test_what_a_chosen_file_watches_is_included_context_files_only():
    """What a watched file watches is not."""
    watched = {
        "Projects/a/AGENTS.md": ["Areas/x/AGENTS.md", "Areas/x/plan.md", "AGENTS.md"],
        "Areas/x/AGENTS.md": ["Projects/b/CLAUDE.md"],
    }
    found = chain("Projects/a", watched=watched)
    files = {file.path: file for file in found.files}

    assert ("Areas/x/AGENTS.md", "watched", True) in rows(found)
    assert ("AGENTS.md", "root", True) in rows(found)
    assert files.keys().isdisjoint({"Areas/x/plan.md", "Projects/b/CLAUDE.md"})
    assert files["AGENTS.md"].reason == "watched by Projects/a/AGENTS.md"
    nearest_last = [file.level for file in chain("Projects/a", "Projects/b", watched=watched).files]
    assert nearest_last == ["root", "parent", "watched", "direct", "direct"]


def test_a_folder_without_a_file_is_missing_and_one_chosen_twice_is_once():
    found = chain("Empty", "Nowhere/deep")
    missing = [(file.path, file.folder_path) for file in found.files if not file.exists]

    assert missing == [("Empty/AGENTS.md", "Empty"), ("Nowhere/deep/AGENTS.md", "Nowhere/deep")]
    assert not any(file.included for file in found.files)
    assert found.total_tokens == 0
    watched = {"Projects/AGENTS.md": ["Projects/a/AGENTS.md"]}
    assert rows(chain("Projects/a", "Projects", "Projects/a", watched=watched)) == [
        ("AGENTS.md", "root", False),
        ("Projects/AGENTS.md", "direct", True),
        ("Projects/a/AGENTS.md", "direct", True),
    ]


@pytest.mark.parametrize(
    ("max_tokens", "included"),
    [
        (1000, ["AGENTS.md", "Areas/x/AGENTS.md", "Projects/a/AGENTS.md"]),
        (89, ["Areas/x/AGENTS.md", "Projects/a/AGENTS.md"]),
        (79, ["Projects/a/AGENTS.md"]),
        (29, []),
    ],
)
def test_over_the_budget_what_is_farthest_goes_first_and_is_listed(
    max_tokens: int, included: list[str]
):
    found = chain(
        "Projects/a",
        watched={"Projects/a/AGENTS.md": ["Areas/x/AGENTS.md", "AGENTS.md"]},
        max_tokens=max_tokens,
    )

    assert [file.path for file in found.files if file.included] == included
    assert found.truncated == (len(included) < 3)
    assert {
        file.reason
        for file in found.files
        if not file.included and file.path != "Projects/AGENTS.md"
    } <= {"over the token budget"}
    assert found.total_tokens <= max_tokens


def test_an_old_file_may_be_chosen_like_a_folder():
    found = chain(files=["Areas/x/plan.md", "Areas/x/none.md"])

    assert rows(found) == [
        ("AGENTS.md", "root", False),
        ("Areas/x/AGENTS.md", "parent", False),
        ("Areas/x/none.md", "direct", False),
        ("Areas/x/plan.md", "direct", True),
    ]
    assert [file.reason for file in found.files[2:]] == ["chosen, but there is no file", "chosen"]


def test_the_unseen_is_not_reported_and_a_huge_file_counts_as_loaded():
    found = chain(
        *("Projects/a", "Areas/x"),
        watched={"Projects/a/AGENTS.md": ["Areas/x/AGENTS.md"]},
        sees=lambda path: path.startswith("Projects/a/"),
    )
    assert (rows(found), found.total_tokens) == ([("Projects/a/AGENTS.md", "direct", True)], 30)

    huge = index_of(**{"AGENTS.md": 100 << 20})
    (file,) = chain_of(ContextSelection(folders=("",)), huge, lambda _path: ()).files
    assert file.tokens == LARGEST_FILE // 4
    assert file.reason == "chosen; all beyond its first 128 KB is left out"


@given(
    st.lists(
        st.sampled_from(
            ["", "Projects", "Projects/a", "Projects/b", "Areas/x", "Areas", "Empty", "a/b/c"]
        )
    ),
    st.none() | st.integers(0, 200),
)
def test_a_chain_adds_up(folders: list[str], max_tokens: int | None):
    found = chain(*folders, watched={"AGENTS.md": ["Projects/AGENTS.md"]}, max_tokens=max_tokens)

    assert found.total_tokens == sum(file.tokens for file in found.files if file.included)
    assert len({file.path for file in found.files}) == len(found.files)
    assert all(file.exists for file in found.files if file.included)
    assert max_tokens is None or found.total_tokens <= max_tokens


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


def test_each_folder_with_a_context_file_is_reported_by_path():
    deep = {"b/deep/CLAUDE.md": 4, "c/plan.md": 1, "b/CLAUDE.md": 1}
    index = index_of(**{"b/AGENTS.md": 8, "AGENTS.md": 9, **deep})

    found = context_folders(index)
    assert [(one.path, one.context_file, one.display_name, one.tokens) for one in found] == [
        ("", "AGENTS.md", "Vault", 3),
        ("b", "b/AGENTS.md", "b", 2),
        ("b/deep", "b/deep/CLAUDE.md", "deep", 1),
    ]
    has = [(one.has_agents_md, one.has_claude_md) for one in found]
    assert has == [(True, False), (True, True), (False, True)]
    assert context_folders(index_of(**{"a.md": 1})) == []


def test_a_token_is_each_started_four_bytes():
    index = index_of(**{"0": 0, "1": 1, "4": 4, "5": 5})

    found = {name: tokens_of(index, VaultPath(name)) for name in ("0", "1", "4", "5", "none")}
    assert found == {"0": 0, "1": 1, "4": 1, "5": 2, "none": 0}
