"""A module's part in the hooks of agents' runs: what it is asked, and what its answer comes to."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter, ValidationError

from parachuted.access.authority import Authority
from parachuted.errors import ModuleFailedError, ParachuteError
from parachuted.hooks import HookAnswer, HookEvent
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.running_module import CALL_LIMIT_S, RunningModule
from parachuted.modules.registry.declaration import HookSpec
from parachuted.modules.results import HookResult, to_json

_LONGEST = 100_000
_RESULT = TypeAdapter(dict[str, str])
_FIELDS = frozenset({"block", "context"})


class ModuleHook:
    """One hook of a running module, as a `HookParticipant`."""

    def __init__(
        self,
        running: RunningModule,
        spec: HookSpec,
        audit: ModuleAudit,
        *,
        is_trusted: bool,
        limit_s: float = CALL_LIMIT_S,
    ) -> None:
        self._running, self._spec, self._audit = running, spec, audit
        self._is_trusted, self._limit_s = is_trusted, limit_s
        self._module = running.declared.name

    @property
    def id(self) -> str:
        return f"module:{self._module}:{self._spec.event}"

    @property
    def event(self) -> str:
        return self._spec.event

    def wants(self, hook_event: HookEvent) -> bool:
        """It is not asked about its own agents: one that it lets work for its answer would ask it
        again. Nor where it could do nothing: who asked for the run may no longer.
        """
        return hook_event.module != self._module and hook_event.authority.holds()

    async def answer(self, hook_event: HookEvent) -> HookAnswer:
        """What the module says, in its name.

        What an untrusted one adds or objects counts as a stranger's text for the run.
        """
        authority, name = hook_event.authority, f"the module {self._module}"
        data = {
            **hook_event.data,
            "session_id": hook_event.session_id,
            "module": hook_event.module,
        }
        run = next(iter(authority.runs), "")
        try:
            with self._audit.call("agent", run, self._module, f"hook {self.event}", authority):
                result = await ask_hook(
                    self._running, self._spec, data, authority, limit_s=self._limit_s
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


async def ask_hook(
    running: RunningModule,
    spec: HookSpec,
    data: Mapping[str, object],
    authority: Authority,
    *,
    limit_s: float = CALL_LIMIT_S,
) -> HookResult:
    """Call the handler with what it names of `data`.

    Raises what `RunningModule.call` raises, and ModuleFailedError for an answer that is none.
    """
    sent = {str(name): to_json(value) for name, value in data.items()}
    found = await running.call(
        spec.handler, sent, timeout_s=limit_s, authority=authority, tolerant=True
    )
    if found is None:
        return HookResult()
    try:
        said = _RESULT.validate_python(found)
    except ValidationError:
        said = {"": ""}
    if not said.keys() <= _FIELDS:
        raise ModuleFailedError(f"{spec.handler} returned something else than a HookResult or None")
    if any(len(text) > _LONGEST for text in said.values()):
        raise ModuleFailedError(f"{spec.handler} returned more than {_LONGEST:,} characters")
    return HookResult(**said)
