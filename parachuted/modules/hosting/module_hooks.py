"""Whether hooks let a module be loaded, and a module's own part in the hooks of agents' runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from parachuted.errors import ActRefusedError, ParachuteError
from parachuted.hooks import HookAnswer, HookEvent, Hooks
from parachuted.modules.declare import HookMark
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import ModuleHost
from parachuted.modules.registry.approved import ApprovedModule

_BEFORE = "module.load.before"


class ModuleHooks:
    def __init__(self, hooks: Hooks, vault: Path, clock: Callable[[], datetime]) -> None:
        self._hooks, self._vault, self._clock = hooks, vault, clock
        self.set_participants = hooks.set_participants

    async def ask_to_load(self, approved: ApprovedModule) -> None:
        """Raises ActRefusedError where a hook objects."""
        if not self._hooks.wants(_BEFORE):
            return
        name, version = approved.name, approved.manifest.version
        data = {"name": name, "version": version, "hash": approved.digest, "trust": approved.trust}
        decision = await self._hooks.ask(
            HookEvent(event=_BEFORE, at=self._clock(), data=data, vault=self._vault, module=name)
        )
        if not decision.allowed:
            raise ActRefusedError(f"a hook objects to the module {name}: {decision.reason}")


class ModuleHook:
    """One hook of a running module, as a `HookParticipant`."""

    def __init__(
        self, host: ModuleHost, spec: HookMark, audit: ModuleAudit, *, is_trusted: bool
    ) -> None:
        self._host, self._spec, self._audit, self._is_trusted = host, spec, audit, is_trusted
        self.id, self.event = f"module:{host.name}:{spec.event}", spec.event

    def wants(self, hook_event: HookEvent) -> bool:
        """Not of its own agents, which would ask it again, nor for a caller whose rights ended."""
        return hook_event.module != self._host.name and hook_event.caller.request.is_valid()

    async def answer(self, hook_event: HookEvent) -> HookAnswer:
        """What an untrusted module adds or objects counts as a stranger's text for the run."""
        caller, name = hook_event.caller, f"the module {self._host.name}"
        about = {"session_id": hook_event.session_id, "module": hook_event.module}
        data = {**hook_event.data, **about}
        run = caller.chain.run or ""
        try:
            with self._audit.call("agent", run, self._host.name, f"hook {self.event}", caller):
                result = await self._host.ask_hook(self._spec, data, caller)
        except ParachuteError as error:
            return HookAnswer(hook=self.id, failure=f"{self.id}: {error.message}")
        if not self._is_trusted and (result.block or result.context):
            caller.taint.read(f"an answer of {name} to {self.event}")
        return HookAnswer(
            hook=self.id,
            blocks=f"{name}: {result.block}" if result.block else None,
            context=(f"From {name}:\n{result.context}",) if result.context else (),
        )
