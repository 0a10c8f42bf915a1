"""A module's part in the hooks of agents' runs: what it is asked, and what its answer comes to."""

from __future__ import annotations

from parachuted.errors import ParachuteError
from parachuted.hooks import HookAnswer, HookEvent
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.host import CALL_LIMIT_S, ModuleHost
from parachuted.modules.registry.declaration import HookSpec


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
