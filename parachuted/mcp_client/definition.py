"""The definition of an MCP server, as `.mcp.json` and the API have it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SERVER_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?")
OWN_SERVER: Final = "parachute"
_OWN_SERVERS: Final = frozenset({OWN_SERVER, "vault", "curator"})
_MOST_ARGUMENTS, _LONGEST = 100, 4_000
_OF_PROGRAMS: Final = frozenset({"type", "command", "args", "env"})
_OF_ADDRESSES: Final = frozenset({"type", "url", "headers"})
_ADDRESS: Final = re.compile(r"https?://[^\s/@]+(/\S*)?")
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,100}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDefinition:
    """A program that speaks MCP on its standard input and output, or the `url` of a server that
    does over HTTP. `env` and `headers` may hold secrets.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> tuple[str, ...]:
        """What a person is shown of it."""
        return (self.url,) if self.url else (self.command, *self.args)

    @property
    def digest(self) -> str:
        """What names this definition: all that it says."""
        parts: list[object] = [self.command, self.args, dict(sorted(self.env.items()))]
        if self.url:
            parts += [self.url, dict(sorted(self.headers.items()))]
        said = json.dumps(parts)
        return f"sha256:{hashlib.sha256(said.encode()).hexdigest()}"

    def document(self) -> dict[str, object]:
        """As it is written."""
        if self.url:
            return {"type": "http", "url": self.url, "headers": dict(self.headers)}
        return {"command": self.command, "args": list(self.args), "env": dict(self.env)}


def read_definition(name: str, said: object) -> ServerDefinition:
    """The server of that name. Raises ValueError, with what is wrong."""
    if not SERVER_NAME.fullmatch(name):
        raise ValueError("a name has up to 32 letters, digits and dashes")
    if name in _OWN_SERVERS:
        raise ValueError(f"{name} is the name of the daemon's own tools")
    if not isinstance(said, Mapping):
        raise ValueError("a server is an object with a command")  # noqa: TRY004  a caller's mistake
    if said.get("url") is not None:
        return _address(said)
    if said.get("type") not in {None, "stdio"}:
        raise ValueError("a server is a program (stdio), or has a url (http)")
    _refuse_unknown(said, _OF_PROGRAMS)
    command, args, env = said.get("command"), said.get("args", []), said.get("env", {})
    if not _is_text(command) or not str(command).strip():
        raise ValueError("command should be the program to start")
    if not isinstance(args, list) or len(args) > _MOST_ARGUMENTS or not all(map(_is_text, args)):
        raise ValueError("args should be a list of texts")
    if not isinstance(env, Mapping) or not all(
        _VARIABLE.fullmatch(str(key)) and _is_text(value) for key, value in env.items()
    ):
        raise ValueError("env should be an object of texts")
    return ServerDefinition(command=str(command), args=tuple(args), env=dict(env))


def _address(said: Mapping[str, object]) -> ServerDefinition:
    if said.get("type") not in {None, "http", "streamable-http"}:
        raise ValueError("a server with a url speaks MCP's streamable HTTP (type: http)")
    _refuse_unknown(said, _OF_ADDRESSES)
    url, headers = said["url"], said.get("headers", {})
    if not _is_text(url) or not _ADDRESS.fullmatch(str(url)):
        raise ValueError("url should be an address such as https://example.org/mcp")
    if not isinstance(headers, Mapping) or not all(
        _HEADER.fullmatch(str(key)) and _is_text(value) and str(value).isprintable()
        for key, value in headers.items()
    ):
        raise ValueError("headers should be an object of texts")
    return ServerDefinition(url=str(url), headers=dict(headers))


def _refuse_unknown(said: Mapping[str, object], known: frozenset[str]) -> None:
    if unknown := sorted(set(map(str, said)) - known):
        raise ValueError(f"{', '.join(unknown)[:200]}: not known here")


def servers_in(document: object) -> Mapping[str, object]:
    """The servers of a `.mcp.json`: its keys, or those of `mcpServers`. Raises ValueError."""
    if isinstance(document, Mapping) and isinstance(document.get("mcpServers"), Mapping):
        document = document["mcpServers"]
    if not isinstance(document, Mapping):
        raise ValueError(".mcp.json should hold an object of servers")  # noqa: TRY004  the same
    return {str(name): said for name, said in document.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST and "\0" not in value
