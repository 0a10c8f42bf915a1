"""The services of one module, with its rights, wherever its code runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from parachuted.access.caller import Caller, acting, current
from parachuted.access.grant import CallerGrant
from parachuted.audit.activity import ActivityLog
from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules.hosting.exchange import ModuleExchange
from parachuted.modules.hosting.module_agents import ModuleAgents, ModuleRuns
from parachuted.modules.hosting.schedules import ModuleSchedules
from parachuted.modules.module_state import (
    MODULE_DATA,
    MODULE_STATE,
    StateAccess,
    make_data_folder,
)
from parachuted.modules.outside_folders import FolderAccess, OutsideAccess
from parachuted.modules.registry.approved import ApprovedModule, reads_any_note
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import ActivityAccess, CurrentCall, RunAccess
from parachuted.runs.bounds import ModuleBounds
from parachuted.runs.granted_vault import GrantedVaults
from parachuted.suggestions import Proposal, Suggestions
from parachuted.suggestions.suggestion import ACTIONS
from parachuted.vault import Requester, VaultPath, printable

_LOGGED_AS = "parachuted.modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleContextSources:
    """What the services of all modules are made from. `folder` has all modules' data and states."""

    vaults: GrantedVaults
    folder: Path
    outside: OutsideAccess
    agents_of: Callable[[ApprovedModule], ModuleAgents]
    suggestions: Suggestions | None
    exchange: ModuleExchange
    activity: ActivityLog


class ModuleContext:
    """The `Services` of one module."""

    def __init__(
        self,
        approved: ApprovedModule,
        sources: ModuleContextSources,
        caller: Callable[[], Caller] = current,
    ) -> None:
        """`caller` finds on whose behalf its code works now."""
        self.name = name = approved.name
        self.config: Mapping[str, object] = MappingProxyType(dict(approved.config))
        self.log = logging.getLogger(f"{_LOGGED_AS}.{name}")
        permissions = approved.manifest.permissions
        self._bounds = ModuleBounds.of_module(name, read=permissions.read, write=permissions.write)
        self._is_strange = approved.trust == "untrusted"
        self._speaks_for_people = permissions.people and not self._is_strange
        self._requires = approved.manifest.optional_requires
        self._sources, self._caller = sources, caller
        self.vault = sources.vaults.of_module(
            name,
            self._bounds,
            caller=caller,
            writing=lambda path: sources.exchange.events.writing(path, caller()),
            is_strangers=self._is_strange,
        )
        self.folders = FolderAccess(name, permissions.folders, sources.outside, caller)
        reads_all = reads_any_note(approved.manifest, approved.trust)
        self.activity = ActivityAccess(name, sources.activity, caller, reads_all=reads_all)
        self.schedules: ScheduleAccess = ModuleSchedules(name, sources.exchange.scheduler, caller)
        self.state = StateAccess(sources.folder / MODULE_STATE / name, caller)
        agents = sources.agents_of(approved)
        self.has_model = agents.has_model
        runs = ModuleRuns(name, agents, caller)
        self.runs: RunAccess = runs
        self.close = runs.close

    @property
    def data_folder(self) -> Path:
        return make_data_folder(self._sources.folder / MODULE_DATA, self.name)

    @property
    def current_call(self) -> CurrentCall:
        caller = self._acting()
        is_event = caller.request.by == "event" and caller.chain.within is None
        # a stranger's module has words of its own, but where a person asked
        is_own = self._is_strange and caller.request.by != "person"
        return CurrentCall(
            run=None if is_event else caller.chain.run,
            is_strangers=bool(caller.taint) or is_own,
            key=caller.request.key,
            is_limited=caller.grant.is_limited,
            own_run=caller.chain.call.run if caller.chain.call is not None else None,
        )

    def on_behalf_of(
        self, person: str, *, is_strangers: bool = False
    ) -> AbstractContextManager[None]:
        if not self._speaks_for_people:
            raise ActRefusedError(
                f"the module {self.name} may not act for people: that takes a trusted module whose "
                "manifest says `people: true` below permissions"
            )
        caller = self._acting()
        is_own = caller.request.by == "module" or caller.request.entry == "bot"
        if not is_own or caller.chain.within is not None:
            raise ActRefusedError(
                "only what a module began itself, when it was enabled, can act for a person"
            )
        return acting(caller.for_person(person, is_strangers=is_strangers))

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        """Its causes travel with the event, so that loops halt, and so does its taint."""
        caller = self._acting().fork()
        if self._is_strange:
            caller.taint.read(f"the event {event[:80]}, of the module {self.name}")
        fields = {**data, "causes": list(caller.causes)} if caller.causes else data
        self._sources.exchange.events.publish(self.name, event, fields, caller)

    def get_interface(self, name: str) -> object | None:
        self._acting()
        if name not in self._requires:
            raise ActRefusedError(
                f"the module {self.name} may not use {name[:80]}: its manifest does not name it "
                "in optional_requires"
            )
        return self._sources.exchange.interfaces.get(name, self.name, self._callers)

    def _acting(self) -> Caller:
        return self._caller().checked()

    def _callers(self) -> tuple[Caller, Caller]:
        """Its caller, and the one that another module acts for, limited to an untrusted module's
        own rights.
        """
        caller = self._acting()
        delegated = caller.fork()
        if self._is_strange:
            delegated.taint.read(f"a call of the module {self.name}")
            delegated = delegated.restricted_to(
                CallerGrant(self._bounds.reads, self._bounds.writes)
            )
        return caller, delegated

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        """A file that it may not read is reported as missing."""
        suggestions, target = self._sources.suggestions, VaultPath.parse(path)
        caller = self._acting()
        if suggestions is None:
            raise ActRefusedError("suggestions are not accepted here")
        if action not in ACTIONS:
            raise EditRefusedError(f"{action[:80]!r} is not one of {', '.join(ACTIONS)}")
        if not self.vault.files.bounds.may_read(target):
            raise NotFoundError(
                f"{printable(target)} is not among the files that the module {self.name} may read"
            )
        suggestion = await suggestions.propose(
            Proposal(
                source_agent=f"module:{self.name}",
                action=action,
                path=target,
                payload=payload,
                reasoning=reasoning,
                base=base,
                run=caller.chain.run,
                causes=caller.causes,
                is_strangers=self._is_strange or bool(caller.taint),
            )
        )
        return suggestion.id

    async def resolve_suggestion(self, suggestion_id: str, decision: str) -> str:
        suggestions, caller = self._sources.suggestions, self._acting()
        is_persons = caller.request.entry == "bot" and caller.chain.within is None
        may_decide = self._speaks_for_people and is_persons and not caller.taint
        if not may_decide or suggestions is None:
            raise ActRefusedError(
                f"the module {self.name} may decide on suggestions only for a person, inside "
                "`with self.on_behalf_of(...)`, and where no stranger's text led to it"
            )
        may_read = self.vault.files.bounds.may_read
        found = suggestions.get(suggestion_id, sees=lambda path: may_read(VaultPath(path)))
        if any(part.source_agent == f"module:{self.name}" for part in suggestions.parts_of(found)):
            raise ActRefusedError(f"the module {self.name} suggested that itself")
        requester = Requester("person", caller.request.who, caller.request.id)
        if decision not in {"approve", "reject"}:
            raise EditRefusedError(f"{decision[:80]!r} is neither approve nor reject")
        resolve = suggestions.approve if decision == "approve" else suggestions.reject
        resolved = await resolve(found.id, requester=requester)
        return resolved.status
