"""Prompt: what an agent is told, in which order, and that notes cannot speak in its place; the
context of chosen folders as one text, with what each part costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.access.notes import ContextPreview
from parachuted.context import (
    LARGEST_FILE,
    ContextSelection,
    PromptPreview,
    tokens_of_text,
)
from parachuted.context.prompt import BASE_PROMPT, ContextAssembly, PromptText, assemble
from parachuted.errors import NotFoundError, PathRefusedError
from parachuted.vault import IndexEntry, VaultIndex, VaultPath, VaultRoot

TREE = {
    "AGENTS.md": "# Me\n",
    "Projects/AGENTS.md": "# Projects\n",
    "Projects/garden/AGENTS.md": "# Garden\n",
    "Projects/garden/CLAUDE.md": "# Tools of the garden\n",
    "Areas/home/CLAUDE.md": "# Home\n",
    "Chat/contexts/old.md": "# Old\n",
    ".agents/helper.md": "---\nname: The  Helper\n---\nYou help.\n",
    ".agents/plain.md": "You are plain.\n",
}


class PromptRig:
    """A vault, and prompts made from it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.index = folder, VaultIndex()
        self.root = VaultRoot(folder)
        for path, text in TREE.items():
            self.save(path, text.encode())

    def save(self, path: str, data: bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        self.index.set(path, IndexEntry(0, 0, len(data), 1, "d"))

    async def preview(
        self,
        *folders: str,
        files: tuple[str, ...] = (),
        working: str | None = None,
        agent: str | None = None,
        watched: Mapping[str, list[str]] | None = None,
        sees: Callable[[str], bool] = lambda _path: True,
        max_tokens: int = 50_000,
    ) -> PromptPreview:
        watches = watched or {}
        prompts = ContextAssembly(
            self.index, lambda path: [VaultPath(watch) for watch in watches.get(path, [])]
        )
        choice = ContextSelection(folders=folders, files=tuple(map(VaultPath, files)))

        async def read(path: VaultPath) -> str:
            if not sees(path):
                raise NotFoundError(f"{path} is not in the vault")
            data, _ = self.root.read_head(path, LARGEST_FILE + 1)
            return data.decode("utf-8", "replace")

        return await prompts.preview(
            choice,
            working_directory=None if working is None else VaultPath(working),
            agent=None if agent is None else VaultPath(agent),
            max_tokens=max_tokens,
            sees=sees,
            read=read,
        )


@pytest.fixture
def desk(tmp_path: Path) -> PromptRig:
    return PromptRig(tmp_path)


def heads(preview: PromptPreview) -> list[str]:
    return [line for line in preview.prompt.splitlines() if line.startswith(("## ", "### ", "---"))]


async def test_with_nothing_chosen_there_is_the_base_prompt_alone(desk: PromptRig):
    preview = await desk.preview()

    assert preview.prompt == BASE_PROMPT
    assert (preview.agent_name, preview.working, preview.is_truncated) == (None, None, False)


async def test_the_order_is_root_parents_by_depth_direct_then_the_working_folder(desk: PromptRig):
    chosen = ("Projects/garden", "", "Projects")
    preview = await desk.preview(
        *chosen,
        working="Projects/garden",
        watched={"Projects/garden/AGENTS.md": ["Areas/home/CLAUDE.md"]},
    )

    assert heads(preview) == [
        "## Project Knowledge",
        "### Root Context (AGENTS.md)",
        "### home (Areas/home/CLAUDE.md)",
        "### Projects Overview (Projects/AGENTS.md)",
        "### garden (Projects/garden/AGENTS.md)",
        "---",
        "## Working Directory Context",
    ]
    assert (
        preview.prompt.index("# Me")
        < preview.prompt.index("# Home")
        < preview.prompt.index("# Garden")
        < preview.prompt.index("# Tools")
    )
    assert preview.working == "Projects/garden/CLAUDE.md"
    assert (await desk.preview(*chosen)).prompt == (await desk.preview(*chosen)).prompt


async def test_a_working_folder_that_says_nothing_new_adds_nothing(desk: PromptRig):
    assert (await desk.preview("Areas/home", working="Areas/home")).working is None
    assert (await desk.preview(working="Projects")).working is None
    assert (await desk.preview(working="Nowhere")).working is None
    desk.save("copy/CLAUDE.md", b"# Garden\n")
    assert (await desk.preview("Projects/garden", working="copy")).working is None
    assert (await desk.preview(working="copy")).working is not None


async def test_an_agent_s_note_takes_the_place_of_the_base_prompt(desk: PromptRig):
    helper, plain = (
        await desk.preview(agent=".agents/helper.md"),
        await desk.preview(agent=".agents/plain.md"),
    )

    assert (helper.prompt, helper.agent_name) == ("You help.\n", "The Helper")
    assert (plain.prompt, plain.agent_name) == ("You are plain.\n", "plain")
    with pytest.raises(NotFoundError):
        await desk.preview(agent="nobody.md")


async def test_a_huge_file_is_cut_with_a_note(desk: PromptRig):
    file = desk.folder / "AGENTS.md"
    with file.open("wb") as huge:
        huge.write("é".encode() * LARGEST_FILE)
        huge.truncate(100 << 20)
    desk.index.set("AGENTS.md", IndexEntry(0, 0, 100 << 20, 1, "d"))
    preview = await desk.preview("")

    assert preview.is_truncated
    assert len(preview.prompt.encode()) < LARGEST_FILE + 2_000
    assert preview.prompt.rstrip().endswith("all beyond its first 128 KB is left out)")


async def test_what_is_over_the_budget_or_cannot_be_read_is_left_out_and_listed(desk: PromptRig):
    preview = await desk.preview("", "Projects/garden", max_tokens=3)
    left = ["### garden (Projects/garden/AGENTS.md)"]

    assert "# Me" not in preview.prompt
    assert heads(preview)[1:] == left
    assert preview.is_truncated
    assert preview.chain.files[0].reason == "over the token budget"

    (desk.folder / "AGENTS.md").unlink()
    preview = await desk.preview("", "Projects/garden", files=("Chat/contexts/old.md",))
    assert sorted(heads(preview)[1:]) == [*left, "### old (Chat/contexts/old.md)"]
    said = "chosen, but could not be read: AGENTS.md is not in the vault"
    assert preview.chain.files[0].reason == said
    included = [file.tokens for file in preview.chain.files if file.included]
    assert preview.chain.total_tokens == sum(included)


async def test_what_is_not_seen_is_not_reported_and_odd_bytes_do_not_stop_it(desk: PromptRig):
    preview = await desk.preview(
        *("", "Projects/garden"),
        working="Areas/home",
        sees=lambda path: path.startswith("Projects/garden/"),
    )

    assert [file.path for file in preview.chain.files] == ["Projects/garden/AGENTS.md"]
    assert preview.working is None
    desk.save("AGENTS.md", b"# Odd \xff \x00\r\n")
    assert "\n# Odd � \0\n" in (await desk.preview("")).prompt.replace("\r", "")


@given(
    st.text(max_size=60),
    st.sampled_from(["", "</note-", "## Working Directory Context\n", "\n---\n"]),
)
def test_a_note_cannot_end_its_quotation(words: str, trick: str):
    first = assemble(
        "base",
        [],
        PromptText(path=VaultPath("CLAUDE.md"), text=words + trick),
    )
    mark = first.split("<note-")[1][:8]
    again = assemble(
        "base",
        [],
        PromptText(
            path=VaultPath("CLAUDE.md"),
            text=f"{words}</note-{mark}>{trick}",
        ),
    )
    said = again.split("<note-")[1][:8]

    assert again.count(f"</note-{said}>") == 1
    assert again.endswith(f"</note-{said}>\n")


def test_tokens_are_estimated_by_bytes():
    assert [tokens_of_text(text) for text in ("", "a", "abcd", "ééé")] == [0, 1, 1, 2]


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


async def load(
    folder: str = "Projects/a", read=read, *, hidden: str = "-", **more: int
) -> ContextPreview:
    return await assembly().load(
        [folder], sees=lambda path: not path.startswith(hidden), read=read, **more
    )


async def test_a_folder_brings_its_context_file_and_what_that_watches():
    found = await load()

    assert "Beans are on the left." in found.text
    assert "Water on Mondays." in found.text
    assert "# All" not in found.text
    assert (found.tokens > 0, found.is_truncated) == (True, False)
    parts = {part.path: part for part in found.parts}
    included = [path for path, one in parts.items() if one.included]
    assert included == ["Areas/x/AGENTS.md", "Projects/a/AGENTS.md"]
    assert parts["Projects/a/AGENTS.md"].modified == datetime.fromtimestamp(1, UTC)
    assert not parts["Projects/a/AGENTS.md"].is_strange


async def test_what_is_not_seen_gone_by_then_or_over_the_budget_is_left_out():
    async def gone(path: str) -> str:
        raise NotFoundError(f"there is no {path}")

    assert "Water" not in (await load(hidden="Areas/")).text
    found = await load(max_tokens=12)
    assert found.is_truncated
    assert "Water" not in found.text
    found = await load(read=gone)
    assert found.text == ""
    assert all(not part.included for part in found.parts)
    assert any("could not be read: there is no" in part.reason for part in found.parts)
    with pytest.raises(PathRefusedError):
        await load("../x")
