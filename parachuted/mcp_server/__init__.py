"""MCP server: the vault's tools, notes and prompts for any agent that speaks the Model Context
Protocol.
"""

from parachuted.mcp_server.clients import ClientSources, ClientTable
from parachuted.mcp_server.past_tools import PastTools
from parachuted.mcp_server.resources import NoteResources, VaultChanges
from parachuted.mcp_server.routes import McpRoutes
from parachuted.mcp_server.tools import McpTools, ServedModuleTools, note_tools, tools_of

__all__ = [
    "ClientSources",
    "ClientTable",
    "McpRoutes",
    "McpTools",
    "NoteResources",
    "PastTools",
    "ServedModuleTools",
    "VaultChanges",
    "note_tools",
    "tools_of",
]
