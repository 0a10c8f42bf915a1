"""Containers for agents with a shell. The heavy part, engine.py, is loaded at its first use."""

from parachuted.agents.sandbox.options import ContainerProgram
from parachuted.agents.sandbox.sandboxes import Container, Sandboxes

__all__ = ["Container", "ContainerProgram", "Sandboxes"]
