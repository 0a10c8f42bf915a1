"""MCP server: the vault's tools, notes and prompts for any agent that speaks the Model Context
Protocol.
"""

from parachuted.mcp_server.clients import ClientSources, ClientTable
from parachuted.mcp_server.note_tools import PastTools, ServedNoteTools
from parachuted.mcp_server.resources import NoteResources, VaultChanges
from parachuted.mcp_server.routes import McpRoutes
from parachuted.mcp_server.tools import McpTools, ServedModuleTools, tools_of

__all__ = [
    "ClientSources",
    "ClientTable",
    "McpRoutes",
    "McpTools",
    "NoteResources",
    "PastTools",
    "ServedModuleTools",
    "ServedNoteTools",
    "VaultChanges",
    "tools_of",
]
