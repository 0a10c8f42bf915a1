"""Event filter: which events a listener gets. Pure.

Events of files are for those who may read the file: one that moves in is new, one that moves out is
gone. All others need `read` on their module, and a key with paths gets none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias

from parachuted.access.paths import is_code, is_hidden
from parachuted.keys import EVERYWHERE, NOWHERE, AccessGrant, Identity, KeyScope, granted
from parachuted.keys.scopes import VAULT

Data: TypeAlias = Mapping[str, object]

_CREATED, _MOVED, _DELETED = "file.created", "file.moved", "file.deleted"


class EventShape(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> str:
        """The module that a key needs read access to; the vault for events of files."""
        ...

    @property
    def publisher(self) -> str | None:
        """None: the core."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Equal for listeners who get the same.

    `files` are those that it may read. It gets the events of modules that its `scopes` name, of
    `module`, its own, and, with `has_others`, all.
    """

    files: AccessGrant
    scopes: tuple[KeyScope, ...] = ()
    module: str | None = None
    has_others: bool = False

    @classmethod
    def of_key(cls, identity: Identity) -> Self:
        files = identity.grant(VAULT, "read") or NOWHERE
        return cls(files=files, scopes=() if identity.has_paths else identity.scopes)

    @classmethod
    def of_module(cls, name: str, files: AccessGrant, *, has_others: bool) -> Self:
        """For a module that may read these files, and never code.

        `has_others`: whether it gets the events of others; they may quote any note.
        """
        return cls(files=files, module=name, has_others=has_others)

    def visible(self, kind: EventShape, data: Data) -> tuple[str, Data] | None:
        """The name and the data of the event as the listener gets it, or None."""
        if kind.scope == VAULT:
            return self._of_files(kind.name, data)
        is_visible = (
            self.has_others
            or (self.module is not None and kind.publisher == self.module)
            or granted(self.scopes, kind.scope, "read") == EVERYWHERE
        )
        return (kind.name, data) if is_visible else None

    def _of_files(self, name: str, data: Data) -> tuple[str, Data] | None:
        named = [str(data[key]) for key in ("path", "from") if key in data]
        seen = [path for path in named if self._sees(path)]
        if len(seen) == len(named):
            return name, data
        if name != _MOVED or not seen:
            return None
        rest = {key: value for key, value in data.items() if key != "from"}
        if data["path"] in seen:
            return _CREATED, rest
        return _DELETED, {**rest, "path": seen[0], "digest": None}

    def _sees(self, path: str) -> bool:
        is_note = not is_hidden(path) and (self.module is None or not is_code(path))
        return is_note and self.files.sees(path)
