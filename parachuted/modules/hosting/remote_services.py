"""A module's services in its own process: each call asks the daemon, which holds the rights
and the vault.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from pydantic import TypeAdapter

from parachuted.errors import ModuleFailedError
from parachuted.modules.current_call import CurrentCall
from parachuted.modules.hosting.codec import told
from parachuted.modules.hosting.module_activity import RemoteActivity
from parachuted.modules.hosting.module_contexts import RemoteContexts
from parachuted.modules.hosting.remote_runs import RemoteRuns
from parachuted.modules.hosting.remote_schedules import RemoteSchedules
from parachuted.modules.hosting.remote_vault import (
    PipeCaller,
    RemoteFolders,
    RemoteVault,
    text_of,
    texts_of,
)
from parachuted.modules.module import is_every_modules
from parachuted.modules.results import to_json

_CURRENT_CALL: TypeAdapter[CurrentCall] = TypeAdapter(CurrentCall)


class RemoteServices:
    """The `Services` of a module whose daemon is at the other end of a pipe."""

    def __init__(
        self,
        name: str,
        config: Mapping[str, object],
        log: logging.Logger,
        asker: PipeCaller,
        *,
        data_folder: Path | None = None,
        has_model: bool = False,
    ) -> None:
        self.name = name
        self.has_model = has_model
        self._data_folder = data_folder
        self.config = config
        self.log = log
        self.vault = RemoteVault(asker)
        self.folders = RemoteFolders(asker)
        self.state = RemoteState(asker)
        self.activity = RemoteActivity(asker)
        self.runs = RemoteRuns(asker)
        self.contexts = RemoteContexts(asker)
        self.schedules = RemoteSchedules(asker)
        self._asker = asker

    @property
    def data_folder(self) -> Path:
        if self._data_folder is None:
            raise ModuleFailedError("the daemon named no data folder")
        return self._data_folder

    @property
    def current_call(self) -> CurrentCall:
        return _CURRENT_CALL.validate_python(self._asker.ask_now("current_call", {}))

    def publish(self, event: str, data: Mapping[str, object]) -> None:
        self._asker.ask_now("publish", {"event": event, "data": to_json(data)})

    def get_interface(self, name: str) -> object | None:
        return (
            InterfaceOverPipe(name, self._asker)
            if self._asker.ask_now("has_interface", {"interface": name})
            else None
        )

    async def run_agent(self, agent: str, prompt: str, options: Mapping[str, object]) -> str:
        return text_of(
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
        return text_of(await self._asker.ask("suggest", body))


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
        return texts_of(await self._asker.ask("state.keys", {}))


class InterfaceOverPipe:
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
