"""What crosses between a module in a container and the daemon, as JSON at both ends. What it may
ask for is declared once: by the annotations of its services' methods.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from functools import cached_property
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
from parachuted.access.notes import Note, NoteLink, NoteSection, Upload
from parachuted.errors import (
    ConflictError,
    ModuleFailedError,
    ParachuteError,
)
from parachuted.modules.checks import mistakes_in
from parachuted.modules.module import is_every_modules
from parachuted.modules.results import (
    Body,
    BytesResponse,
    Response,
    body_in_memory,
    to_json,
)
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import (
    ActivityAccess,
    CurrentCall,
    FolderAccess,
    RunAccess,
    Services,
    StateAccess,
)
from parachuted.runs.granted_vault import GrantedVault
from parachuted.texts.json_limits import check_json
from parachuted.vault import printable

API_SOCKET, MODULE_SOCKET = "api.sock", "module.sock"
CALL_HEADER = "X-Parachute-Call"
SERVICES = "/api/modules/{name}/services/{service}"
LARGEST_BODY = 16 << 20
LARGEST_UPLOAD = 5 << 20  # as base64 in JSON it has room in a request
_STRICT = ConfigDict(extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64")
_BASE64 = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")


def _note_to_json(note: Note) -> Mapping[str, object]:
    """All of it: the other end has no index to look links up in."""
    found = {field.name: getattr(note, field.name) for field in fields(note)}
    times = {name: getattr(note, name).isoformat() for name in ("created", "modified")}
    whole = to_json({**found, "sections": note.sections, "links": note.links})
    return {**whole, **times}  # type: ignore[dict-item]


def _note_of(value: Any) -> Note:  # noqa: ANN401  JSON
    found = dict(value)
    sections = tuple(NoteSection(**section) for section in found.pop("sections"))
    links = tuple(NoteLink(**link) for link in found.pop("links"))
    times = {name: datetime.fromisoformat(found[name]) for name in ("created", "modified")}
    return Note(
        **{**found, **times, "tags": tuple(found["tags"])},
        find_sections=lambda _text: sections,
        find_links=lambda _text: links,
    )


WholeNote = Annotated[Note, PlainValidator(_note_of), PlainSerializer(_note_to_json)]


class ServiceMethod:
    """One method; a parameter or result that is `object` is any JSON."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function, signature = function, inspect.signature(function)
        parameters = list(signature.parameters.values())[1:]  # without `self`
        self._signature = signature.replace(parameters=parameters)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self._function, include_extras=True)

    @cached_property
    def _body(self) -> type[BaseModel]:
        found: dict[str, Any] = {
            name: (self._hints[name], ... if sent.default is sent.empty else sent.default)
            for name, sent in self._signature.parameters.items()
        }
        return create_model(self._function.__name__, __config__=_STRICT, **found)

    @cached_property
    def _result(self) -> type[BaseModel]:
        hint: Any = self._hints["return"]
        hint = WholeNote if hint is Note else hint
        return create_model(self._function.__name__, __config__=_BASE64, value=(hint, ...))

    def dump_body(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """Raises TypeError, and ModuleFailedError for what JSON has not."""
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
        """Raises ModuleFailedError: who sends it is not trusted."""
        try:
            check_json(body)
            asked = self._body.model_validate_json(body)
        except ValueError as error:
            mistakes = mistakes_in(error) if isinstance(error, ValidationError) else [str(error)]
            raise ModuleFailedError(
                f"the module's request is invalid: {'; '.join(mistakes[:_MOST_MISTAKES])}"
            ) from error
        return self._signature.bind(**dict(asked))

    def dump_result(self, result: object) -> bytes:
        value = to_json(result) if self._hints["return"] is object else result
        answer = self._result.model_construct(value=value)
        return answer.model_dump_json(warnings=False).encode()

    def load_result(self, answer: bytes) -> Any:  # noqa: ANN401  what the annotation says
        """Raises ModuleFailedError."""
        try:
            return vars(self._result.model_validate_json(answer))["value"]
        except ValidationError as error:
            raise ModuleFailedError(f"the daemon's answer is invalid: {error}") from error


def _is_any(hint: object) -> bool:
    return hint is object or any(_is_any(inner) for inner in get_args(hint))


class OwnServices:
    """What a module asks of its services that is no method of an access."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.publish, self.run_agent = services.publish, services.run_agent
        self.suggest = services.suggest

    async def current_call(self) -> CurrentCall:
        return self._services.current_call

    async def has_interface(self, name: str) -> bool:
        return self._services.get_interface(name) is not None

    async def interface(
        self, name: str, method: str, args: list[object], kwargs: dict[str, object]
    ) -> object:
        """Call another module's object, but for what every module has: it uses its own rights."""
        found = self._services.get_interface(name)
        if found is None:
            raise ModuleFailedError(f"no module provides {name[:80]} now")
        is_its_own = not method.startswith("_") and not is_every_modules(method, found)
        function = getattr(found, method, None) if is_its_own else None
        if not callable(function):
            raise ModuleFailedError(f"{name[:80]} has no method {method[:80]}")
        result = function(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    async def notes_at(self, paths: list[str]) -> tuple[list[WholeNote], dict[str, str]]:
        """The notes, and why others were left out."""
        stream = self._services.vault.read_notes(paths)
        notes = [note async for note in stream]
        return notes, {printable(path): why for path, why in stream.left_out.items()}

    async def upload_bytes(self, path: str, data: bytes) -> Upload:
        async def pieces() -> AsyncIterator[bytes]:
            yield data

        return await self._services.vault.upload(path, pieces())


ACCESSES: Mapping[str, type] = MappingProxyType(
    {
        "vault": GrantedVault,
        "folders": FolderAccess,
        "state": StateAccess,
        "schedules": ScheduleAccess,
        "activity": ActivityAccess,
        "runs": RunAccess,
    }
)
_APART = frozenset({"read_notes", "upload"})  # of pieces


def _methods_of(declared: type) -> Iterator[tuple[str, ServiceMethod]]:
    for name, function in inspect.getmembers(declared, inspect.isfunction):
        if not name.startswith("_") and name not in _APART:
            yield name, ServiceMethod(function)


METHODS: Mapping[str, ServiceMethod] = MappingProxyType(
    {name: ServiceMethod(getattr(Services, name)) for name in ("publish", "run_agent", "suggest")}
    | dict(_methods_of(OwnServices))
    | {
        f"{access}.{name}": method
        for access, declared in ACCESSES.items()
        for name, method in _methods_of(declared)
    }
)
"""All that a module may ask for, such as `vault.read`."""

_ELSEWHERE = {ParachuteError, errors.ConfigError, ConflictError}
_BY_NAME: Mapping[str, type[Exception]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (TypeError, ValueError, *vars(errors).values())
        if isinstance(kind, type) and issubclass(kind, Exception) and kind not in _ELSEWHERE
    }
)
_SIDES = ("base", "ours", "theirs")
_MOST_MISTAKES = 5
_MOST_TEXT = 20_000


def error_document(error: BaseException) -> Mapping[str, object]:
    """Only errors that authors or callers are promised keep their class."""
    message = (str(error) or type(error).__name__)[-_MOST_TEXT:]  # the end says what it was
    more: dict[str, object] = {}
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _BY_NAME), None)
    if isinstance(error, ConflictError):
        name = ConflictError.__name__
        more = {side: base64.b64encode(getattr(error, side)).decode() for side in _SIDES}
        more["is_known"] = error.is_known
    elif name is None:
        name, message = ModuleFailedError.__name__, f"{type(error).__name__}: {message}"
    return {"error": name, "message": message, **more}


def error_of(document: object) -> Exception:
    found: Mapping[Any, Any] = document if isinstance(document, Mapping) else {}
    message = str(found.get("message", "the other end said nothing"))[-_MOST_TEXT:]
    name = found.get("error")
    if name == ConflictError.__name__:
        try:
            sides = {side: base64.b64decode(str(found[side])) for side in _SIDES}
        except (KeyError, ValueError):
            return ModuleFailedError(message)
        return ConflictError(message, **sides, is_known=found.get("is_known") is True)
    return _BY_NAME.get(str(name), ModuleFailedError)(message)


def json_of(data: bytes) -> Any:  # noqa: ANN401  JSON
    """Raises ModuleFailedError: who sends it is not trusted."""
    try:
        check_json(data)
        return json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ModuleFailedError(f"the other end sent no JSON: {error}") from error


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


async def body_document(source: Body | None) -> Mapping[str, object] | None:
    """All of a request's body. Raises BodyTooLargeError."""
    if source is None:
        return None
    data = await source.read(LARGEST_BODY)
    return {"content_type": source.content_type, "data": base64.b64encode(data).decode()}


def source_of(document: Mapping[str, Any] | None) -> Body | None:
    if document is None:
        return None
    return body_in_memory(document["content_type"], base64.b64decode(document["data"]))


_RESPONSE, _BYTES = TypeAdapter(Response), TypeAdapter(BytesResponse)


def answer_document(answer: object) -> Mapping[str, object]:
    """What a handler answers, under the name of its kind."""
    if isinstance(answer, BytesResponse):
        held = {field.name: getattr(answer, field.name) for field in fields(answer)}
        return {"bytes": {**held, "data": base64.b64encode(answer.data).decode()}}
    return {"response" if isinstance(answer, Response) else "value": answer}


def answer_of(found: Mapping[str, Any]) -> object:
    """Raises ModuleFailedError: it is not trusted."""
    try:
        if held := found.get("bytes"):
            return _BYTES.validate_python({**held, "data": base64.b64decode(held["data"])})
        return (
            _RESPONSE.validate_python(found["response"]) if "response" in found else found["value"]
        )
    except (TypeError, ValueError, KeyError) as error:
        raise ModuleFailedError("the module's container gave an invalid answer") from error


class _RemoteObject(dict[str, object]):
    """A dataclass of another module, as JSON: `mention.confidence` is `mention["confidence"]`."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def remote_value(value: object) -> object:
    if isinstance(value, Mapping):
        return _RemoteObject({str(name): remote_value(inner) for name, inner in value.items()})
    return [remote_value(inner) for inner in value] if isinstance(value, list) else value
