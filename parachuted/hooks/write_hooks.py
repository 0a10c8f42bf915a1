"""Asks hooks before the vault is written, in the thread that writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from parachuted.errors import HookRefusedError
from parachuted.hooks.hook_event import HookEvent, cause_data, event_data, module_of
from parachuted.hooks.hooks import Hooks
from parachuted.vault import WriteIntent, printable

EVENT = "write.before"


class WriteHooks:
    """What the store asks, from `begin` on: what a start puts right was agreed to before."""

    def __init__(
        self,
        hooks: Hooks,
        *,
        vault: Path,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], datetime],
        root_of: Callable[[str], str | None] = lambda _cause: None,
    ) -> None:
        """`root_of` is called in the writing thread."""
        self._hooks, self._vault, self._loop, self._clock = hooks, vault, loop, clock
        self._root_of = root_of
        self._has_begun = False

    def begin(self) -> None:
        self._has_begun = True

    def is_asked(self) -> bool:
        return self._has_begun and self._hooks.wants(EVENT)

    def ask(self, intent: WriteIntent) -> None:
        """Raises HookRefusedError with the hooks' words."""
        decision = self._hooks.ask_from_thread(self._occurrence(intent), self._loop)
        if not decision.allowed:
            raise HookRefusedError(
                f"a hook refused the write to {printable(intent.path)}, so nothing was written: "
                f"{decision.reason}"
            )

    def _occurrence(self, intent: WriteIntent) -> HookEvent:
        author, units = intent.author, list(intent.units())
        data: dict[str, object] = {
            "path": printable(intent.path),
            "from": printable(intent.source) if intent.source is not None else None,
            "actor": author.by,
            "run": author.run,
            "causes": list(author.causes),
            "operation": intent.operation,
            "base": intent.base,
            "digest": intent.digest,
            "sections": units,
            "frontmatter": intent.frontmatter(),
        }
        root = self._root_of(author.causes[0]) if author.causes else None
        return HookEvent(
            event=EVENT,
            at=self._clock(),
            vault=self._vault,
            module=module_of(author.by),
            session_id=author.run,
            data=event_data(data, self._vault),
            cause=cause_data(author.causes, actor=author.by, run=author.run, root=root),
            diff={"text": intent.diff(), "changed": units},
        )
