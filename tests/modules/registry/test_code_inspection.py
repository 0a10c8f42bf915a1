"""In code: what a module's files declare is found without running them, and what only running code
says does not get in.
"""

from __future__ import annotations

import pytest

from parachuted.modules.registry.code_inspection import found_in

CODE = b'''
from parachuted.modules import Module, route, mcp_tool as tool, event, schedule
import parachuted.modules as public

NAME = "computed"

class Bot(Module):
    agents = {"helper": {"paths": ["Work/"]}, NAME: {}}
    provides: list[str] = ["BotInterface"]

    @tool("bot-ask", description="Asks.")
    def ask(self): ...

    @public.mcp_tool("bot-tell")
    async def tell(self):
        """Tells.

        More."""

    @event("daily.entry.created", is_async=False)
    @event(name="note.saved")
    async def on(self): ...

    @schedule(every="15m")
    @schedule(at="03:00")
    async def tidy(self): ...

    @tool(NAME)
    def odd(self): ...

    @other("ignored")
    @route("GET", "/")
    def page(self): ...

raise SystemExit("nobody runs this")
'''


def test_what_stands_there_as_a_literal_is_found():
    found = found_in({"module.py": CODE, "broken.py": b"def (", "odd.py": b"\0"})

    assert found.tools == {"bot-ask": "Asks.", "bot-tell": "Tells.\n\nMore."}
    assert found.events == {"daily.entry.created", "note.saved"}
    assert found.schedules == {"every 900 s", "each day at 03:00"}
    assert (found.agents, found.provides) == ({"helper"}, {"BotInterface"})


@pytest.mark.parametrize(
    "source",
    [
        b"(" * 100_000,
        b"-" * 200_000 + b"1",
        b"a" + b".b" * 100_000,
        b"(lambda:" * 3_000 + b"1" + b")" * 3_000,
        b"1+" * 200_000 + b"1",
    ],
    ids=["brackets", "signs", "names", "functions", "sums"],
)
def test_a_file_that_is_too_deep_holds_nothing(source):
    assert found_in({"module.py": source}).tools == {}


def test_a_file_that_is_too_large_is_not_looked_through():
    assert found_in({"module.py": CODE.split(b"raise")[0] + b"#" * 2_000_000}).tools == {}


def test_what_stands_in_any_block_is_found():
    tools = [f"@mcp_tool('t{n}')\ndef f(): ..." for n in range(9)]
    indented = [one.replace("\n", "\n    ") for one in tools]
    source = (
        f"if ready:\n    {indented[0]}\nelse:\n    {indented[1]}\n"
        f"try:\n    {indented[2]}\nexcept OSError:\n    {indented[3]}\n"
        f"finally:\n    {indented[4]}\n"
        f"match ready:\n  case 1:\n    {indented[5]}\n"
        f"async def outer():\n    {indented[6]}\n"
        f"for _ in ():\n    {indented[7]}\n"
        f"with ready:\n    {indented[8]}\n"
    )

    assert found_in({"module.py": source.encode()}).tools.keys() == {f"t{n}" for n in range(9)}


def test_of_tools_of_one_name_in_two_files_the_first_is_described():
    tool = "@mcp_tool('ask', description='{}')\ndef f(): ..."
    sources = {"b.py": tool.format("Second.").encode(), "a.py": tool.format("First.").encode()}

    assert found_in(sources).tools == {"ask": "First."}
