"""Other people's MCP servers: which there are, which a person approved, and calling their tools."""

from parachuted.mcp_client.approved import McpServers
from parachuted.mcp_client.definition import SERVER_NAME, ServerDefinition
from parachuted.mcp_client.registry import KnownServer, ServerRegistry

__all__ = ["SERVER_NAME", "KnownServer", "McpServers", "ServerDefinition", "ServerRegistry"]
