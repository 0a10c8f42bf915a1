"""Containers for agents with a shell. The heavy part, engine.py, is loaded at its first use."""

from parachuted.agents.sandbox.container import Container
from parachuted.agents.sandbox.options import ContainerProgram
from parachuted.agents.sandbox.sandboxes import Sandboxes

__all__ = ["Container", "ContainerProgram", "Sandboxes"]
