"""A module's services in its own process: each call asks the daemon, which holds the rights
and the vault.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from parachuted.access.hit import Hit, Hits, Paths
from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.codec import told
from parachuted.modules.module import is_every_modules
from parachuted.modules.results import to_json


class PipeCaller(Protocol):
    """The pipe, as the services need it."""

    async def ask(self, verb: str, body: Mapping[str, object]) -> object:
        """Ask the daemon, and wait for its answer."""

    def ask_now(self, verb: str, body: Mapping[str, object]) -> object:
        """The same for synchronous code; it blocks the loop until the answer arrives."""


class RemoteServices:
    """The `Services` of a module whose daemon is at the other end of a pipe."""

    def __init__(
        self, name: str, config: Mapping[str, object], log: logging.Logger, asker: PipeCaller
    ) -> None:
        self.name = name
        self.config = config
        self.log = log
        self.vault = RemoteVault(asker)
        self.state = RemoteState(asker)
        self._asker = asker

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self._asker.ask_now("publish", {"event": event, "data": to_json(data)})

    def get_interface(self, name: str) -> object | None:
        return (
            RemoteInterface(name, self._asker)
            if self._asker.ask_now("has_interface", {"interface": name})
            else None
        )

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        return _text(
            await self._asker.ask(
                "run_agent", {"agent": agent, "prompt": prompt, "options": to_json(options)}
            )
        )

    async def suggest(
        self,
        action: str,
        path: str,
        payload: Mapping[str, object],
        reasoning: str,
        base: str | None = None,
    ) -> str:
        body = {
            "action": action,
            "path": path,
            "payload": to_json(payload),
            "reasoning": reasoning,
            "base": base,
        }
        return _text(await self._asker.ask("suggest", body))


class RemoteVault:
    """`VaultAccess` over the pipe."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker

    async def read(self, path: str) -> str:
        return _text(await self._ask("read", path=path))

    async def read_bytes(self, path: str) -> bytes:
        return base64.b64decode(_text(await self._ask("read_bytes", path=path)))

    async def exists(self, path: str) -> bool:
        return await self._ask("exists", path=path) is True

    async def list(self, pattern: str = "**") -> Paths:
        return _texts(await self._ask("list", pattern=pattern))

    async def search(self, query: str, limit: int = 20) -> Hits:
        found = await self._ask("search", query=query, limit=limit)
        return [Hit(**hit) for hit in found] if isinstance(found, list) else []

    async def write(self, path: str, text: str, *, base: str | None = None) -> str:
        return _text(await self._ask("write", path=path, text=text, base=base))

    async def write_bytes(self, path: str, data: bytes, *, base: str | None = None) -> str:
        return _text(
            await self._ask(
                "write_bytes", path=path, data=base64.b64encode(data).decode(), base=base
            )
        )

    async def create(self, path: str, text: str) -> str:
        return _text(await self._ask("create", path=path, text=text))

    async def append(self, path: str, section: str, text: str) -> str:
        return _text(await self._ask("append", path=path, section=section, text=text))

    async def set_key(self, path: str, key: str, value: object) -> str:
        return _text(await self._ask("set_key", path=path, key=key, value=to_json(value)))

    async def delete(self, path: str) -> None:
        await self._ask("delete", path=path)

    async def digest(self, path: str) -> str:
        return _text(await self._ask("digest", path=path))

    async def _ask(self, verb: str, **body: object) -> object:
        return await self._asker.ask(f"vault.{verb}", body)


class RemoteState:
    """`StateAccess` over the pipe."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker

    async def get(self, key: str, default: object = None) -> object:
        found = await self._asker.ask("state.get", {"key": key})
        return found["value"] if isinstance(found, dict) and "value" in found else default

    async def put(self, key: str, value: object) -> None:
        await self._asker.ask("state.put", {"key": key, "value": to_json(value)})

    async def delete(self, key: str) -> None:
        await self._asker.ask("state.delete", {"key": key})

    async def keys(self) -> list[str]:
        return _texts(await self._asker.ask("state.keys", {}))


class RemoteInterface:
    """Another module's interface: each of its public methods is a call through the daemon, and must
    be awaited.
    """

    def __init__(self, name: str, asker: PipeCaller) -> None:
        self._name = name
        self._asker = asker

    def __getattr__(self, method: str) -> Callable[..., Awaitable[object]]:
        if method.startswith("_") or is_every_modules(method):
            raise AttributeError(f"{self._name} has no method {method}")

        async def call(*args: object, **kwargs: object) -> object:
            body = {
                "interface": self._name,
                "method": method,
                "args": to_json(args),
                "kwargs": to_json(kwargs),
            }
            return told(await self._asker.ask("interface", body))

        return call


class LogOverPipe(logging.Handler):
    """Sends what is logged to the daemon's log."""

    def __init__(self, say: Callable[[int, str], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(record.levelno, self.format(record))
        except (OSError, ModuleFailedError):
            self.handleError(record)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ModuleFailedError("the daemon answered with something else than a text")
    return value


def _texts(value: object) -> list[str]:
    return [_text(one) for one in value] if isinstance(value, list) else []
