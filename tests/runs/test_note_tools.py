"""Note tools: called as a model calls them, with whatever comes to its mind."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest

from parachuted.agents.calling import call_tool
from parachuted.agents.job import ToolResult
from parachuted.runs.note_tools import NoteTools
from tests.modules.module_rig import ModuleRig


@pytest.fixture
def module_rig(module_rig: ModuleRig) -> ModuleRig:
    module_rig.save("Work/a.md", "# A\n\nbeans\n\n## Log\n\n- sown\n")
    module_rig.save("Private/secret.md", "heliotrope\n")
    module_rig.library.settled()
    return module_rig


class Agent:
    def __init__(self, module_rig: ModuleRig, *, may_write: bool = True) -> None:
        self.vault = module_rig.bounded(read=["Work/**"], write=["Work/**"])
        notes = NoteTools(vault=self.vault, writing=lambda _what, _path: nullcontext("r1"))
        self.tools = notes.tools(may_write=may_write)

    async def call(self, name: str, /, **arguments: object) -> ToolResult:
        return await call_tool(self.tools, name, arguments)

    async def answer(self, name: str, /, **arguments: object) -> dict[str, Any]:
        result = await self.call(name, **arguments)
        assert not result.is_error, result.text
        return json.loads(result.text)


@pytest.fixture
def agent(module_rig):
    return Agent(module_rig)


async def test_an_agent_reads_lists_and_finds_what_it_was_given(module_rig, agent):
    read = await agent.answer("read_note", path="Work/a.md")
    listed = await agent.answer("list_notes")

    assert "beans" in read["text"]
    part = await agent.answer("read_note", path="Work/a.md", section="Log")
    assert part["text"] == "## Log\n\n- sown\n"
    assert [note["path"] for note in listed["notes"]] == ["Work/a.md"]
    for asked in (
        {"folder": "Private"},
        {"tag": "tea"},
        {"where": {"rank": 3}},
        {"order": "-title", "where": {"dry": True}},
    ):
        assert (await agent.answer("list_notes", **asked)) == {"notes": []}
    found = await agent.answer("search_notes", query="beans")
    assert [hit["path"] for hit in found["hits"]] == ["Work/a.md"]
    assert (await agent.answer("search_notes", query="heliotrope")) == {"hits": []}
    reader = Agent(module_rig, may_write=False)
    assert [tool.name for tool in reader.tools] == ["read_note", "list_notes", "search_notes"]


async def test_an_agent_writes_appends_edits_and_moves(module_rig, agent):
    wrote = await agent.answer("write_note", path="Work/new.md", text="# New\n")
    await agent.answer("write_note", path="Work/new.md", text="# Newer\n")
    log = {"path": "Work/a.md", "section": "Log"}
    await agent.answer("edit_section", **log, text="- watered", append=True)
    assert "- sown\n- watered\n" in module_rig.text("Work/a.md")
    await agent.answer("edit_section", **log, text="- all of it again")
    for key, value in (("dry", True), ("wet", "no"), ("wet", None)):
        await agent.answer("set_key", path="Work/a.md", key=key, value=value)
    moved = await agent.answer("move_note", path="Work/new.md", to="Work/old.md")

    assert (wrote["path"], wrote["run"], moved["path"]) == ("Work/new.md", "r1", "Work/old.md")
    assert module_rig.text("Work/old.md") == "# Newer\n"
    assert module_rig.text("Work/a.md") == (
        "---\ndry: true\n---\n# A\n\nbeans\n\n## Log\n\n- all of it again\n"
    )


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (None, {}),
        ("read_note", {"path": "Work/a.md", "section": "Log"}),
        ("edit_section", {"path": "Work/a.md", "section": "Log", "text": "- mine"}),
        ("set_key", {"path": "Work/a.md", "key": "a", "value": "b"}),
    ],
)
async def test_a_note_that_was_not_read_whole_is_not_replaced(module_rig, agent, tool, arguments):
    if tool is not None:
        await agent.answer(tool, **arguments)
    before = module_rig.text("Work/a.md")
    result = await agent.call("write_note", path="Work/a.md", text="# Mine\n")

    assert result.is_error
    assert "you have not read it" in result.text
    assert module_rig.text("Work/a.md") == before
    await agent.answer("read_note", path="Work/a.md")
    await agent.answer("write_note", path="Work/a.md", text="# Mine\n")


async def test_what_a_person_writes_after_the_reading_is_kept_or_reported(module_rig, agent):
    text = (await agent.answer("read_note", path="Work/a.md"))["text"]
    module_rig.save("Work/a.md", text.replace("beans", "peas"))

    result = await agent.call("write_note", path="Work/a.md", text=text.replace("beans", "corn"))
    assert (result.is_error, "read the note again" in result.text) == (True, True)
    await agent.answer("edit_section", path="Work/a.md", section="Log", text="- sown\n- weeded")
    assert "peas" in module_rig.text("Work/a.md")
    assert "- weeded" in module_rig.text("Work/a.md")


async def test_what_was_merged_into_an_edit_is_kept_by_the_next_one(module_rig, agent):
    text = (await agent.answer("read_note", path="Work/a.md"))["text"]
    module_rig.save("Work/a.md", text.replace("beans", "peas"))
    await agent.answer("edit_section", path="Work/a.md", section="Log", text="- weeded")
    merged = module_rig.text("Work/a.md")
    assert ("peas" in merged, "- weeded" in merged) == (True, True)

    again = text.replace("- sown", "- weeded")
    assert (await agent.call("write_note", path="Work/a.md", text=f"{again}- all\n")).is_error
    assert module_rig.text("Work/a.md") == merged
    await agent.answer("read_note", path="Work/a.md")
    await agent.answer("write_note", path="Work/a.md", text="# Mine\n")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("set_key", {"key": "kind", "value": "bed"}),
        ("edit_section", {"section": "Log", "text": "- weeded", "append": True}),
    ],
)
@pytest.mark.parametrize("saves_first", [True, False])
async def test_a_small_change_in_between_hides_no_edit_of_a_person(
    module_rig, agent, tool, arguments, saves_first
):
    async def edit_by_person() -> None:
        module_rig.save("Work/a.md", module_rig.text("Work/a.md").replace("- sown", "- watered"))

    await agent.answer("read_note", path="Work/a.md")
    for act in [edit_by_person, None] if saves_first else [None, edit_by_person]:
        await (act() if act else agent.answer(tool, path="Work/a.md", **arguments))
    result = await agent.call("edit_section", path="Work/a.md", section="Log", text="- mine")
    assert ("- watered" in module_rig.text("Work/a.md"), result.is_error) == (True, True)


HOSTILE = [
    ("read_note", {"path": "Private/secret.md"}),
    ("read_note", {"path": "../../etc/passwd"}),
    ("read_note", {"path": "Work/../Private/secret.md"}),
    ("read_note", {}),
    ("read_note", {"path": ["Work/a.md"]}),
    ("read_note", {"path": "Work/a.md", "as": "root"}),
    ("read_note", {"path": "Work/a.md", "section": "None"}),
    ("list_notes", {"folder": "../"}),
    ("list_notes", {"cursor": "none"}),
    ("search_notes", {"query": '"' * 2_000}),
    ("write_note", {"path": "Private/new.md", "text": "x"}),
    ("write_note", {"path": "Work/.claude/settings.json", "text": "x"}),
    ("write_note", {"path": "Modules/bot/module.py", "text": "x"}),
    ("write_note", {"path": "Work/n.md", "text": "---\nwatch: ['Private/**']\n---\n"}),
    ("write_note", {"path": "Work/n.md", "text": "\x1b[2J"}),
    ("write_note", {"path": "Work/n.md", "text": "\ud800"}),
    ("write_note", {"path": "Work/n.md", "text": "x" * 600_000}),
    ("edit_section", {"path": "Private/secret.md", "section": "Log", "text": "x", "append": True}),
    ("edit_section", {"path": "Work/a.md", "section": "Log", "text": "```\nopen", "append": True}),
    ("edit_section", {"path": "Work/none.md", "section": "Log", "text": "x"}),
    ("edit_section", {"path": "Work/a.md", "section": "Log", "text": "\x1b[2J"}),
    ("set_key", {"path": "Work/a.md", "key": "a", "value": {"deep": []}}),
    ("move_note", {"path": "Work/a.md", "to": "Private/a.md"}),
    ("delete_note", {"path": "Work/a.md"}),
    ("use_skill", {"name": "x"}),
]


@pytest.mark.parametrize(("tool", "arguments"), HOSTILE)
async def test_hostile_calls_are_answered_in_words_and_change_nothing(
    module_rig, agent, tool, arguments
):
    before = {path: path.read_bytes() for path in module_rig.vault.rglob("*") if path.is_file()}
    result = await agent.call(tool, **arguments)

    assert (result.is_error, "heliotrope" in result.text) == (True, False)
    assert result.text
    assert {
        path: path.read_bytes() for path in module_rig.vault.rglob("*") if path.is_file()
    } == before


async def test_very_much_is_cut_and_given_page_by_page(module_rig, agent):
    module_rig.save("Work/big.md", "x" * 400_000)
    for number in range(510):
        module_rig.save(f"Work/many/{number:03}.md", "")
    module_rig.library.settled()

    read = await agent.answer("read_note", path="Work/big.md")
    assert (len(read["text"]), read["truncated"]) == (256 << 10, True)
    assert (await agent.call("write_note", path="Work/big.md", text="")).is_error
    first = await agent.answer("list_notes", folder="Work/many", limit=1_000)
    rest = await agent.answer("list_notes", folder="Work/many", cursor=first["next"])
    assert (len(first["notes"]), len(rest["notes"]), "next" in rest) == (500, 10, False)
