"""Agent parts: what runs of agents are made with, and what gives one its container."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority
from parachuted.access.grant import Grant
from parachuted.access.origin import Taint
from parachuted.access.origins import Origins
from parachuted.access.session_taint import SessionTaints
from parachuted.agents import Backend, NativeTools, RunLimits
from parachuted.agents.active_runs import ActiveRuns
from parachuted.agents.permission import PermissionRequests
from parachuted.audit.events import AuditRecorder, NullAuditRecorder
from parachuted.events import Bus
from parachuted.runs.agent_hooks import AgentHooks, HookAsker, NoHooks
from parachuted.runs.agent_tools import DeclaredTool
from parachuted.runs.run_audit import RunAudit
from parachuted.runs.run_guard import PutForward
from parachuted.suggestions.tool import ProposalSink
from parachuted.tasks import Budget, Causes
from parachuted.vault import Author, History, ObjectStore, WriteResult


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxedRun:
    """What a run's container is made from.

    `wrote` hears of each write that was checked in; `put_forward` takes what it may not write;
    `ask_host` and `ask_command` ask a person whether it may reach a host, or run a command, that it
    was not granted.
    """

    run: str
    agent: str
    grant: Grant
    author: Author
    taint: Taint
    audit: RunAudit
    hooks: AgentHooks
    wrote: Callable[[WriteResult], None]
    put_forward: PutForward | None
    ask_host: Callable[[str], Awaitable[bool]] | None = None
    ask_command: Callable[[str], Awaitable[bool]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedSandbox:
    """A run's container. `told` is what the agent is to know of what is in it."""

    native: NativeTools
    told: str


class SandboxProvider(Protocol):
    """Gives runs their containers."""

    async def problem(self) -> str | None:
        """Why no container can be had here, and what to install or do; None: one can."""
        ...

    def open(self, boxed: SandboxedRun) -> AbstractAsyncContextManager[OpenedSandbox]:
        """The run's private copy of what it was granted, and the CLI's own tools over it.

        What it made is checked in when this is left without an error, and dropped with one. Raises
        AgentUnavailableError.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTrust:
    """What an agent's run must know of a module whose tool it calls: whether a person trusts it,
    and the interfaces that it provides.
    """

    is_trusted: bool = True
    provides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What agents work with.

    `tools` are those of all modules, by module, `call_tool` calls one, and `standing` says how a
    module stands; `declared` answers the agents that a module's class declares beside its manifest,
    `said` what a person has a module's agents told besides their own instructions (it may read the
    disk); `is_paused` whether a person has stopped new runs; `room` is how many may be at work at
    once. `boxes` gives a run its container, None: there are none; `origins` says whose texts are a
    stranger's, `taints` which sessions have read one, `suggestions` takes what may not be written
    at once, and `permissions` asks a person.
    """

    backend: Backend
    model: str | None
    limits: RunLimits
    budget: Budget
    history: History
    objects: ObjectStore
    causes: Causes
    bus: Bus
    clock: Callable[[], datetime]
    user_home: Path
    audit: AuditRecorder = field(default_factory=NullAuditRecorder)
    asker: HookAsker = field(default_factory=NoHooks)
    is_paused: Callable[[], bool] = lambda: False
    tools: Callable[[], Iterable[tuple[str, DeclaredTool]]] = tuple
    call_tool: Callable[[str, str, Mapping[str, object], Authority], Awaitable[object]] | None = (
        None
    )
    standing: Callable[[str], ModuleTrust] = lambda _module: ModuleTrust()
    declared: Callable[[str], Mapping[str, AgentConfig]] = lambda _module: {}
    said: Callable[[str], str | None] = lambda _module: None
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    at_work: ActiveRuns = field(default_factory=ActiveRuns)
    taints: SessionTaints | None = None
    boxes: SandboxProvider | None = None
    origins: Origins | None = None
    suggestions: ProposalSink | None = None
    permissions: PermissionRequests | None = None
