"""Route: one call of the API, declared: who may make it, what it takes and what it answers.

Nothing is served that is not declared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from parachuted.access.filter import AccessFilter
from parachuted.access.run_records import RunFilter
from parachuted.api.http.answers import json_value
from parachuted.audit.chain import EventType
from parachuted.bubbling import watched_beyond
from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.history import RefuseText
from parachuted.keys import NOWHERE, AccessGrant, Capability, Identity
from parachuted.vault import Caller, Store, VaultPath, printable

_MOST_DIGITS = 15


def _path(value: object) -> VaultPath:
    if not isinstance(value, str):
        raise ValueError("should be a text")  # noqa: TRY004  pydantic takes a ValueError for its caller's mistake
    return VaultPath.parse(value)  # whose PathRefusedError passes through pydantic as it is


def _folder(value: object) -> VaultPath:
    return (
        VaultPath("")
        if isinstance(value, str) and value in {"", "."}
        else _path(value.rstrip("/") if isinstance(value, str) else value)
    )


def _digits(value: object) -> object:
    if isinstance(value, str) and not (
        value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS
    ):
        raise ValueError("should be a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_digits)]


Path = Annotated[
    VaultPath,
    PlainValidator(_path),
    WithJsonSchema(
        {
            "type": "string",
            "description": "a file of the vault, relative to it",
            "examples": ["Projects/garden/AGENTS.md"],
        }
    ),
]


FolderParameter = Annotated[
    VaultPath,
    PlainValidator(_folder),
    WithJsonSchema({"type": "string", "description": "a folder of the vault; empty: the vault"}),
]


class RequestModel(BaseModel):
    """A body or a query.

    Names may come in either case; unknown names are refused, so that a misspelled one is not
    taken for absent.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # most calls are not made between two starts of the daemon
    )


class AppRequestModel(RequestModel):
    """What the app sends: unknown names are ignored."""

    model_config = ConfigDict(extra="ignore")


class NoParameters(RequestModel): ...


def sentence_of(error: ValidationError) -> str:
    found = []
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part)[:80] for part in one["loc"])
        says = one["msg"].removeprefix("Value error, ")
        found.append(f"{where}: {says}" if where else says)
    return "; ".join(found[:8])


def readable(identity: Identity) -> AccessGrant:
    """What of the vault the caller may read, and so may have notes watch."""
    return identity.grant("vault", "read") or NOWHERE


def refuse_watching_beyond(
    grant: AccessGrant,
    store: Store,
    path: VaultPath,
    edited: Callable[[bytes], bytes],
    *,
    was: VaultPath | None = None,
) -> None:
    """Raises EditRefusedError when the note, once edited, watches what `grant` does not see and it
    did not watch already.

    A list that reached further before, where the note `was`, may stay, as long as it leaves out no
    less than it did. Blocks on the disk.
    """
    if grant.alternatives is None:
        return
    try:
        before = store.read(was or path).data
    except NotFoundError:
        before = b""
    new = watched_beyond(grant, path, before, edited(before), was=was)
    if new is not None:
        raise EditRefusedError(
            f"{printable(path)} may not watch {printable(new)} by this key, which may not read "
            "all of that"
        )


def refusing_to_watch_beyond(grant: AccessGrant, store: Store) -> RefuseText:
    """The same of a text that is to come back, by an undo or a restore."""
    return lambda path, text, was: refuse_watching_beyond(
        grant, store, path, lambda _now: text, was=was
    )


_Model = TypeVar("_Model", bound=BaseModel)
SMALL_BODY = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaBody:
    """A body other than JSON. `item`: the shape of each part of a stream."""

    type: str
    says: str
    item: object = None


@dataclass(slots=True, kw_only=True)
class ApiCall:
    """One request on its way: who asks, what they may touch here, and what they sent.

    `touched` and `para_ids` are for the audit.
    """

    request: web.Request
    route: Route
    identity: Identity
    grant: AccessGrant
    sight: AccessFilter
    caller: Caller
    touched: list[str] = field(default_factory=list)
    para_ids: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        return self.caller.request_id

    @property
    def reading(self) -> AccessGrant:
        """What of the vault they may read, wherever they are."""
        return readable(self.identity)

    @property
    def writing(self) -> AccessGrant:
        """What of the vault they may write, wherever they are."""
        return self.identity.grant("vault", "write") or NOWHERE

    @property
    def runs(self) -> RunFilter:
        return RunFilter(self.sight, self.reading)

    def conflict(self, error: ConflictError, *paths: VaultPath) -> ConflictError | web.HTTPConflict:
        """The error as the caller may know it: to write is not to read, so the texts are for those
        who may read all of these, links followed.
        """
        reading = AccessFilter(self.sight.root, self.reading)
        return (
            error
            if all(self._sees(reading, path) for path in paths)
            else web.HTTPConflict(text=error.message)
        )

    def refusal(self, error: NotFoundError | EditRefusedError, path: VaultPath) -> Exception:
        """The error as the caller may know it: what an edit finds in the note, such as its
        headings, is for those who may read it.
        """
        if not self._sees(self.sight, path) or self._sees(
            AccessFilter(self.sight.root, self.reading), path
        ):
            return error  # it only says that the note is unknown, or they may read it
        if isinstance(error, NotFoundError):
            return web.HTTPNotFound(
                text="note or section not found; a key that may read the note gets the details"
            )
        return web.HTTPUnprocessableEntity(
            text="the note cannot be edited so; a key that may read the note gets the reason"
        )

    @staticmethod
    def _sees(sight: AccessFilter, path: VaultPath) -> bool:
        try:
            sight.find(path)
        except NotFoundError:
            return False
        return True

    def named(self, name: str) -> str:
        return self.request.match_info[name]

    def query(self, model: type[_Model]) -> _Model:
        """The query, checked. 400 when it is wrong, or a name that may stand once stands twice;
        raises PathRefusedError.
        """
        self._must_be_declared(model, self.route.query)
        text = self.request.rel_url.raw_query_string
        return _checked(model, _pairs(text, model)) if text else _unasked(model)

    async def body(self, model: type[_Model]) -> _Model:
        """The JSON object in the body, checked; none is an empty one. 400 when it is wrong; raises
        PathRefusedError.
        """
        self._must_be_declared(model, self.route.body)
        try:
            document = json_value(await self.content() or b"{}")
        except ValueError as error:
            raise web.HTTPBadRequest(text="the body is not JSON") from error
        if not isinstance(document, dict):
            raise web.HTTPBadRequest(text="the body must be a JSON object")
        return _checked(model, document)

    async def content(self) -> bytes:
        """The body as it is. 413 once it is larger than the route takes, whatever was announced."""
        return (
            b"".join([chunk async for chunk in self.chunks()]) if self.request.body_exists else b""
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        """The same in the pieces it comes in."""
        size, most = 0, self.route.largest_body
        while chunk := await self.request.content.readany():
            size += len(chunk)
            if size > most:
                raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=size)
            yield chunk

    def _must_be_declared(self, model: type[BaseModel], declared: type[BaseModel]) -> None:
        if model is not declared:
            raise TypeError(
                f"{self.route.method} {self.route.path} declares {declared.__name__}, not "
                f"{model.__name__}"
            )


RouteHandler: TypeAlias = Callable[[ApiCall], Awaitable[web.StreamResponse]]
Reach: TypeAlias = Literal["paths", "beyond", "nothing"]
"""What a route touches.

`paths`: no more than `ApiCall.sight` and `ApiCall.grant` allow, which its handler sees to.
`beyond`: what paths do not bound, such as code, settings and the audit, so it takes a grant without
paths. `nothing`: it says nothing of notes and changes nothing.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A declaration.

    `capability` None: open to anyone who gets this far. `answers`: by status, a type for pydantic
    to describe, or Media.

    `reach` decides whether a key for some paths may make the call; it has no default, so that a new
    route says it. `recorded_as` is what the audit calls a call of it.

    `path` is aiohttp's pattern. `largest_body` is in bytes. Names that stand in the path are texts
    unless `names` says more of them. `headers`: those it reads, and what they mean; `uploads`: a
    body that is taken as it is; `takes_form`: a multipart body; `errors`: statuses that few routes
    answer.
    """

    method: str
    path: str
    module: str
    capability: Capability | None
    reach: Reach
    summary: str
    handle: RouteHandler
    query: type[BaseModel] = NoParameters
    body: type[BaseModel] = NoParameters
    answers: Mapping[int, object] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    uploads: MediaBody | None = None
    errors: tuple[int, ...] = ()
    largest_body: int = SMALL_BODY
    has_head: bool = True
    takes_form: bool = False
    recorded_as: EventType = "api_call"

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Never reached: the front answers in its place."""
        raise web.HTTPInternalServerError(
            text=f"{request.method} {self.path} was reached without passing the front"
        )


@lru_cache(maxsize=128)
def _unasked(model: type[_Model]) -> _Model:
    """What an empty query says; models are values, so one serves all."""
    return _checked(model, {})


def _checked(model: type[_Model], document: Mapping[str, object]) -> _Model:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise web.HTTPBadRequest(text=sentence_of(error)) from error


def _pairs(query: str, model: type[BaseModel]) -> dict[str, object]:
    """Bytes that are not UTF-8, as names of files may hold, come as `os.fsdecode` gives them."""
    if not query:
        return {}
    lists = {
        name
        for name, info in model.model_fields.items()
        if "list" in str(info.annotation) or "tuple" in str(info.annotation)
    }
    lists |= {
        info.alias for name, info in model.model_fields.items() if name in lists and info.alias
    }
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="surrogateescape", max_num_fields=1_000
        )
    except ValueError as error:
        raise web.HTTPBadRequest(text="the query holds too many names") from error
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    twice = [name for name, values in found.items() if len(values) > 1 and name not in lists]
    if twice:
        raise web.HTTPBadRequest(text=f"{twice[0][:80]} stands in the query more than once")
    return {name: values if name in lists else values[0] for name, values in found.items()}
