#!/usr/bin/env bash
# Guess: a tool of the MCP Python SDK whose argument may be a text gets the text that its client sent, and refuses a name that it does not know.
# Seen: for `str` alone that holds. For `str | None` the text `null` arrives as None, and the text `["x"]` is refused as no string;
#   for `str | list[str]` it arrives as a list. An argument of another name is dropped without a word.
# Why it matters: a tool that writes a note by an optional `text` refuses, or empties, notes that look like JSON. Declare the argument as
#   `str`, or read arguments yourself.
source "$(dirname "$0")/support/common.sh"
python_packages mcp==2.3.0

cat >"$work/run.py" <<'X'
import asyncio

from mcp import Client
from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")


@server.tool()
def plain(text: str) -> str:
    return repr(text)


@server.tool()
def optional(text: str | None = None) -> str:
    return repr(text)


@server.tool()
def either(text: str | list[str]) -> str:
    return repr(text)


async def main() -> None:
    async with Client(server) as client:
        for tool, arguments in [
            ("plain", {"text": '["x"]'}),
            ("plain", {"text": "null"}),
            ("optional", {"text": "null"}),
            ("optional", {"text": '["x"]'}),
            ("either", {"text": '["x"]'}),
            ("plain", {"text": "a", "txet": "b"}),
        ]:
            answer = await client.call_tool(tool, arguments)
            print(tool, arguments, "->", "refused" if answer.is_error else answer.content[0].text)


asyncio.run(main())
X
"$python" "$work/run.py" 2>/dev/null | tee "$work/out"
cat >"$work/expected" <<'X'
plain {'text': '["x"]'} -> '["x"]'
plain {'text': 'null'} -> 'null'
optional {'text': 'null'} -> None
optional {'text': '["x"]'} -> refused
either {'text': '["x"]'} -> ['x']
plain {'text': 'a', 'txet': 'b'} -> 'a'
X
diff "$work/expected" "$work/out" || changed "see the lines above"
