"""The services of a module, the same in the daemon and in its own process."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from parachuted.access.hit import Hits, Paths


class VaultAccess(Protocol):
    """The vault, as far as the module's permissions reach.

    A path is relative to the vault: `Daily/entries/today.md`.

    PathRefusedError: no such path can be. ActRefusedError: the permissions, or a hook, say no.
    NotFoundError: no such file. ConflictError: somebody changed the file since `base`, in the same
    place. A digest names what is in a file at one time.
    """

    async def read(self, path: str) -> str:
        """The text of a note."""
        ...

    async def read_bytes(self, path: str) -> bytes:
        """The content of a binary file."""
        ...

    async def exists(self, path: str) -> bool:
        """Whether there is such a file, and the module may read it."""
        ...

    async def list(self, pattern: str = "**") -> Paths:
        """The paths of all files that match and that the module may read, sorted."""
        ...

    async def search(self, query: str, limit: int = 20) -> Hits:
        """The best notes for these words, among those that the module may read."""
        ...

    async def write(self, path: str, text: str, *, base: str | None = None) -> str:
        """Make the note this text, and return its digest.

        With the digest of what was read as `base`, others' edits since are kept.
        """
        ...

    async def write_bytes(self, path: str, data: bytes, *, base: str | None = None) -> str:
        """The same for a binary file."""
        ...

    async def create(self, path: str, text: str) -> str:
        """Make a new note. ConflictError: there is one already."""
        ...

    async def append(self, path: str, section: str, text: str) -> str:
        """Put text at the end of a section, which is made if need be."""
        ...

    async def set_key(self, path: str, key: str, value: object) -> str:
        """Set one key of the frontmatter, and leave all else byte for byte."""
        ...

    async def delete(self, path: str) -> None:
        """Remove a file; it can be undone."""
        ...

    async def digest(self, path: str) -> str:
        """What names the file's content now: the `base` of a later write."""
        ...


class StateAccess(Protocol):
    """A module's own small memory, outside the vault: JSON values of at most 1 MB.

    It can be lost; what matters belongs in the vault.
    """

    async def get(self, key: str, default: object = None) -> object:
        """What was put there, or the default."""
        ...

    async def put(self, key: str, value: object) -> None:
        """Keep a JSON value."""
        ...

    async def delete(self, key: str) -> None:
        """Forget it, if it is there."""
        ...

    async def keys(self) -> list[str]:
        """All keys, sorted."""
        ...


class Services(Protocol):
    """What a `Module` uses.

    `config` is its `config:` in modules.yaml.
    """

    @property
    def name(self) -> str:
        """The module's name."""
        ...

    @property
    def config(self) -> Mapping[str, object]:
        """The person's settings for it."""
        ...

    @property
    def log(self) -> logging.Logger:
        """Where it logs."""
        ...

    @property
    def vault(self) -> VaultAccess:
        """The vault, within its permissions."""
        ...

    @property
    def state(self) -> StateAccess:
        """Its own memory."""
        ...

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        """Say that something happened; the name begins with the module's own."""
        ...

    def get_interface(self, name: str) -> object | None:
        """The object that provides that interface now, or None."""
        ...

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        """Let one of the module's agents answer."""
        ...

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        """Put a change before a person, and return its id.

        ActRefusedError, EditRefusedError, NotFoundError, PathRefusedError.
        """
        ...
