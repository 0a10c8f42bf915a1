"""MCP: the vault's tools and notes for any agent that speaks it, and others' servers for ours."""

from parachuted.mcp.clients import ClientSources, ClientTable
from parachuted.mcp.routes import McpRoutes, McpServerRoutes
from parachuted.mcp.tools import McpTools
from parachuted.mcp.vault_tools import VaultTools

__all__ = [
    "ClientSources",
    "ClientTable",
    "McpRoutes",
    "McpServerRoutes",
    "McpTools",
    "VaultTools",
]
