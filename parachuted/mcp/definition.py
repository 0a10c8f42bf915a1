"""The definition of an MCP server, as `.mcp.json` and the API have it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

SERVER_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?")
OWN_SERVER: Final = "parachute"
_OWN_SERVERS: Final = frozenset({OWN_SERVER, "vault", "curator"})

_Text = Annotated[str, Field(max_length=4_000, pattern=r"^[^\x00]*$")]
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
_Header = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,100}$")]


class ServerDefinition(BaseModel):
    """A program that speaks MCP on its standard input and output, or the `url` of a server that
    does over HTTP. `env` and `headers` may hold secrets.
    """

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
        """What a person is shown of it."""
        return (self.url,) if self.url else (self.command, *self.args)

    @property
    def digest(self) -> str:
        """What names this definition: all that it says."""
        parts: list[object] = [self.command, self.args, dict(sorted(self.env.items()))]
        if self.url:
            parts += [self.url, dict(sorted(self.headers.items()))]
        return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"

    def document(self) -> dict[str, object]:
        """As it is written."""
        if self.url:
            return {"type": "http", "url": self.url, "headers": self.headers}
        return {"command": self.command, "args": list(self.args), "env": self.env}


def read_definition(name: str, said: object) -> ServerDefinition:
    """The server of that name. Raises ValueError, with what is wrong."""
    if not SERVER_NAME.fullmatch(name):
        raise ValueError("a name has up to 32 letters, digits and dashes")
    if name in _OWN_SERVERS:
        raise ValueError(f"{name} is the name of the daemon's own tools")
    if isinstance(said, Mapping):  # some programs write what they leave out as null
        said = {key: value for key, value in said.items() if value is not None}
    try:
        return ServerDefinition.model_validate(said)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, found["loc"]))
        raise ValueError(f"{place}: {found['msg']}".removeprefix(": ")[:300]) from error


def servers_in(document: object) -> Mapping[str, object]:
    """The servers of a `.mcp.json`: its keys, or those of `mcpServers`. Raises ValueError."""
    if isinstance(document, Mapping) and isinstance(document.get("mcpServers"), Mapping):
        document = document["mcpServers"]
    if not isinstance(document, Mapping):
        raise ValueError(".mcp.json should hold an object of servers")  # noqa: TRY004  a caller's mistake
    return {str(name): said for name, said in document.items()}
