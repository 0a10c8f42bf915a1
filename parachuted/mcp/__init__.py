"""MCP: the vault's tools, notes and prompts for any agent that speaks the Model Context Protocol,
and other people's servers for ours.
"""

from parachuted.mcp.clients import ClientSources, ClientTable
from parachuted.mcp.past_tools import PastTools
from parachuted.mcp.registry import ServerRegistry
from parachuted.mcp.resources import NoteResources, VaultChanges
from parachuted.mcp.routes import McpRoutes
from parachuted.mcp.server_routes import McpServerRoutes
from parachuted.mcp.servers import McpServers
from parachuted.mcp.tools import McpTools, ServedModuleTools, note_tools, tools_of

__all__ = [
    "ClientSources",
    "ClientTable",
    "McpRoutes",
    "McpServerRoutes",
    "McpServers",
    "McpTools",
    "NoteResources",
    "PastTools",
    "ServedModuleTools",
    "ServerRegistry",
    "VaultChanges",
    "note_tools",
    "tools_of",
]
