"""The context of folders for a module, within what it may read; and the same over the pipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parachuted.access.authority import Authority
from parachuted.access.context_preview import ContextPreview
from parachuted.context import DEFAULT_TOKENS, ContextAssembly
from parachuted.modules.services import VaultAccess
from parachuted.runs.bounds import ModuleBounds


class ModuleContexts:
    """`ContextAccess` in the daemon."""

    def __init__(
        self,
        assembly: ContextAssembly,
        vault: VaultAccess,
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
