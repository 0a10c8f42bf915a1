"""Hooks and modules: whether hooks let a module be loaded, and a module's own part in the hooks of
agents' runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.hooks import HookAnswer, HookDecision, HookEvent, HookParticipant
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import CALL_LIMIT_S, ModuleHost
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import HookSpec

_BEFORE = "module.load.before"


class LoadGuard(Protocol):
    """Who may object to a module's code being loaded: the hooks. Modules may take part in them."""

    def wants(self, event: str) -> bool: ...

    async def ask(self, occurrence: HookEvent) -> HookDecision: ...

    def set_participants(self, participants: Iterable[HookParticipant]) -> None: ...


async def ask_to_load(
    guard: LoadGuard, approved: ApprovedModule, at: datetime, vault: Path
) -> None:
    """Let hooks object. Raises ActRefusedError."""
    if not guard.wants(_BEFORE):
        return
    data = {
        "name": approved.name,
        "version": approved.manifest.version,
        "hash": approved.digest,
        "trust": approved.trust,
    }
    decision = await guard.ask(
        HookEvent(event=_BEFORE, at=at, data=data, vault=vault, module=approved.name)
    )
    if not decision.allowed:
        raise ActRefusedError(f"a hook objects to the module {approved.name}: {decision.reason}")


class ModuleHook:
    """One hook of a running module, as a `HookParticipant`."""

    def __init__(
        self,
        host: ModuleHost,
        spec: HookSpec,
        audit: ModuleAudit,
        *,
        is_trusted: bool,
        limit_s: float = CALL_LIMIT_S,
    ) -> None:
        self._host, self._spec, self._audit = host, spec, audit
        self._is_trusted, self._limit_s = is_trusted, limit_s
        self.id, self.event = f"module:{host.name}:{spec.event}", spec.event

    def wants(self, hook_event: HookEvent) -> bool:
        """It is not asked about its own agents: one that it lets work for its answer would ask it
        again. Nor where it could do nothing: who asked for the run may no longer.
        """
        return hook_event.module != self._host.name and hook_event.authority.holds()

    async def answer(self, hook_event: HookEvent) -> HookAnswer:
        """What the module says, in its name.

        What an untrusted one adds or objects counts as a stranger's text for the run.
        """
        authority, name = hook_event.authority, f"the module {self._host.name}"
        data = {
            **hook_event.data,
            "session_id": hook_event.session_id,
            "module": hook_event.module,
        }
        run = next(iter(authority.runs), "")
        try:
            with self._audit.call("agent", run, self._host.name, f"hook {self.event}", authority):
                result = await self._host.ask_hook(
                    self._spec, data, authority, timeout_s=self._limit_s
                )
        except ParachuteError as error:
            return HookAnswer(hook=self.id, failure=f"{self.id}: {error.message}")
        if not self._is_trusted and (result.block or result.context):
            authority.taint.read_words(f"an answer of {name} to {self.event}", "imported")
        return HookAnswer(
            hook=self.id,
            blocks=f"{name}: {result.block}" if result.block else None,
            context=(f"From {name}:\n{result.context}",) if result.context else (),
        )
