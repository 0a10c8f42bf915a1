"""Assembly: the context of chosen folders as one text, with what each part costs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from parachuted.context.prompt import ContextAssembly
from parachuted.errors import NotFoundError, PathRefusedError
from parachuted.vault import IndexEntry, VaultIndex, VaultPath

TEXTS = {
    "AGENTS.md": "# All\n",
    "Projects/a/AGENTS.md": "# A\n\nBeans are on the left.\n",
    "Areas/x/AGENTS.md": "# X\n\nWater on Mondays.\n",
}


def assembly() -> ContextAssembly:
    index = VaultIndex()
    for path, text in TEXTS.items():
        index.set(path, IndexEntry(1_000_000_000, 0, len(text), 1, "d"))
    watched = {"Projects/a/AGENTS.md": [VaultPath("Areas/x/AGENTS.md")]}
    return ContextAssembly(index, lambda path: watched.get(path, []))


async def read(path: str) -> str:
    return TEXTS[path]


async def test_a_folder_brings_its_context_file_and_what_that_watches():
    found = await assembly().load(["Projects/a"], sees=lambda _path: True, read=read)

    assert "Beans are on the left." in found.text
    assert "Water on Mondays." in found.text
    assert "# All" not in found.text
    assert (found.tokens > 0, found.is_truncated) == (True, False)
    parts = {one.path: one for one in found.parts}
    assert [path for path, one in parts.items() if one.included] == [
        "Areas/x/AGENTS.md",
        "Projects/a/AGENTS.md",
    ]
    assert parts["Projects/a/AGENTS.md"].modified == datetime.fromtimestamp(1, UTC)
    assert not parts["Projects/a/AGENTS.md"].is_strange


async def test_what_the_caller_may_not_see_is_left_out():
    found = await assembly().load(
        ["Projects/a"], sees=lambda path: not path.startswith("Areas/"), read=read
    )

    assert "Water" not in found.text


async def test_a_file_that_is_gone_by_then_is_listed_with_the_reason():
    async def gone(path: str) -> str:
        raise NotFoundError(f"there is no {path}")

    found = await assembly().load(["Projects/a"], sees=lambda _path: True, read=gone)

    assert found.text == ""
    assert all(not one.included for one in found.parts)
    assert any("could not be read: there is no" in one.reason for one in found.parts)


async def test_over_the_budget_the_farthest_is_left_out():
    found = await assembly().load(["Projects/a"], sees=lambda _path: True, read=read, max_tokens=12)

    assert found.is_truncated
    assert "Water" not in found.text


async def test_what_is_not_a_path_in_the_vault_is_refused():
    with pytest.raises(PathRefusedError):
        await assembly().load(["../x"], sees=lambda _path: True, read=read)
