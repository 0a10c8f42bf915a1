"""A small MCP server on the `mcp` package: what tests have agents call. Run as a program."""

from __future__ import annotations

import socket
from pathlib import Path

from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(one: int, other: int) -> str:
    """Add two numbers."""
    return f"The sum is {one + other}."


@server.tool()
def reach(path: str) -> str:
    """Say what of this machine can be reached."""
    found = []
    try:
        Path(path).read_text()
        found.append("file")
    except OSError:
        pass
    try:
        socket.create_connection(("198.51.100.1", 9), timeout=1)  # reserved for documentation
        found.append("network")
    except TimeoutError:
        found.append("network")
    except OSError:
        pass  # there is no way to it
    return f"reached: {', '.join(found) or 'nothing'}"


if __name__ == "__main__":
    server.run()
