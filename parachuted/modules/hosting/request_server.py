"""Answers the requests of a module host, through the services that hold the module's rights.

The process may be hostile, so its requests are checked like any from outside: known verbs and
fields of the right types.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.hosting.module_activity import serve_activity
from parachuted.modules.hosting.module_contexts import serve_contexts
from parachuted.modules.hosting.module_runs import ModuleRuns
from parachuted.modules.hosting.remote_runs import serve_runs
from parachuted.modules.hosting.remote_schedules import serve_schedules
from parachuted.modules.hosting.vault_requests import (
    VAULT_VERBS,
    PipeRequestBody,
    VaultRequests,
    checked,
    fields_of,
)
from parachuted.modules.module import is_every_modules
from parachuted.modules.results import to_json
from parachuted.modules.services import Services

_NOTHING = object()


class _Key(PipeRequestBody):
    key: str


class _Put(_Key):
    value: object


class _Event(PipeRequestBody):
    event: str
    data: dict[str, object]


class _Interface(PipeRequestBody):
    interface: str


class _Method(_Interface):
    method: str
    args: list[object]
    kwargs: dict[str, object]


class _Suggest(PipeRequestBody):
    path: str
    action: str
    payload: dict[str, object]
    reasoning: str
    base: str | None


class _Agent(PipeRequestBody):
    agent: str
    prompt: str
    options: dict[str, object]


class _File(PipeRequestBody):
    path: str


class _Folder(_File):
    pattern: str


_FOLDERS: Mapping[str, type[PipeRequestBody]] = MappingProxyType({"read": _File, "list": _Folder})
_STATE: Mapping[str, type[PipeRequestBody]] = MappingProxyType(
    {"get": _Key, "put": _Put, "delete": _Key, "keys": PipeRequestBody}
)
_OTHERS = ("publish", "has_interface", "interface", "run_agent", "suggest", "current_call")
_SCHEDULES = ("schedules.set", "schedules.remove", "schedules.list")
_RUNS = tuple(
    f"runs.{verb}" for verb in ("start", "next", "result", "stop", "inject", "answer", "ask")
)
_ACTIVITY = ("activity.log", "activity.read")
_ROOMS: Mapping[str, Callable[..., Awaitable[object]]] = MappingProxyType(
    {
        "activity": serve_activity,
        "contexts": serve_contexts,
        "runs": serve_runs,
        "schedules": serve_schedules,
    }
)
VERBS = (
    *(f"vault.{verb}" for verb in VAULT_VERBS),
    *(f"folders.{verb}" for verb in _FOLDERS),
    *(f"state.{verb}" for verb in _STATE),
    *_SCHEDULES,
    *_ACTIVITY,
    "contexts.preview",
    *_RUNS,
    *_OTHERS,
)
"""All that a module's process can ask for."""


class RequestServer:
    """Answers one module's asks."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._vault = VaultRequests(services.vault)
        self._others: Mapping[str, Callable[[Mapping[str, object]], Awaitable[object]]] = (
            MappingProxyType(
                {
                    "publish": self._publish,
                    "has_interface": self._has_interface,
                    "interface": self._interface,
                    "run_agent": self._run_agent,
                    "suggest": self._suggest,
                    "current_call": self._current_call,
                }
            )
        )

    async def serve(self, ask: AskFrame) -> object:
        """Do what is asked.

        Raises what the services raise, and ModuleFailedError for an ask that is none.
        """
        room, _, verb = ask.verb.partition(".")
        if room == "vault" and verb in VAULT_VERBS:
            return await self._vault.serve(verb, ask.body)
        if room == "folders" and verb in _FOLDERS:
            found = getattr(self._services.folders, verb)
            return to_json(await found(**fields_of(_FOLDERS[verb], ask.body)))
        if room == "state" and verb in _STATE:
            return await self._state(verb, fields_of(_STATE[verb], ask.body))
        if room in _ROOMS:
            return await _ROOMS[room](getattr(self._services, room), verb, ask.body)
        if ask.verb in self._others:
            return await self._others[ask.verb](ask.body)
        raise ModuleFailedError(f"a module cannot ask for {ask.verb[:80]!r}")

    def close(self) -> None:
        """The process is gone: nobody waits for what it had agents do."""
        if isinstance(self._services.runs, ModuleRuns):
            self._services.runs.close()

    async def _state(self, verb: str, fields: Mapping[str, object]) -> object:
        if verb == "get":
            found = await self._services.state.get(str(fields["key"]), _NOTHING)
            return {} if found is _NOTHING else {"value": to_json(found)}
        return to_json(await getattr(self._services.state, verb)(**fields))

    async def _publish(self, body: Mapping[str, object]) -> object:
        asked = checked(_Event, body)
        self._services.publish(asked.event, asked.data)
        return None

    async def _has_interface(self, body: Mapping[str, object]) -> object:
        return self._services.get_interface(checked(_Interface, body).interface) is not None

    async def _interface(self, body: Mapping[str, object]) -> object:
        """Call another module's object: its own methods, never those that every module has, for
        they carry that module's rights.
        """
        asked = checked(_Method, body)
        found = self._services.get_interface(asked.interface)
        if found is None:
            raise ModuleFailedError(f"no module provides {asked.interface[:80]} now")
        is_its_own = (
            asked.method.isidentifier()
            and not asked.method.startswith("_")
            and not is_every_modules(asked.method, found)
        )
        method = getattr(found, asked.method, None) if is_its_own else None
        if not callable(method):
            raise ModuleFailedError(f"{asked.interface[:80]} has no method {asked.method[:80]}")
        result = method(*asked.args, **asked.kwargs)
        return to_json(await result if inspect.isawaitable(result) else result)

    async def _run_agent(self, body: Mapping[str, object]) -> object:
        asked = checked(_Agent, body)
        return await self._services.run_agent(asked.agent, asked.prompt, asked.options)

    async def _suggest(self, body: Mapping[str, object]) -> object:
        return await self._services.suggest(**fields_of(_Suggest, body))  # type: ignore[arg-type]

    async def _current_call(self, body: Mapping[str, object]) -> object:
        checked(PipeRequestBody, body)
        return to_json(self._services.current_call)
