"""Server registry: the MCP servers that a person added, in the home, and those of the vault's
`.mcp.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    StorageFailedError,
)
from parachuted.home_files.private import UntrustedFileError, locked, read_private, replace_private
from parachuted.mcp.definition import ServerDefinition, read_definition, servers_in
from parachuted.vault import VaultPath, VaultRoot, printable

FILE: Final = "mcp-servers.json"
IN_VAULT: Final = VaultPath(".mcp.json")
_LARGEST: Final = 4 << 20
_LOCK: Final = "mcp-servers.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownServer:
    """One server; `definition` is None where there is a `problem` with it."""

    name: str
    source: Literal["home", "vault"]
    definition: ServerDefinition | None
    problem: str | None = None


class ServerRegistry:
    """Reads and changes them. Calls block on the disk.

    Secrets of a server that a person adds stay in the home, which agents do not see.
    """

    def __init__(self, root: VaultRoot, home: Path) -> None:
        self._root, self._home, self._path = root, home, home / FILE

    def all(self) -> list[KnownServer]:
        """All of them by name; a person's own comes before one of the vault."""
        found = {one.name: one for one in self._of_vault()}
        own, problem = self._document()
        if problem is not None:
            found[FILE] = KnownServer(name=FILE, source="home", definition=None, problem=problem)
        found |= {name: _known(name, "home", said) for name, said in own["servers"].items()}
        return [found[name] for name in sorted(found)]

    def get(self, name: str) -> KnownServer:
        """The server of that name. NotFoundError."""
        for one in self.all():
            if one.name == name:
                return one
        raise NotFoundError(f"there is no MCP server {printable(name[:80])}")

    def add(self, name: str, said: Mapping[str, object]) -> KnownServer:
        """Keep a person's own. Raises EditRefusedError, ConflictError where there is one of that
        name.
        """
        try:
            definition = read_definition(name, said)
        except ValueError as error:
            raise EditRefusedError(str(error)) from error
        if any(one.name == name for one in self.all()):
            raise ConflictError(
                f"there is an MCP server {name} already",
                base=b"",
                ours=b"",
                theirs=b"",
                is_known=False,
            )
        self._change(lambda document: document["servers"].update({name: definition.document()}))
        return KnownServer(name=name, source="home", definition=definition)

    def remove(self, name: str) -> None:
        """Forget a person's own. NotFoundError; ActRefusedError for one of the vault."""
        if self.get(name).source == "vault":
            raise ActRefusedError(f"{name} is declared in {IN_VAULT}; take it out there")

        def drop(document: dict[str, Any]) -> None:
            document["servers"].pop(name, None)
            document["tools"].pop(name, None)

        self._change(drop)

    def tools_of(self, name: str) -> Sequence[Mapping[str, object]]:
        """Its tools as they were when it was approved."""
        kept = self._document()[0]["tools"].get(name)
        return kept if isinstance(kept, list) else []

    def is_trusted(self, name: str) -> bool:
        """Whether a person lets it run with their own rights, outside of a container."""
        return name in self._document()[0].get("trusted", [])

    def keep_tools(
        self, name: str, tools: Sequence[Mapping[str, object]], *, is_trusted: bool
    ) -> None:
        """A person approved these tools of it."""

        def keep(document: dict[str, Any]) -> None:
            document["tools"][name] = list(tools)
            others = set(document.get("trusted", [])) - {name}
            document["trusted"] = sorted({*others, name} if is_trusted else others)

        self._change(keep)

    def _of_vault(self) -> list[KnownServer]:
        try:
            servers = servers_in(json.loads(self._root.read(IN_VAULT).data))
        except NotFoundError:
            return []
        except (ParachuteError, ValueError, RecursionError) as error:
            problem = f"{IN_VAULT} cannot be read: {error}"[:300]
            return [KnownServer(name=IN_VAULT, source="vault", definition=None, problem=problem)]
        return [_known(name, "vault", said) for name, said in servers.items()]

    def _document(self) -> tuple[dict[str, Any], str | None]:
        """What the home's file holds, and why it cannot be believed."""
        empty: dict[str, Any] = {"servers": {}, "tools": {}}
        try:
            text = read_private(self._path, _LARGEST, is_secret=True)
            found = json.loads(text) if text is not None else empty
        except (UntrustedFileError, ValueError, RecursionError) as error:
            return empty, f"{FILE} cannot be used: {error}"
        if not (isinstance(found, dict) and all(isinstance(found.get(one), dict) for one in empty)):
            return empty, f"{FILE} cannot be used: it has another shape"
        return found, None

    def _change(self, act: Any) -> None:  # noqa: ANN401  a function that changes a document
        try:
            with locked(self._home, _LOCK):
                document, problem = self._document()
                if problem is not None:
                    raise EditRefusedError(problem)
                act(document)
                replace_private(self._path, json.dumps(document, indent=1).encode() + b"\n")
        except OSError as error:
            raise StorageFailedError(
                f"{FILE} could not be written: {error.strerror}", errno=error.errno
            ) from error


def _known(name: str, source: Literal["home", "vault"], said: object) -> KnownServer:
    try:
        return KnownServer(name=name, source=source, definition=read_definition(name, said))
    except ValueError as error:
        return KnownServer(name=name, source=source, definition=None, problem=str(error))
