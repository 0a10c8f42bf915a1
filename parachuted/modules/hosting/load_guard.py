"""Whether hooks let a module's code be loaded."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Protocol

from parachuted.errors import ActRefusedError
from parachuted.hooks import HookDecision, HookEvent
from parachuted.modules.registry.approved import ApprovedModule

_BEFORE = "module.load.before"


class LoadGuard(Protocol):
    """Who may object to a module's code being loaded: the hooks."""

    def wants(self, event: str) -> bool:
        """Whether anybody would be asked."""

    async def ask(self, occurrence: HookEvent) -> HookDecision:
        """Ask all."""


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
    occurrence = HookEvent(event=_BEFORE, at=at, data=data, vault=vault, module=approved.name)
    decision = await guard.ask(occurrence)
    if not decision.allowed:
        raise ActRefusedError(f"a hook objects to the module {approved.name}: {decision.reason}")
