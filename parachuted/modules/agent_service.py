"""Agents by name: lists them with their grants, and runs one for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from parachuted.access.agent_config import AgentConfig
from parachuted.access.authority import Authority
from parachuted.access.grant import CURATOR, Entry, Exposure, Grant, exactly, exposure
from parachuted.access.origin import UNTRUSTED, Taint
from parachuted.access.origins import Origins
from parachuted.bubbling import WatchRegistry
from parachuted.errors import ActRefusedError, NotFoundError, ParachuteError
from parachuted.keys import NOWHERE
from parachuted.modules.hosting.module_agents import ModuleAgents, scope_of
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.runs.agent_runner import NAME as MAINTENANCE
from parachuted.runs.agent_runner import AgentRunner
from parachuted.runs.run_options import read_options
from parachuted.runs.run_request import AgentDefinition, RunBudget, RunReport, RunRequest
from parachuted.vault import VaultIndex, printable


class AgentService:
    """All agents that can be asked for.

    `approved` finds a module that may run, `agents_of` makes the agents of one, `core` are the
    daemon's own agents by name.
    """

    def __init__(
        self,
        runner: AgentRunner,
        approved: Callable[[str], ApprovedModule | None],
        agents_of: Callable[[ApprovedModule], ModuleAgents],
        core: Mapping[str, AgentDefinition],
    ) -> None:
        self.runs, self._approved, self._agents_of, self._core = runner, approved, agents_of, core

    async def run(
        self,
        name: str,
        prompt: str,
        options: Mapping[str, object],
        *,
        authority: Authority,
        entry: Entry,
        session: str | None = None,
    ) -> RunReport:
        """Let the agent answer: `module/agent`, or one of the daemon's own.

        Raises NotFoundError where there is none of that name, and what `AgentRunner.run` raises.
        """
        request = await self.request(name, prompt, options, authority=authority, entry=entry)
        return await self.runs.run(replace(request, session=session))

    async def request(
        self,
        name: str,
        prompt: str,
        options: Mapping[str, object],
        *,
        authority: Authority,
        entry: Entry,
    ) -> RunRequest:
        """What that run would be. Raises NotFoundError and ActRefusedError."""
        module, _, agent = name.partition("/")
        if name in self._core:
            found = read_options(options)
            return RunRequest(
                definition=self._core[name],
                prompt=prompt,
                entry=entry,
                budget=RunBudget(limits=found.limits(self.runs.admission.limits)),
                scope=scope_of(found),
                origin=authority.words("agent", found.origin),
                authority=authority,
            )
        approved = self._approved(module) if agent else None
        if approved is None:
            raise NotFoundError(
                f"there is no agent {name[:80]!r}; `parachute agents list` shows them"
            )
        return await self._agents_of(approved).request(
            agent, prompt, options, authority=authority, entry=entry
        )


_READING, _WRITING = (
    ("read_note", "list_notes", "search_notes"),
    ("write_note", "edit_section", "set_key", "move_note"),
)
_OF_CURATOR = ("list_context_files", "read_context", "update_context", "no_change")
_CURATOR_IS = (
    "Keeps a note current with what it watches: it reads what changed, and writes that note alone."
)
_MOST_SHOWN = 20


class ApprovedModules(Protocol):
    """Which modules may run, and the agents that they declare."""

    def approved(self, name: str) -> ApprovedModule | None:
        """The module of that name as it was approved, while it may run."""
        ...

    def agents_of(self, name: str) -> Mapping[str, AgentConfig]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """One agent.

    `problem` says why it would not run here or, where it `runs_here` all the same, what it has to
    do without; `request` is what it would be asked with, None for curators.
    """

    name: str
    description: str
    module: str | None
    grant: Grant
    tools: tuple[str, ...]
    calls: tuple[str, ...] = ()
    config: AgentConfig | None = None
    request: RunRequest | None = None
    problem: str | None = None
    runs_here: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachableFiles:
    """The files of the vault that an agent reaches: the numbers, and the first of each.

    `strangers` are left out of a container's copy, and mark a run that reads them.
    """

    reads: int
    writes: int
    strangers: int
    left_out: int
    first: tuple[str, ...]
    first_writes: tuple[str, ...]


class AgentListing:
    """All agents. `names` are those of all modules."""

    def __init__(
        self,
        agents: AgentService,
        modules: ApprovedModules,
        names: Callable[[], Iterable[str]],
        watches: WatchRegistry,
        index: VaultIndex,
        origins: Origins,
    ) -> None:
        self._agents, self._modules, self._names = agents, modules, names
        self._watches, self._index, self._origins = watches, index, origins

    def all_names(self) -> list[str]:
        found = [CURATOR, MAINTENANCE]
        for module in sorted(self._names()):
            approved = self._modules.approved(module)
            if approved is not None:
                found += [
                    f"{module}/{agent}"
                    for agent in {**self._modules.agents_of(module), **approved.manifest.agents}
                ]
        return found

    async def get(self, name: str, *, folder: str | None = None) -> AgentStatus:
        """The agent of that name, working in that folder. Raises NotFoundError."""
        if name == CURATOR:
            return self._curator()
        options = {} if folder is None else {"working_directory": folder}
        request = await self._agents.request(name, "", options, authority=Authority(), entry="cli")
        definition, runs = request.definition, self._agents.runs
        grant, here = runs.grant(request), await runs.here(request)
        tools = (
            *(_READING if request.may_read else ()),
            *(_WRITING if grant.writes.alternatives != () else ()),
            *(("suggest_change",) if request.may_read else ()),
            *(tool.name for tool in (definition.tools(Taint()) if definition.tools else ())),
        )
        return AgentStatus(
            name=definition.name,
            description=definition.config.description or definition.who,
            module=definition.module,
            grant=grant,
            tools=(*tools, *grant.native),
            calls=grant.tools,
            config=definition.config,
            request=request,
            problem=here.obstacle or here.missing,
            runs_here=here.obstacle is None,
        )

    async def all(self) -> list[AgentStatus]:
        """All of them; one whose settings are wrong is listed as one that runs nowhere."""
        found = []
        for name in self.all_names():
            try:
                found.append(await self.get(name))
            except NotFoundError:  # its module was switched off meanwhile
                continue
            except (ActRefusedError, ParachuteError) as error:
                grant = Grant(agent=name, reads=NOWHERE, writes=NOWHERE, lane=NOWHERE)
                module = name.partition("/")[0]
                found.append(
                    AgentStatus(
                        name=name,
                        description="",
                        module=module,
                        grant=grant,
                        tools=(),
                        problem=error.message,
                        runs_here=False,
                    )
                )
        return found

    def seen(self, grant: Grant) -> ReachableFiles:
        """What of the vault is reached. Blocks for a large vault."""
        first: list[str] = []
        first_writes: list[str] = []
        reads = writes = strangers = total = 0
        for path in list(self._index.paths()):
            total += 1
            if grant.may_write(path):
                writes += 1
                first_writes += [printable(path)] if writes <= _MOST_SHOWN else []
            if not grant.may_read(path):
                continue
            reads += 1
            first += [printable(path)] if reads <= _MOST_SHOWN else []
            entry = self._index.get(path)
            strangers += (
                self._origins.of(path, entry.digest if entry is not None else None) in UNTRUSTED
            )
        return ReachableFiles(
            reads=reads,
            writes=writes,
            strangers=strangers,
            left_out=total - reads,
            first=tuple(first),
            first_writes=tuple(first_writes),
        )

    def exposure(self, known: AgentStatus, seen: ReachableFiles) -> Exposure:
        """Whether it has private data, strangers' text and a way out."""
        return exposure(
            known.grant,
            private_files=seen.reads - seen.strangers,
            untrusted_files=seen.strangers,
            calls=known.calls,
        )

    def _curator(self) -> AgentStatus:
        """All that curators reach together; each run reaches one note and what that watches."""
        watchers = [declaration.watcher for declaration in self._watches.all()]
        own = exactly(watchers)
        reads = exactly(
            dict.fromkeys(
                [
                    *watchers,
                    *(str(path) for one in watchers for path in self._watches.watched_by(one)),
                ]
            )
        )
        grant = Grant(agent=CURATOR, reads=reads, writes=own, lane=own)
        return AgentStatus(
            name=CURATOR, description=_CURATOR_IS, module=None, grant=grant, tools=_OF_CURATOR
        )
