"""Server registry: other people's MCP servers, in the home and in the vault's `.mcp.json`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
    storage_errors,
)
from parachuted.home_files.private import UntrustedFileError, locked, read_private, replace_private
from parachuted.texts.mistakes import mistakes_in
from parachuted.vault import VaultPath, VaultRoot, printable

FILE: Final = "mcp-servers.json"
IN_VAULT: Final = VaultPath(".mcp.json")
OWN_SERVER: Final = "parachute"
_OWN_SERVERS: Final = frozenset({OWN_SERVER, "vault", "curator"})
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?")
_LARGEST: Final = 4 << 20
_LOCK: Final = "mcp-servers.lock"

_Text = Annotated[str, Field(max_length=4_000, pattern=r"^[^\x00]*$")]
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,100}$")]


class ServerDefinition(BaseModel):
    """A program, or the `url` of a server. `env` and `headers` may hold secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["stdio", "http", "streamable-http"] | None = None
    command: _Text = ""
    args: Annotated[tuple[_Text, ...], Field(max_length=100)] = ()
    env: dict[_Variable, _Text] = {}
    url: _Text = ""
    headers: dict[_Header, _Text] = {}

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        if not self.url:
            if not self.command.strip() or self.headers or self.type not in {None, "stdio"}:
                raise ValueError("a server is a program with a command, or has a url (http)")
        elif self.command or self.args or self.env or self.type == "stdio":
            raise ValueError("a server with a url speaks MCP's streamable HTTP (type: http)")
        elif not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", self.url):
            raise ValueError("url should be an address such as https://example.org/mcp")
        elif not all(value.isprintable() for value in self.headers.values()):
            raise ValueError("headers should be an object of texts")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        return (self.url,) if self.url else (self.command, *self.args)

    @property
    def digest(self) -> str:
        parts: list[object] = [self.command, self.args, dict(sorted(self.env.items()))]
        if self.url:
            parts += [self.url, dict(sorted(self.headers.items()))]
        return digest_of(parts)

    def document(self) -> dict[str, object]:
        if self.url:
            return {"type": "http", "url": self.url, "headers": self.headers}
        return {"command": self.command, "args": list(self.args), "env": self.env}


class _ServerFile(BaseModel):
    """The home's file: definitions, tools as they were approved, and names, all by name."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    servers: dict[str, Any] = {}
    tools: dict[str, list[dict[str, Any]]] = {}
    trusted: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownServer:
    """`definition` is None where there is a `problem`; `tools` are those it had when approved;
    `is_trusted`: it runs with the person's own rights, outside of a container.
    """

    name: str
    source: Literal["home", "vault"]
    definition: ServerDefinition | None = None
    problem: str | None = None
    tools: Sequence[Mapping[str, object]] = ()
    is_trusted: bool = False


class ServerRegistry:
    """Blocks on the disk. Secrets of a server that a person adds stay in the home."""

    def __init__(self, root: VaultRoot, home: Path) -> None:
        self._root, self._home, self._path = root, home, home / FILE

    def all(self) -> list[KnownServer]:
        """By name; a person's own comes before one of the vault."""
        own, problem = self._document()
        found = self._of_vault(own)
        if problem is not None:
            found[FILE] = KnownServer(name=FILE, source="home", problem=problem)
        found |= {name: _known(name, "home", entry, own) for name, entry in own.servers.items()}
        return [found[name] for name in sorted(found)]

    def get(self, name: str) -> KnownServer:
        """Raises NotFoundError."""
        for server in self.all():
            if server.name == name:
                return server
        raise NotFoundError(f"there is no MCP server {printable(name[:80])}")

    def add(self, name: str, entry: Mapping[str, object]) -> KnownServer:
        """Raises EditRefusedError, ConflictError where there is one of that name."""
        try:
            definition = _read_definition(name, entry)
        except ValueError as error:
            raise EditRefusedError(str(error)) from error
        if any(server.name == name for server in self.all()):
            raise conflict(f"there is an MCP server {name} already")
        with self._changing() as file:
            file.servers[name] = definition.document()
        return KnownServer(name=name, source="home", definition=definition)

    def remove(self, name: str) -> None:
        """NotFoundError; ActRefusedError for one of the vault."""
        if self.get(name).source == "vault":
            raise ActRefusedError(f"{name} is declared in {IN_VAULT}; take it out there")
        with self._changing() as file:
            file.servers.pop(name, None)
            file.tools.pop(name, None)

    def keep_tools(
        self, name: str, tools: Sequence[Mapping[str, object]], *, is_trusted: bool
    ) -> None:
        with self._changing() as file:
            file.tools[name] = list(map(dict, tools))
            others = {*file.trusted} - {name}
            file.trusted = sorted({*others, name} if is_trusted else others)

    def _of_vault(self, own: _ServerFile) -> dict[str, KnownServer]:
        try:
            servers = _servers_in(json.loads(self._root.read(IN_VAULT).data))
        except NotFoundError:
            return {}
        except (ParachuteError, ValueError, RecursionError) as error:
            problem = f"{IN_VAULT} cannot be read: {error}"[:300]
            return {IN_VAULT: KnownServer(name=IN_VAULT, source="vault", problem=problem)}
        return {name: _known(name, "vault", entry, own) for name, entry in servers.items()}

    def _document(self) -> tuple[_ServerFile, str | None]:
        try:
            text = read_private(self._path, _LARGEST, is_secret=True)
            return _ServerFile.model_validate_json(text or "{}"), None
        except (UntrustedFileError, ValueError) as error:
            return _ServerFile(), f"{FILE} cannot be used: {error}"

    @contextmanager
    def _changing(self) -> Iterator[_ServerFile]:
        with storage_errors(f"{FILE} could not be written"), locked(self._home, _LOCK):
            document, problem = self._document()
            if problem is not None:
                raise EditRefusedError(problem)
            yield document
            replace_private(self._path, document.model_dump_json(indent=1).encode() + b"\n")


def digest_of(parts: Sequence[object]) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"


def conflict(message: str) -> ConflictError:
    return ConflictError(message, base=b"", ours=b"", theirs=b"", is_known=False)


def _known(
    name: str, source: Literal["home", "vault"], entry: object, own: _ServerFile
) -> KnownServer:
    try:
        definition, problem = _read_definition(name, entry), None
    except ValueError as error:
        definition, problem = None, str(error)
    return KnownServer(
        name=name,
        source=source,
        definition=definition,
        problem=problem,
        tools=own.tools.get(name, ()),
        is_trusted=name in own.trusted,
    )


def _read_definition(name: str, entry: object) -> ServerDefinition:
    """Raises ValueError, with what is wrong."""
    if not _NAME.fullmatch(name):
        raise ValueError("a name has up to 32 letters, digits and dashes")
    if name in _OWN_SERVERS:
        raise ValueError(f"{name} is the name of the daemon's own tools")
    if isinstance(entry, Mapping):  # some programs write what they leave out as null
        entry = {key: value for key, value in entry.items() if value is not None}
    try:
        return ServerDefinition.model_validate(entry)
    except ValidationError as error:
        raise ValueError("; ".join(mistakes_in(error))[:300]) from error


def _servers_in(document: object) -> Mapping[str, object]:
    """The keys of a `.mcp.json`, or those of `mcpServers`. Raises ValueError."""
    if isinstance(document, Mapping) and isinstance(document.get("mcpServers"), Mapping):
        document = document["mcpServers"]
    if not isinstance(document, Mapping):
        raise ValueError(".mcp.json should hold an object of servers")  # noqa: TRY004  a caller's mistake
    return {str(name): entry for name, entry in document.items()}
