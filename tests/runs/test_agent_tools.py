"""Agent tools: called as a model calls them, with whatever comes to its mind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parachuted.agents import ToolResult, call_tool
from parachuted.errors import ModuleFailedError
from parachuted.modules import Response
from parachuted.modules.registry.declaration import ToolSpec
from parachuted.runs.agent_tools import NoteTools, module_tools
from tests.modules.module_rig import ModuleRig


@pytest.fixture
def module_rig(tmp_path) -> Iterator[ModuleRig]:
    module_rig = ModuleRig(tmp_path)
    module_rig.save("Work/a.md", "# A\n\nbeans\n\n## Log\n\n- sown\n")
    module_rig.save("Private/secret.md", "heliotrope\n")
    yield module_rig
    module_rig.close()


class Agent:
    """A model's hands."""

    def __init__(self, module_rig: ModuleRig, *, may_write: bool = True) -> None:
        self.vault = module_rig.bounded(read=["Work/**"], write=["Work/**"])
        self.tools = NoteTools(vault=self.vault, may_write=may_write).tools()

    async def call(self, name: str, /, **arguments: object) -> ToolResult:
        return await call_tool(self.tools, name, arguments)

    async def says(self, name: str, /, **arguments: object) -> str:
        result = await self.call(name, **arguments)
        assert not result.is_error, result.text
        return result.text


@pytest.fixture
def agent(module_rig):
    return Agent(module_rig)


async def test_an_agent_reads_lists_and_finds_what_it_was_given(module_rig, agent):
    module_rig.library.settled()

    assert "beans" in await agent.says("read_note", path="Work/a.md")
    assert await agent.says("list_notes") == "Work/a.md"
    assert await agent.says("list_notes", pattern="Private/**") == "No note that you see matches."
    assert "Work/a.md" in await agent.says("search_notes", query="beans")
    assert await agent.says("search_notes", query="heliotrope") == "Nothing was found."


async def test_an_agent_that_may_not_write_has_no_tool_for_it(module_rig):
    assert [tool.name for tool in Agent(module_rig, may_write=False).tools] == [
        "list_notes",
        "read_note",
        "search_notes",
    ]


async def test_an_agent_writes_appends_and_edits(module_rig, agent):
    await agent.says("write_note", path="Work/new.md", text="# New\n")
    await agent.says("write_note", path="Work/new.md", text="# Newer\n")
    await agent.says("append_note", path="Work/a.md", section="Log", text="- watered")
    await agent.says("edit_section", path="Work/a.md", section="Log", text="- all of it anew")

    assert module_rig.text("Work/new.md") == "# Newer\n"
    assert "- all of it anew" in module_rig.text("Work/a.md")
    assert "sown" not in module_rig.text("Work/a.md")


async def test_a_note_that_was_not_read_is_not_replaced(module_rig, agent):
    before = module_rig.text("Work/a.md")
    refused = await agent.call("write_note", path="Work/a.md", text="# Mine\n")

    assert (
        refused.is_error,
        "you have not read it" in refused.text,
        module_rig.text("Work/a.md"),
    ) == (
        True,
        True,
        before,
    )
    await agent.says("read_note", path="Work/a.md")
    await agent.says("write_note", path="Work/a.md", text="# Mine\n")


async def test_what_a_person_writes_after_the_reading_is_kept_or_reported(module_rig, agent):
    text = await agent.says("read_note", path="Work/a.md")
    module_rig.save("Work/a.md", text.replace("beans", "peas"))

    refused = await agent.call("write_note", path="Work/a.md", text=text.replace("beans", "corn"))
    assert (refused.is_error, "read it again" in refused.text) == (True, True)
    await agent.says("edit_section", path="Work/a.md", section="Log", text="- sown\n- weeded")
    assert "peas" in module_rig.text("Work/a.md")
    assert "- weeded" in module_rig.text("Work/a.md")


HOSTILE = [
    ("read_note", {"path": "Private/secret.md"}),
    ("read_note", {"path": "../../etc/passwd"}),
    ("read_note", {"path": "Work/../Private/secret.md"}),
    ("read_note", {}),
    ("read_note", {"path": ["Work/a.md"]}),
    ("read_note", {"path": "Work/a.md", "as": "root"}),
    ("list_notes", {"pattern": "../**"}),
    ("search_notes", {"query": '"' * 2_000}),
    ("write_note", {"path": "Private/new.md", "text": "x"}),
    ("write_note", {"path": "Work/.claude/settings.json", "text": "x"}),
    ("write_note", {"path": "Modules/bot/module.py", "text": "x"}),
    ("write_note", {"path": "Work/n.md", "text": "---\nwatch: ['Private/**']\n---\n"}),
    ("write_note", {"path": "Work/n.md", "text": "\x1b[2J"}),
    ("write_note", {"path": "Work/n.md", "text": "\ud800"}),
    ("write_note", {"path": "Work/n.md", "text": "x" * 300_000}),
    ("append_note", {"path": "Private/secret.md", "section": "Log", "text": "x"}),
    ("append_note", {"path": "Work/a.md", "section": "Log", "text": "```\nopen"}),
    ("edit_section", {"path": "Work/none.md", "section": "Log", "text": "x"}),
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


async def test_very_much_is_cut_and_said_to_be(module_rig, agent):
    module_rig.save("Work/big.md", "x" * 400_000)
    for number in range(510):
        module_rig.library.write(f"Work/many/{number:03}.md", "")

    assert (await agent.says("read_note", path="Work/big.md")).endswith(
        "(cut: there are 400000 characters)"
    )
    assert (await agent.says("list_notes")).endswith("(and 12 more; narrow it down with a pattern)")


def spec(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=f"{name}s", handler="handle", schema={"type": "object"})


OFFERED = [
    ("brain", spec("brain_search")),
    ("daily", spec("daily-journal")),
    ("other", spec("daily-journal")),
    ("other", spec("read_note")),
]


async def test_tools_of_modules_are_those_that_the_permissions_name(module_rig):
    calls = []

    async def call(module, tool, arguments):
        calls.append((module, tool, arguments))
        return {"found": ["Kevin"]}

    allowed = ["brain_search", "daily-journal", "read_note", "none"]
    tools = module_tools(OFFERED, allowed, "bot", ["read_note"], call)
    assert [tool.name for tool in tools] == [
        "brain_search"
    ]  # one name of two modules means neither, and none takes one of ours
    assert [tool.name for tool in module_tools(OFFERED, allowed, "daily", ["read_note"], call)] == [
        "brain_search",
        "daily-journal",
    ]
    assert module_tools(OFFERED, [], "bot", [], call) == ()

    assert '"Kevin"' in (await call_tool(tools, "brain_search", {"query": "K"})).text
    assert calls == [("brain", "brain_search", {"query": "K"})]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("text", ToolResult(text="text")),
        (
            Response(status=404, body="no such entity"),
            ToolResult(text="no such entity", is_error=True),
        ),
        (Response(status=201, body="made"), ToolResult(text="made")),
        (ModuleFailedError("it failed"), ToolResult(text="it failed", is_error=True)),
    ],
)
async def test_what_a_modules_tool_answers_reaches_the_agent_as_text(answer, expected):
    async def call(_module, _tool, _arguments):
        if isinstance(answer, Exception):
            raise answer
        return answer

    (tool,) = module_tools([("brain", spec("brain_search"))], ["brain_search"], "bot", [], call)
    assert await call_tool([tool], "brain_search", {}) == expected
