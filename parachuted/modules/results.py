"""What a route takes and gives: JSON, bodies, streams of events; and how to read item by item what
may hold anything, and to write where others write.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import PurePath
from typing import TypeAlias, TypeVar

import orjson

from parachuted.errors import BodyTooLargeError, ConflictError, ModuleFailedError, ParachuteError
from parachuted.texts.times import moment_text

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Raw = TypeVar("Raw")
Value = TypeVar("Value")
_OPTIONS = (
    orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
)
_LONGEST_PAUSE_S = 0.2
_EXPECTED = (ParachuteError, ValueError, OverflowError, RecursionError, OSError)
MOST_BYTES = 16 << 20
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9][a-z0-9.+-]{0,80}(; ?charset=[a-zA-Z0-9-]{1,40})?")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = re.compile(
    r"content-(type|length|encoding|range)|connection|keep-alive|transfer-encoding|trailer|upgrade|date|server|access-control-.*"
    r"|x-content-type-options",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """A response with a status other than 200, or with its own headers.

    The `body` is sent as JSON.
    """

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 200 <= self.status <= 599:  # noqa: PLR2004  what HTTP has for an answer
            raise ValueError(f"{self.status} is not an HTTP status: use 200 to 599")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or _OURS.fullmatch(name):
                raise ValueError(
                    f"the header {name!r} is not a header's name, or is the daemon's own: it says "
                    "how an answer is sent and read"
                )
            if any(ord(character) < 32 or ord(character) == 127 for character in f"{name}{value}"):  # noqa: PLR2004  ASCII's controls
                raise ValueError(f"the header {name!r} holds a control character")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, as `parachute doctor` shows it: what, in which file of the vault,
    on which line of it (the first is 1), and what to do.
    """

    problem: str
    advice: str = ""
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesResponse:
    """Bytes, at most 16 MB. `filename`: they are to be saved, under that name.

    What a browser could run is only ever saved.
    """

    data: bytes
    content_type: str = "application/octet-stream"
    filename: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes) or len(self.data) > MOST_BYTES:
            raise ValueError(f"a BytesResponse is bytes, at most {MOST_BYTES:,}")
        if not _MEDIA_TYPE.fullmatch(self.content_type):
            raise ValueError(f"{self.content_type[:80]!r} is not a media type such as image/png")


def to_json(value: object) -> Json:
    """The value in plain JSON: dataclasses and models as objects, times in ISO 8601, paths as text,
    and None for a number that is infinite or none. Raises ModuleFailedError.
    """
    found: Json = orjson.loads(dump_json(value))
    return found


def dump_json(value: object) -> bytes:
    """The same as text, in one line. Raises ModuleFailedError."""
    try:
        return orjson.dumps(value, _plain, _OPTIONS)
    except TypeError as error:  # orjson's, of which the cause is ours
        raise ModuleFailedError(f"this has no form in JSON: {error.__cause__ or error}") from error


def _plain(value: object) -> object:  # noqa: PLR0911  one for each kind
    if isinstance(value, date | time):
        return moment_text(value)
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # a pydantic model, without importing pydantic for the modules that have none
    dump = getattr(type(value), "model_dump", None)
    if callable(dump):
        return dump(value, mode="json")
    if isinstance(value, AbstractSet):
        return sorted(value, key=repr)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return list(value)
    raise TypeError(f"a {type(value).__name__}; return dicts, lists, texts, numbers or dataclasses")


def read_each(
    items: Iterable[tuple[str, Raw]], read: Callable[[Raw], Value]
) -> tuple[list[Value], list[Finding]]:
    """What `read` makes of each item, and a finding for each that it raises for.

    An item is the path that a finding names, and what `read` is given.
    """
    values, findings = list[Value](), list[Finding]()
    for path, raw in items:
        with reading(path, findings):
            values.append(read(raw))
    return values, findings


@contextmanager
def reading(path: str, findings: list[Finding], line: int | None = None) -> Iterator[None]:
    """Turn what the block raises into a finding about that file, and go on after the block.

    `line` is where in the file the block reads; where the error knows better, its line holds. An
    error that no content explains is a mistake of the code, which the log has with its traceback.
    """
    try:
        yield
    except Exception as error:  # whatever it is, the other items are read
        problem = _words_of(error)
        if not (isinstance(error, _EXPECTED) or type(error).__module__.startswith("yaml.")):
            logging.getLogger(__name__).exception("%s could not be read", path)
            problem = f"it could not be read, by a mistake of the module: {problem} (see its log)"
        findings.append(Finding(path=path, line=_line_of(error) or line, problem=problem))


async def retry_on_conflict(write: Callable[[], Awaitable[Value]], attempts: int = 8) -> Value:
    """What `write`, which reads and then writes, returns once no one else writes in between.

    Raises ConflictError after so many attempts.
    """
    for attempt in range(attempts - 1):
        with suppress(ConflictError):
            return await write()
        await asyncio.sleep(min(attempt / 100, _LONGEST_PAUSE_S))
    return await write()


def _words_of(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return f"it is not {error.encoding.upper()} text"
        case RecursionError():
            return "it is nested too deeply"
        case OSError() if error.strerror:
            return error.strerror
        case KeyError():
            return repr(error)
        case _:
            return " ".join(str(error).split()) or type(error).__name__


def _line_of(error: BaseException | None) -> int | None:
    """The line, counted from 1, where the text of JSON or YAML went wrong, or was no text."""
    while error is not None:
        mark, line = getattr(error, "problem_mark", None), getattr(error, "lineno", None)
        if mark is not None:
            return int(mark.line) + 1
        if isinstance(line, int) and isinstance(error, ValueError):
            return line
        if isinstance(error, UnicodeDecodeError):
            return error.object.count(b"\n", 0, error.start) + 1
        error = error.__cause__
    return None


_READ = 1 << 20


class Body:
    """The body of a request, in pieces: `async for piece in body`.

    `content_type` is the media type that the caller named, or an empty text; `size` how many bytes
    it announced, None where it did not.
    """

    def __init__(
        self, pieces: AsyncIterator[bytes], content_type: str = "", size: int | None = None
    ) -> None:
        self._pieces, self.content_type, self.size = pieces, content_type, size

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def read(self, limit: int = _READ) -> bytes:
        """All of it. Raises BodyTooLargeError when it is more than `limit` bytes."""
        found = bytearray()
        async for piece in self:
            found += piece
            if len(found) > limit:
                raise BodyTooLargeError(f"it is larger than {limit:,} bytes")
        return bytes(found)


def body_in_memory(content_type: str, data: bytes, piece: int = _READ) -> Body:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), piece):
            yield data[start : start + piece]

    return Body(pieces(), content_type, len(data))


_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event: JSON, with a name and an id if it has them.

    Both are letters, digits and `_.:-`, at most 200.
    """

    data: object = None
    event: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        for name in (self.event, self.id):
            if name is not None and not _NAME.fullmatch(name):
                raise ValueError(
                    f"{name[:80]!r} is not a name or id of an event: letters, digits and _.:-, at "
                    "most 200"
                )
