"""Folders: the places that have a context file, told from the index."""

from __future__ import annotations

import pytest

from parachuted.context import context_folders
from parachuted.context.chain import tokens_of
from parachuted.vault import IndexEntry, VaultIndex, VaultPath


def index_of(**sizes: int) -> VaultIndex:
    index = VaultIndex()
    for path, size in sizes.items():
        index.set(path, IndexEntry(0, 0, size, 1, "d"))
    return index


def test_each_folder_with_a_context_file_is_reported_by_path():
    index = index_of(
        **{
            "b/AGENTS.md": 8,
            "AGENTS.md": 9,
            "b/deep/CLAUDE.md": 4,
            "c/plan.md": 1,
            "b/CLAUDE.md": 1,
        }
    )

    found = context_folders(index)
    assert [(one.path, one.context_file, one.display_name, one.tokens) for one in found] == [
        ("", "AGENTS.md", "Vault", 3),
        ("b", "b/AGENTS.md", "b", 2),
        ("b/deep", "b/deep/CLAUDE.md", "deep", 1),
    ]
    assert [(one.has_agents_md, one.has_claude_md) for one in found] == [
        (True, False),
        (True, True),
        (False, True),
    ]


def test_a_vault_without_context_files_has_none():
    assert context_folders(index_of(**{"a.md": 1})) == []


@pytest.mark.parametrize(("size", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2)])
def test_a_token_is_each_started_four_bytes(size: int, tokens: int):
    assert tokens_of(index_of(**{"a.md": size}), VaultPath("a.md")) == tokens


def test_a_file_that_is_not_there_has_no_tokens():
    assert tokens_of(VaultIndex(), VaultPath("a.md")) == 0
