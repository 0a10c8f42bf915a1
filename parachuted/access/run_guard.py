"""Run guard: what holds one agent's run while its tools read and write notes.

A run that read strangers' text writes only its grant's `tainted_writes` from then on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from parachuted.access.grant import Grant
from parachuted.access.strangers import Taint
from parachuted.vault import NOTE_SUFFIXES, printable

WishKind: TypeAlias = Literal["read", "write", "bash", "network", "trusted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """A change that a run may not make itself.

    `base` is the digest of the text it is based on; `data` the whole new text, None: removed.
    """

    path: str
    action: Literal["create", "update", "delete"]
    base: str | None
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGuard:
    """`ask` asks a person for more (what kind, for what, why), `put_forward` files a suggestion and
    answers its id; None: that cannot be done.
    """

    grant: Grant
    taint: Taint
    ask: Callable[[WishKind, str, str], Awaitable[bool]] | None = None
    put_forward: Callable[[ProposedChange, str], Awaitable[str]] | None = None

    def objection(self, path: str) -> str | None:
        """Why the run may not write that file now, though its grant names it; None: it may."""
        may = self.grant.may_write(path, tainted=True) and path.endswith(NOTE_SUFFIXES)
        if may or not self.taint:
            return None
        return f"{self.taint.why()}, so it may not write {printable(path)} any more"

    async def instead(self, change: ProposedChange, why: str) -> str:
        """File the change as a suggestion, or say that this is not possible."""
        if self.put_forward is None:
            return why
        name = await self.put_forward(change, why)
        return (
            f"{why}; instead it is suggested to a person as {name}, who decides on it. Nothing "
            "has changed yet, and you can go on"
        )

    async def beyond(self, kind: WishKind, what: str) -> bool:
        """Whether a person, asked now, allows it; a run without a waiting caller asks no one."""
        return self.grant.asks and self.ask is not None and await self.ask(kind, what, "")

    async def may_begin(self, who: str) -> bool:
        why = f"{who} asks to begin"
        return self.ask is not None and await self.ask("trusted", self.grant.agent, why)
