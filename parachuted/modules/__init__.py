"""The module API: every name that a module's author needs.

The daemon's parts are imported from their own files.
"""

from parachuted.access.agent_config import AgentConfig, SandboxConfig
from parachuted.access.hit import Hit
from parachuted.modules.declare import event, interface, mcp_tool, route, schedule
from parachuted.modules.module import Module
from parachuted.modules.results import Response
from parachuted.modules.services import Services, StateAccess, VaultAccess

__all__ = [
    "AgentConfig",
    "Hit",
    "Module",
    "Response",
    "SandboxConfig",
    "Services",
    "StateAccess",
    "VaultAccess",
    "event",
    "interface",
    "mcp_tool",
    "route",
    "schedule",
]
