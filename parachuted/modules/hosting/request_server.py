"""Answers the requests of a module host, through the services that hold the module's rights.

The process may be hostile, so its requests are checked like any from outside: known verbs and
fields of the right types.
"""

from __future__ import annotations

import base64
import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from parachuted.errors import EditRefusedError, ModuleFailedError
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.module import is_every_modules
from parachuted.modules.results import to_json
from parachuted.modules.services import Services

_NOTHING = object()
_MOST_FOUND = 200
# what still fits into a frame; more than that is not even made ready for one, which takes long
_LARGEST = 6_000_000


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


Asked = TypeVar("Asked", bound=_Body)


class _Path(_Body):
    path: str


class _Pattern(_Body):
    pattern: str


class _Query(_Body):
    query: str
    limit: int = Field(ge=0, le=_MOST_FOUND)


class _Write(_Path):
    text: str
    base: str | None


def _decoded(data: object) -> bytes:
    return base64.b64decode(str(data), validate=True)


class _WriteBytes(_Path):
    data: Annotated[bytes, BeforeValidator(_decoded)]
    base: str | None


class _Create(_Path):
    text: str


class _Append(_Path):
    section: str
    text: str


class _SetKey(_Path):
    key: str
    value: object


class _Key(_Body):
    key: str


class _Put(_Key):
    value: object


class _Event(_Body):
    event: str
    data: dict[str, object]


class _Interface(_Body):
    interface: str


class _Method(_Interface):
    method: str
    args: list[object]
    kwargs: dict[str, object]


class _Suggest(_Path):
    action: str
    payload: dict[str, object]
    reasoning: str
    base: str | None


class _Agent(_Body):
    agent: str
    prompt: str
    options: dict[str, object]


_VAULT: Mapping[str, type[_Body]] = MappingProxyType(
    {
        "read": _Path,
        "read_bytes": _Path,
        "exists": _Path,
        "list": _Pattern,
        "search": _Query,
        "write": _Write,
        "write_bytes": _WriteBytes,
        "create": _Create,
        "append": _Append,
        "set_key": _SetKey,
        "delete": _Path,
        "digest": _Path,
    }
)
_STATE: Mapping[str, type[_Body]] = MappingProxyType(
    {"get": _Key, "put": _Put, "delete": _Key, "keys": _Body}
)
_OTHERS = ("publish", "has_interface", "interface", "run_agent", "suggest")
VERBS = (*(f"vault.{verb}" for verb in _VAULT), *(f"state.{verb}" for verb in _STATE), *_OTHERS)
"""All that a module's process can ask for."""


class RequestServer:
    """Answers one module's asks."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._others: Mapping[str, Callable[[Mapping[str, object]], Awaitable[object]]] = (
            MappingProxyType(
                {
                    "publish": self._publish,
                    "has_interface": self._has_interface,
                    "interface": self._interface,
                    "run_agent": self._run_agent,
                    "suggest": self._suggest,
                }
            )
        )

    async def serve(self, ask: AskFrame) -> object:
        """Do what is asked.

        Raises what the services raise, and ModuleFailedError for an ask that is none.
        """
        room, _, verb = ask.verb.partition(".")
        if room == "vault" and verb in _VAULT:
            result = await getattr(self._services.vault, verb)(**_fields(_VAULT[verb], ask.body))
            if isinstance(result, bytes | str) and len(result) > _LARGEST:
                raise EditRefusedError(
                    f"it is larger than {_LARGEST // 1_000_000} MB, which a module in a process "
                    "of its own is not given at once"
                )
            return (
                base64.b64encode(result).decode() if isinstance(result, bytes) else to_json(result)
            )
        if room == "state" and verb in _STATE:
            return await self._state(verb, _fields(_STATE[verb], ask.body))
        if ask.verb in self._others:
            return await self._others[ask.verb](ask.body)
        raise ModuleFailedError(f"a module cannot ask for {ask.verb[:80]!r}")

    async def _state(self, verb: str, fields: Mapping[str, object]) -> object:
        if verb == "get":
            found = await self._services.state.get(str(fields["key"]), _NOTHING)
            return {} if found is _NOTHING else {"value": to_json(found)}
        return to_json(await getattr(self._services.state, verb)(**fields))

    async def _publish(self, body: Mapping[str, object]) -> object:
        asked = _checked(_Event, body)
        self._services.publish(asked.event, asked.data)
        return None

    async def _has_interface(self, body: Mapping[str, object]) -> object:
        return self._services.get_interface(_checked(_Interface, body).interface) is not None

    async def _interface(self, body: Mapping[str, object]) -> object:
        """Call another module's object: its own methods, never those that every module has, for
        they carry that module's rights.
        """
        asked = _checked(_Method, body)
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
        asked = _checked(_Agent, body)
        return await self._services.run_agent(asked.agent, asked.prompt, asked.options)

    async def _suggest(self, body: Mapping[str, object]) -> object:
        return await self._services.suggest(**_fields(_Suggest, body))  # type: ignore[arg-type]


def _checked(kind: type[Asked], body: Mapping[str, object]) -> Asked:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise ModuleFailedError(
            "what the module asks is not as it should be: "
            f"{error.errors(include_url=False)[0]['msg']}"
        ) from error


def _fields(kind: type[_Body], body: Mapping[str, object]) -> dict[str, object]:
    return dict(_checked(kind, body))
