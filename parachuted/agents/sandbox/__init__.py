"""Containers for agents with a shell. The heavy part, engine.py, is loaded at its first use."""

from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import (
    CLI_IN_BOX,
    GATEWAY_SOCKET,
    HOME_IN_BOX,
    OUTSIDE_IN_BOX,
    PROXY_SOCKET,
    SOCKETS_IN_BOX,
    VAULT_IN_BOX,
    ContainerOwner,
    ContainerProgram,
    Image,
    SandboxSlot,
    SandboxSpec,
    container_options,
)
from parachuted.agents.sandbox.sandboxes import Sandboxes, SandboxStatus

__all__ = [
    "CLI_IN_BOX",
    "GATEWAY_SOCKET",
    "HOME_IN_BOX",
    "OUTSIDE_IN_BOX",
    "PROXY_SOCKET",
    "SOCKETS_IN_BOX",
    "VAULT_IN_BOX",
    "Container",
    "ContainerOwner",
    "ContainerProgram",
    "Image",
    "SandboxSlot",
    "SandboxSpec",
    "SandboxStatus",
    "Sandboxes",
    "container_options",
]
