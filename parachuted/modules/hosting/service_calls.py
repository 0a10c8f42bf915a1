"""What a module in a container may ask of the daemon, as `services.py` declares it: the annotations
of each method say how its arguments, its result and its errors are JSON, at both ends.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticSerializationError

from parachuted import errors
from parachuted.access.notes import Note, NoteLink, NoteSection
from parachuted.errors import ConflictError, ModuleFailedError
from parachuted.json_limits import check_json
from parachuted.modules.agent_runs import RunAccess
from parachuted.modules.registry.approved import ApprovedModule, TrustLevel
from parachuted.modules.registry.arguments import WrongArgumentsError
from parachuted.modules.registry.manifest import read_manifest
from parachuted.modules.results import to_json
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import (
    ActivityAccess,
    ContextAccess,
    FolderAccess,
    Services,
    StateAccess,
)
from parachuted.runs.granted_vault import GrantedVault

API_SOCKET, MODULE_SOCKET = "api.sock", "module.sock"
CALL_HEADER = "X-Parachute-Call"
SERVICES = "/api/modules/{name}/services/{service}"
UPLOADS = "/api/modules/{name}/uploads"
ACCESSES: Mapping[str, type] = MappingProxyType(
    {
        "vault": GrantedVault,
        "folders": FolderAccess,
        "state": StateAccess,
        "schedules": ScheduleAccess,
        "activity": ActivityAccess,
        "contexts": ContextAccess,
        "runs": RunAccess,
    }
)
_STRICT = ConfigDict(extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64")
_BASE64 = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_APART = frozenset({"read_notes", "upload"})  # a stream each


class StartDocument(BaseModel):
    """What the daemon says on stdin: an `ApprovedModule`, whose manifest is in the copy, the key
    and the folders of both sockets.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    copy_at: Path
    digest: str
    tree: str
    trust: TrustLevel
    import_paths: tuple[Path, ...]
    overrides: dict[str, object]
    config: dict[str, object]
    config_lines: dict[str, int]
    data_folder: Path
    has_model: bool
    key: str
    api: Path
    own: Path

    def approved(self) -> ApprovedModule:
        """The module to run. It reads the copy."""
        same = ("name", "digest", "tree", "trust", "import_paths", "overrides", "config")
        return ApprovedModule(
            **{name: getattr(self, name) for name in (*same, "config_lines")},
            copy=self.copy_at,
            manifest=read_manifest((self.copy_at / "manifest.yaml").read_bytes()),
        )


class ServiceMethod:
    """One method; a parameter or result that is `object` is any JSON."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    @cached_property
    def _signature(self) -> inspect.Signature:
        signature = inspect.signature(self._function)
        return signature.replace(parameters=list(signature.parameters.values())[1:])  # no `self`

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._function, include_extras=True)

    @cached_property
    def _body(self) -> type[BaseModel]:
        found: dict[str, Any] = {
            name: (self._hints[name], ... if one.default is one.empty else one.default)
            for name, one in self._signature.parameters.items()
        }
        return create_model(self._function.__name__, __config__=_STRICT, **found)

    @cached_property
    def _result(self) -> TypeAdapter[Any]:
        hint = self._hints["return"]
        return (
            NOTE if hint is Note else TypeAdapter(hint, config=_BASE64 if hint is bytes else None)
        )

    def dump_body(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """The arguments as JSON. Raises TypeError, and WrongResultError for what JSON has not."""
        bound = self._signature.bind(*args, **kwargs)
        arguments: dict[str, Any] = {
            name: to_json(value) if _is_any(self._hints[name]) else value
            for name, value in bound.arguments.items()
        }
        body = self._body.model_construct(**arguments)
        try:
            return body.model_dump_json(exclude_unset=True, warnings=False).encode()
        except PydanticSerializationError as error:
            raise TypeError(str(error)) from error

    def load_body(self, body: bytes) -> inspect.BoundArguments:
        """The arguments again. Raises ModuleFailedError: who sends them is not trusted."""
        try:
            check_json(body)
            asked = self._body.model_validate_json(body)
        except ValueError as error:
            said = (
                error.errors(include_url=False)[0]["msg"]
                if isinstance(error, ValidationError)
                else str(error)
            )
            raise ModuleFailedError(f"the module's request is invalid: {said}") from error
        return self._signature.bind(**dict(asked))

    def dump_result(self, result: object) -> bytes:
        if self._hints["return"] is object:
            result = to_json(result)
        return self._result.dump_json(result, warnings=False)

    def load_result(self, answer: bytes) -> Any:  # noqa: ANN401  what the annotation says
        """The result again. Raises ModuleFailedError."""
        try:
            return self._result.validate_json(answer)
        except ValidationError as error:
            raise ModuleFailedError(f"the daemon's answer is invalid: {error}") from error


@cache
def methods_of(access: type) -> Mapping[str, ServiceMethod]:
    return {
        name: ServiceMethod(function)
        for name, function in inspect.getmembers(access, inspect.isfunction)
        if not name.startswith("_") and name not in _APART
    }


def _is_any(hint: object) -> bool:
    return hint is object or any(_is_any(one) for one in get_args(hint))


PLAIN: Mapping[str, ServiceMethod] = MappingProxyType(
    {name: methods_of(Services)[name] for name in ("publish", "run_agent", "suggest")}
)
"""What `Services` itself has as a method."""

_SECTION = tuple(one.name for one in fields(NoteSection))
_LINK = tuple(one.name for one in fields(NoteLink))


def _note_to_json(note: Note) -> Mapping[str, object]:
    """All of it: the other end has no index to look links up in."""
    whole = {one.name: to_json(getattr(note, one.name)) for one in fields(note)}
    sections = [[getattr(one, name) for name in _SECTION] for one in note.sections]
    links = [[getattr(one, name) for name in _LINK] for one in note.links]
    times = {name: getattr(note, name).isoformat() for name in ("created", "modified")}
    return {**whole, **times, "sections": sections, "links": links}


def _note_of(value: Any) -> Note:  # noqa: ANN401  JSON
    found = dict(value)
    sections = tuple(
        NoteSection(**dict(zip(_SECTION, one, strict=True))) for one in found.pop("sections")
    )
    links = tuple(NoteLink(**dict(zip(_LINK, one, strict=True))) for one in found.pop("links"))
    times = {name: datetime.fromisoformat(found[name]) for name in ("created", "modified")}
    return Note(
        **{**found, **times, "tags": tuple(found["tags"])},
        find_sections=lambda _text: sections,
        find_links=lambda _text: links,
    )


NOTE: TypeAdapter[Note] = TypeAdapter(
    Annotated[Note, PlainValidator(_note_of), PlainSerializer(_note_to_json)]
)

_BY_NAME: Mapping[str, type[Exception]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            errors.ActRefusedError,
            errors.AgentFailedError,
            errors.AgentStoppedError,
            errors.AgentUnavailableError,
            errors.BodyTooLargeError,
            errors.EditRefusedError,
            errors.HookRefusedError,
            ModuleFailedError,
            errors.NotFoundError,
            errors.PathRefusedError,
            errors.RequestBodyError,
            errors.StorageFailedError,
            TypeError,
            ValueError,
        )
    }
)
_SIDES = ("base", "ours", "theirs")
_MOST_TEXT = 20_000


def error_document(error: BaseException) -> Mapping[str, object]:
    """The error as JSON. Only those that authors or callers are promised keep their class; any
    other arrives as ModuleFailedError.
    """
    message = (str(error) or type(error).__name__)[-_MOST_TEXT:]  # the end says what it was
    more: dict[str, object] = {}
    name = next((one.__name__ for one in type(error).__mro__ if one.__name__ in _BY_NAME), None)
    if isinstance(error, ConflictError):
        name = ConflictError.__name__
        more = {side: base64.b64encode(getattr(error, side)).decode() for side in _SIDES}
        more["is_known"] = error.is_known
    elif isinstance(error, WrongArgumentsError):
        name, more = type(error).__name__, {"problems": [str(one) for one in error.problems]}
    elif name is None:
        name, message = ModuleFailedError.__name__, f"{type(error).__name__}: {message}"
    return {"error": name, "message": message, **more}


def error_of(document: object) -> Exception:
    found: Mapping[Any, Any] = document if isinstance(document, Mapping) else {}
    message = str(found.get("message", "the other end said nothing"))[-_MOST_TEXT:]
    name, problems = found.get("error"), found.get("problems")
    if name == WrongArgumentsError.__name__ and isinstance(problems, list):
        return WrongArgumentsError([str(one) for one in problems])
    if name == ConflictError.__name__:
        try:
            base, ours, theirs = (base64.b64decode(str(found[side])) for side in _SIDES)
        except (KeyError, ValueError):
            return ModuleFailedError(message)
        is_known = found.get("is_known") is True
        return ConflictError(message, base=base, ours=ours, theirs=theirs, is_known=is_known)
    return _BY_NAME.get(str(name), ModuleFailedError)(message)


def json_of(data: bytes) -> Any:  # noqa: ANN401  JSON
    """What the bytes say. Raises ModuleFailedError: who sends them is not trusted."""
    try:
        check_json(data)
        return json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ModuleFailedError(f"the other end sent no JSON: {error}") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


class _RemoteObject(dict[str, object]):
    """A dataclass of another module, as JSON: `mention.confidence` is `mention["confidence"]`."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def remote_value(value: object) -> object:
    """What an interface answered; its objects have attributes."""
    if isinstance(value, Mapping):
        return _RemoteObject({str(name): remote_value(one) for name, one in value.items()})
    return [remote_value(one) for one in value] if isinstance(value, list) else value
