"""Agent grant: all that one run of an agent may do. It is built by one function, in grants/granting.py, however the run was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from parachuted.grants.agent_config import SandboxConfig
from parachuted.keys import Grant

Entry: TypeAlias = Literal["bubble", "chat", "schedule", "bot", "module", "maintenance", "cli", "http"]
"""By which way a run was asked for. It decides who is told and asked, and never what the agent may do."""

Network: TypeAlias = Literal["none", "bridge"] | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGrant:
    """What an agent may do in one run.

    `reads` and `writes` are files of the vault; `lane` those that it may write even after it has read strangers' text; `outside` folders
    beside the vault, of which it reads a copy. `tools` are names of our own tools (None: all that it is offered), `interfaces` those of
    modules. `native` are the CLI's own tools (Read, Glob, Grep, Write, Edit, Bash, WebFetch), which run in a container alone. `bash`: no
    shell, any command, or these programs. `asks`: whether a person may be asked for more while it works.
    """

    agent: str
    reads: Grant
    writes: Grant
    lane: Grant
    outside: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None
    interfaces: tuple[str, ...] = ()
    native: tuple[str, ...] = ()
    bash: bool | tuple[str, ...] = False
    network: Network = "none"
    sandbox: SandboxConfig = SandboxConfig()
    asks: bool = False

    @property
    def needs_container(self) -> bool:
        """Whether it can only run in a container: our own tools need none."""
        return bool(self.native)
