"""What crosses between a module in a container and the daemon, as JSON at both ends. What it may
ask for is declared once: by the annotations of its services' methods.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from types import GenericAlias, MappingProxyType
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticSerializationError

from parachuted import errors
from parachuted.access.notes import Note, NoteLink, NoteSection, Upload
from parachuted.errors import ConflictError, ModuleFailedError
from parachuted.modules.module_state import StateAccess
from parachuted.modules.outside_folders import FolderAccess
from parachuted.modules.results import BytesResponse, Response, to_json
from parachuted.modules.scheduling import ScheduleAccess
from parachuted.modules.services import (
    ActivityAccess,
    CurrentCall,
    RunAccess,
    Services,
)
from parachuted.runs.granted_vault import GrantedVault
from parachuted.texts.json_limits import check_json
from parachuted.texts.mistakes import mistakes_in
from parachuted.vault import printable

API_SOCKET = "api.sock"
CALL_HEADER = "X-Parachute-Call"
SERVICES = "/api/modules/{name}/services/{service}"
LARGEST_BODY = 16 << 20
_MOST_MISTAKES, _MOST_TEXT = 5, 20_000
_STRICT = ConfigDict(extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64")
_BASE64 = ConfigDict(extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

Sent = TypeVar("Sent")


def read_sent(kind: TypeAdapter[Sent], data: bytes) -> Sent:
    """Raises ModuleFailedError: who sends it is not trusted."""
    try:
        check_json(data)
        return kind.validate_json(data)
    except ValueError as error:
        mistakes = mistakes_in(error) if isinstance(error, ValidationError) else [str(error)]
        says = "; ".join(mistakes[:_MOST_MISTAKES])
        raise ModuleFailedError(f"what was sent is invalid: {says}") from error


def _dump_note(note: Note) -> Mapping[str, object]:
    """All of it: the other end has no index to look links up in."""
    found = {field.name: getattr(note, field.name) for field in fields(note)}
    return {**found, "sections": note.sections, "links": note.links}


def _note_fields(sent: Mapping[str, Any]) -> Mapping[str, object]:
    found = dict(sent)
    sections = tuple(NoteSection(**section) for section in found.pop("sections"))
    links = tuple(NoteLink(**link) for link in found.pop("links"))
    return {**found, "find_sections": lambda _text: sections, "find_links": lambda _text: links}


WholeNote = Annotated[Note, BeforeValidator(_note_fields), PlainSerializer(_dump_note)]


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
    def _result(self) -> TypeAdapter[tuple[Any]]:
        hint: Any = self._hints["return"]
        alone: Any = GenericAlias(tuple, (WholeNote if hint is Note else hint,))
        return TypeAdapter(alone, config=_BASE64)

    def dump_body(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> bytes:
        """Raises TypeError, also for what JSON has not."""
        body = self._body.model_construct(**self._signature.bind(*args, **kwargs).arguments)
        try:
            return body.model_dump_json(exclude_unset=True, warnings=False).encode()
        except PydanticSerializationError as error:
            raise TypeError(str(error)) from error

    def load_body(self, body: bytes) -> inspect.BoundArguments:
        """Raises ModuleFailedError: who sends it is not trusted."""
        model = read_sent(TypeAdapter(self._body), body)
        return self._signature.bind(**dict(model))

    def dump_result(self, result: object) -> bytes:
        value = to_json(result) if self._hints["return"] is object else result
        return self._result.dump_json((value,), warnings=False)

    def load_result(self, answer: bytes) -> Any:  # noqa: ANN401  what the annotation says
        return self._result.validate_json(answer)[0]


class OwnServices:
    """What a module asks of its services that is no method of an access."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.publish, self.suggest = services.publish, services.suggest

    async def current_call(self) -> CurrentCall:
        return self._services.current_call

    async def has_interface(self, name: str) -> bool:
        return self._services.get_interface(name) is not None

    async def interface(
        self, name: str, method: str, args: list[object], kwargs: dict[str, object]
    ) -> object:
        found = self._services.get_interface(name)
        function = None if method.startswith("_") else getattr(found, method, None)
        if not callable(function):
            raise ModuleFailedError(f"no module provides {name[:80]} with a method {method[:80]}")
        return await function(*args, **kwargs)

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
    {name: ServiceMethod(getattr(Services, name)) for name in ("publish", "suggest")}
    | dict(_methods_of(OwnServices))
    | {
        f"{access}.{name}": method
        for access, declared in ACCESSES.items()
        for name, method in _methods_of(declared)
    }
)
"""All that a module may ask for, such as `vault.read`."""

_APART_ERRORS = {errors.ParachuteError, errors.ConfigError, ConflictError}
_BY_NAME: Mapping[str, type[Exception]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (TypeError, ValueError, *vars(errors).values())
        if isinstance(kind, type) and issubclass(kind, Exception) and kind not in _APART_ERRORS
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, config={**_BASE64, "extra": "ignore"})
class SentError:
    """Only errors that authors or callers are promised keep their class; the texts are those of a
    ConflictError.
    """

    error: str
    message: str
    base: bytes | None = None
    ours: bytes = b""
    theirs: bytes = b""
    is_known: bool = True

    @classmethod
    def of(cls, error: BaseException) -> SentError:
        message = (str(error) or type(error).__name__)[-_MOST_TEXT:]  # the end says what it was
        names = [kind.__name__ for kind in type(error).__mro__]
        name = next((name for name in names if name in _BY_NAME), None)
        if isinstance(error, ConflictError):
            texts = {side: getattr(error, side) for side in ("base", "ours", "theirs")}
            return cls(error=names[0], message=message, **texts, is_known=error.is_known)
        if name is None:
            return cls(error="ModuleFailedError", message=f"{names[0]}: {message}")
        return cls(error=name, message=message)

    def exception(self) -> Exception:
        message = self.message[-_MOST_TEXT:]
        if self.base is None:
            return _BY_NAME.get(self.error, ModuleFailedError)(message)
        return ConflictError(
            message, base=self.base, ours=self.ours, theirs=self.theirs, is_known=self.is_known
        )


ERRORS: TypeAdapter[SentError] = TypeAdapter(SentError)


@dataclass(frozen=True, slots=True, kw_only=True, config=_BASE64)
class ModuleLine:
    """A line of the program in a container: the answer to a `call`, which is one of four, or a
    `text` for the module's log. `problem` is what the module's is then.
    """

    call: str = ""
    value: Any = None
    response: Response | None = None
    file: BytesResponse | None = None
    error: SentError | None = None
    text: str = ""
    level: Annotated[int, Field(ge=logging.DEBUG, le=logging.CRITICAL)] = logging.INFO
    problem: str | None = None

    def result(self) -> object:
        """Raises its error."""
        if self.error is not None:
            raise self.error.exception()
        return self.file or self.response or self.value


LINES: TypeAdapter[ModuleLine] = TypeAdapter(ModuleLine)


class _RemoteObject(dict[str, object]):
    """A dataclass of another module, as JSON: `mention.confidence` is `mention["confidence"]`."""

    def __getattr__(self, name: str) -> object:
        if name not in self:
            raise AttributeError(name)
        return self[name]


def remote_value(value: object) -> object:
    if isinstance(value, Mapping):
        return _RemoteObject({str(name): remote_value(inner) for name, inner in value.items()})
    return [remote_value(inner) for inner in value] if isinstance(value, list) else value
