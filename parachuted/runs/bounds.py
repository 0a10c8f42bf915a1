"""Bounds: which vault files a module or its agent may read and write. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, Self

from parachuted.access.filter import ignored
from parachuted.access.grant import CallerGrant, Grant, any_of, exactly, grant_of
from parachuted.access.paths import is_code, is_control, is_hidden
from parachuted.errors import ActRefusedError, PathRefusedError
from parachuted.keys import AccessGrant
from parachuted.vault import VaultPath, printable


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleBounds:
    """What it `hides` a person cannot allow."""

    who: str
    reads: AccessGrant
    writes: AccessGrant
    hides: Callable[[str], bool] = lambda _path: False

    @classmethod
    def of_module(cls, name: str, *, read: Iterable[str], write: Iterable[str]) -> Self:
        return cls(who=f"the module {name}", reads=grant_of(read), writes=grant_of(write))

    @classmethod
    def of_agent(cls, who: str, grant: Grant) -> Self:
        return cls(who=who, reads=grant.reads, writes=grant.writes)

    def limited(self, grant: CallerGrant) -> Self:
        if not grant.is_limited:
            return self
        return replace(
            self, reads=self.reads.both(grant.reads), writes=self.writes.both(grant.writes)
        )

    def with_files(self, what: Literal["read", "write"], files: Iterable[str]) -> Self:
        """With files that a person has just allowed. What is a program's stays so."""
        more = exactly(files)
        if what == "read":
            return replace(self, reads=any_of(self.reads, more))
        return replace(self, writes=any_of(self.writes, more))

    def may_read(self, path: str) -> bool:
        is_known = not is_hidden(path) and not is_code(path) and not self.hides(path)
        return is_known and self.reads.sees(path)

    def may_enter(self, folder: str) -> bool:
        """Whether a file that they may read could be below that folder."""
        return not is_hidden(folder) and not is_code(folder) and self.reads.enters(folder)

    def may_write(self, path: str) -> bool:
        return not is_control(path) and not self.hides(path) and self.writes.sees(path)

    def check_read(self, path: VaultPath, real: VaultPath) -> None:
        """Also where the path leads must be theirs. Raises PathRefusedError, ActRefusedError."""
        if is_hidden(path) or is_code(path):
            why = "is hidden: no note begins with a dot, and a module's code is not read"
            raise PathRefusedError(f"{printable(path)} {why}")
        self._check(path, real, "read", self.may_read)

    def check_write(self, path: VaultPath, real: VaultPath) -> None:
        if is_control(path):
            why = "belongs to a program, a module's code or a person, and no module writes it"
            raise PathRefusedError(f"{printable(path)} {why}")
        self._check(path, real, "write", self.may_write)

    def _check(
        self, path: VaultPath, real: VaultPath, what: str, may: Callable[[str], bool]
    ) -> None:
        if self.hides(path):
            raise ignored(path)
        refusal = f"{self.who} may not {what}"
        if not may(path):
            why = f"its permissions.{what}, or those of who asks, do not name it"
            raise ActRefusedError(f"{refusal} {printable(path)}: {why}")
        if path != real and not may(real):  # where it leads is not told
            raise ActRefusedError(f"{refusal} what the link {printable(path)} leads to")
