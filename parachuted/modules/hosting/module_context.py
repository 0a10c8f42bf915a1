"""The services of one module, with its rights, wherever its code runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from parachuted.access.authority import Authority, acting, current
from parachuted.access.notes import Activity, ContextPreview
from parachuted.access.origin import UNTRUSTED, Origin
from parachuted.access.origins import Origins
from parachuted.access.own_folders import OwnFolders
from parachuted.audit.activity import ActivityLog
from parachuted.context import DEFAULT_TOKENS, ContextAssembly
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.hosting.interfaces import CallingModule as InterfaceCaller
from parachuted.modules.hosting.module_agents import ModuleAgents
from parachuted.modules.hosting.module_runs import ModuleRuns
from parachuted.modules.hosting.module_state import ModuleState, make_data_folder
from parachuted.modules.hosting.outside_folders import OutsideFolders
from parachuted.modules.hosting.schedules import ModuleScheduler, ModuleSchedules
from parachuted.modules.registry.approved import ApprovedModule, reads_any_note
from parachuted.modules.services import CurrentCall
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVault, GrantedVaults
from parachuted.suggestions import Proposal, Suggestions
from parachuted.suggestions.suggestion import ACTIONS
from parachuted.times import time_of
from parachuted.vault import Caller, VaultPath, WriteResult, printable


class ModuleActivity:
    """The `ActivityAccess` of one module in the daemon."""

    def __init__(
        self,
        approved: ApprovedModule,
        log: ActivityLog,
        clock: Callable[[], datetime],
        authority: Callable[[], Authority],
    ) -> None:
        self._name, self._log, self._clock, self._authority = approved.name, log, clock, authority
        self._is_strange = approved.trust == "untrusted"
        self._reads_all = reads_any_note(approved.manifest, approved.trust)

    async def log(
        self,
        summary: str,
        *,
        session_id: str | None = None,
        session_title: str | None = None,
        agent_type: str | None = None,
        exchange_number: int = 0,
    ) -> None:
        authority, now = self._acting(), self._clock()
        origin = authority.taint.origin if authority.taint else None
        activity = Activity(
            ts=time_of(now),
            summary=summary,
            session_id=session_id,
            session_title=session_title,
            agent_type=agent_type,
            exchange_number=exchange_number,
            origin=origin or ("imported" if self._is_strange else None),
        )
        await asyncio.to_thread(self._log.append, activity, now)

    async def read(self, day: str) -> list[Activity]:
        """What was logged that day; it marks the work where a stranger's text is in it."""
        authority = self._acting()
        if not self._reads_all or authority.is_limited:
            raise ActRefusedError(
                f"the module {self._name} may not read the activity log here: it quotes any "
                "note, so it is for trusted modules, those that may read the whole vault, and "
                "keys that are not limited to some paths"
            )
        found = await asyncio.to_thread(self._log.read, day)
        for one in found:
            for origin in UNTRUSTED:
                if origin == one.origin:
                    authority.taint.read_words(f"the activity of {day}", origin)
        return found

    def _acting(self) -> Authority:
        authority = self._authority()
        authority.check()
        return authority


class ModuleContexts:
    """`ContextAccess` in the daemon."""

    def __init__(
        self,
        assembly: ContextAssembly,
        vault: GrantedVault,
        bounds: ModuleBounds,
        authority: Callable[[], Authority],
    ) -> None:
        self._assembly, self._vault = assembly, vault
        self._bounds, self._authority = bounds, authority

    async def preview(
        self, folders: Sequence[str], *, max_tokens: int = DEFAULT_TOKENS
    ) -> ContextPreview:
        authority = self._authority()
        authority.check()
        bounds = self._bounds.limited(authority.reads, authority.writes)
        return await self._assembly.load(
            folders, sees=bounds.may_read, read=self._vault.read, max_tokens=max_tokens
        )


_LOGGED_AS = "parachuted.modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleContextSources:
    """What the services of all modules are built from.

    `data` and `state` are the folders in which each module has its data folder and its state; of
    the person's folders outside the vault, from `user_home`, none in `kept_out` is read, and what
    lies in `own_folders` is the person's;
    `has_model` says whether there is a model. `agents_of` makes a module's agents; `suggestions`
    takes what it proposes, and `origins` says whose texts are a stranger's. `publish` publishes a
    module's event and refuses other modules' names. `writing` is entered for each write, with the
    authority, and gives what is called with its result. `interface` finds an interface for a
    caller; `scheduler` runs what modules do by the clock.
    """

    vaults: GrantedVaults
    data: Path
    user_home: Path
    kept_out: tuple[Path, ...]
    own_folders: OwnFolders | None
    has_model: bool
    agents_of: Callable[[ApprovedModule], ModuleAgents]
    suggestions: Suggestions | None
    origins: Origins | None
    state: Path
    publish: Callable[[str, str, Mapping[str, object], Authority], None]
    writing: Callable[[VaultPath, Authority], AbstractContextManager[Callable[[WriteResult], None]]]
    interface: Callable[[str, InterfaceCaller], object | None]
    scheduler: ModuleScheduler
    activity: ActivityLog
    contexts: ContextAssembly
    clock: Callable[[], datetime]


class ModuleContext:
    """The `Services` of one module."""

    def __init__(
        self,
        approved: ApprovedModule,
        sources: ModuleContextSources,
        authority: Callable[[], Authority] = current,
    ) -> None:
        """`approved` says who it is and what it may; nothing of the module's folder or class is
        asked. `authority` finds on whose behalf its code works now.
        """
        name = approved.name
        self.name = name
        self.config: Mapping[str, object] = MappingProxyType(dict(approved.config))
        self.log = logging.getLogger(f"{_LOGGED_AS}.{name}")
        permissions = approved.manifest.permissions
        bounds = ModuleBounds.of_module(name, read=permissions.read, write=permissions.write)
        self._is_strange = approved.trust == "untrusted"
        own: Origin = "imported" if self._is_strange else "agent"
        self.vault = sources.vaults.of_module(
            name,
            bounds,
            authority=authority,
            writing=lambda path: sources.writing(path, authority()),
            origins=sources.origins,
            own=own,
        )
        self.folders = OutsideFolders(
            name,
            permissions.folders,
            sources.user_home,
            sources.kept_out,
            authority,
            sources.own_folders,
        )
        self.has_model = sources.has_model
        self.activity = ModuleActivity(approved, sources.activity, sources.clock, authority)
        self.schedules = ModuleSchedules(name, sources.scheduler, authority)
        self.state = ModuleState(sources.state / name, authority)
        self._agents = sources.agents_of(approved)
        self.runs: RunAccess = ModuleRuns(name, self._agents, authority)
        self.contexts = ModuleContexts(sources.contexts, self.vault, bounds, authority)
        self._sources, self._bounds, self._requires = (
            sources,
            bounds,
            approved.manifest.optional_requires,
        )
        self._authority = authority
        self._speaks_for_people = permissions.people and not self._is_strange

    @property
    def data_folder(self) -> Path:
        """Its data folder, made if need be. Raises StorageFailedError."""
        return make_data_folder(self._sources.data, self.name)

    @property
    def current_call(self) -> CurrentCall:
        return current_call(self._acting(), "imported" if self._is_strange else "agent")

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]:
        """Inside, the module's code acts for that person. Raises ActRefusedError."""
        if not self._speaks_for_people:
            raise ActRefusedError(
                f"the module {self.name} may not act for people: that takes a trusted module whose "
                "manifest says `people: true` below permissions"
            )
        return acting_for(self._acting(), person, is_strangers=is_strangers)

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        """Publish an event of its own.

        Its causes travel with it, so that loops halt, and so does its taint.
        """
        authority = self._acting().forked()
        if self._is_strange:
            authority.taint.read_words(
                f"the event {event[:80]}, of the module {self.name}", "imported"
            )
        fields = {**data, "causes": list(authority.causes)} if authority.causes else data
        self._sources.publish(self.name, event, fields, authority)

    def get_interface(self, name: str) -> object | None:
        self._acting()
        if name not in self._requires:
            raise ActRefusedError(
                f"the module {self.name} may not use {name[:80]}: its manifest does not name it "
                "in optional_requires"
            )
        return self._sources.interface(
            name, InterfaceCaller(name=self.name, own=self._acting, delegated=self._delegated)
        )

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        return await self._agents.run(agent, prompt, options, self._acting())

    def _acting(self) -> Authority:
        """The authority that its code has now.

        Raises ActRefusedError when its caller no longer has that.
        """
        authority = self._authority()
        authority.check()
        return authority

    def _delegated(self, authority: Authority) -> Authority:
        """The authority that the other module acts with: if this module is not trusted, limited to
        its own rights.
        """
        delegated = authority.forked()
        if not self._is_strange:
            return delegated
        delegated.taint.read_words(f"a call of the module {self.name}", "imported")
        return delegated.narrowed(self._bounds.reads, self._bounds.writes)

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        """Propose a change to a person.

        A file that it may not read is reported as missing.
        """
        suggestions, target, authority = (
            self._sources.suggestions,
            VaultPath.parse(path),
            self._acting(),
        )
        if suggestions is None:
            raise ActRefusedError("suggestions are not accepted here")
        if action not in ACTIONS:
            raise EditRefusedError(f"{action[:80]!r} is not one of {', '.join(ACTIONS)}")
        if not self._bounds.limited(authority.reads, authority.writes).may_read(target):
            raise NotFoundError(
                f"{printable(target)} is not among the files that the module {self.name} may read"
            )
        origin: Origin = (
            authority.taint.origin if authority.taint else "bot" if self._is_strange else "agent"
        )
        suggestion = await suggestions.propose(
            Proposal(
                source_agent=f"module:{self.name}",
                action=action,
                path=target,
                payload=payload,
                reasoning=reasoning,
                base=base,
                run=next(iter(authority.runs), None),
                causes=authority.causes,
                origin=origin,
            )
        )
        return suggestion.id

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str:
        suggestions, authority = self._sources.suggestions, self._acting()
        if not (self._speaks_for_people and is_for_person(authority)) or suggestions is None:
            raise ActRefusedError(
                f"the module {self.name} may decide on suggestions only for a person, inside "
                "`with self.on_behalf_of(...)`, and where no stranger's text led to it"
            )
        seen = self._bounds.limited(authority.reads, authority.writes).may_read
        found = suggestions.get(suggestion_id, sees=lambda path: seen(VaultPath(path)))
        if any(one.source_agent == f"module:{self.name}" for one in suggestions.parts_of(found)):
            raise ActRefusedError(f"the module {self.name} suggested that itself")
        caller = Caller("person", authority.who, authority.request_id)
        match decision:
            case "approve":
                resolved = await suggestions.approve(found.id, caller=caller)
            case "reject":
                resolved = await suggestions.reject(found.id, caller=caller)
            case _:
                raise EditRefusedError(f"{decision[:80]!r} is neither approve nor reject")
        return resolved.status


def is_for_person(authority: Authority) -> bool:
    """Whether it is that of a person for whom a module acts, and not of a run they asked for."""
    return authority.entry == "bot" and authority.within is None and not authority.taint


def acting_for(
    authority: Authority, person: str, *, is_strangers: bool
) -> AbstractContextManager[None]:
    """Inside, code that the module began itself acts for a person. Raises ActRefusedError."""
    is_own = authority.asked_by == "module" or authority.entry == "bot"
    if not is_own or authority.within is not None:
        raise ActRefusedError(
            "only what a module began itself, when it was enabled, can act for a person"
        )
    return acting(authority.for_person(person, is_strangers=is_strangers))


def current_call(authority: Authority, own: Origin) -> CurrentCall:
    """The call with that authority; `own` is what the module's own words count as."""
    is_event = authority.asked_by == "event" and authority.within is None
    run = None if is_event else next(iter(authority.runs), None)
    origin = authority.words(own, "you" if run is None else "agent")
    return CurrentCall(
        run=run,
        origin=origin,
        is_strangers=origin in UNTRUSTED,
        key=authority.caller,
        is_limited=authority.is_limited,
        own_run=authority.call.run if authority.call is not None else None,
    )
