"""Route: one call of the API, declared: who may make it, what it takes and what it answers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Annotated, TypeAlias, TypeVar
from urllib.parse import parse_qsl

from aiohttp import web
from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from parachuted.access.filter import AccessFilter
from parachuted.api.http.answers import JSON, json_value
from parachuted.audit.chain import EventType
from parachuted.bubbling import watched_beyond
from parachuted.errors import ConflictError, EditRefusedError, NotFoundError
from parachuted.keys import NOWHERE, AccessGrant, Capability, Identity
from parachuted.texts.mistakes import mistakes_in
from parachuted.vault import Requester, Store, VaultPath, printable

IF_MATCH = (
    "The ETag (`hash`) of the text that the change was made from; 409 when another one is "
    "there and the two cannot be merged."
)
ONLY_NEW = "`*`: write only where there is no file yet, else 409."
KNOWN = "ETags that the caller has the content of: 304 when it is one of them."
WRITING = MappingProxyType({"If-Match": IF_MATCH})
CREATING = MappingProxyType({"If-Match": IF_MATCH, "If-None-Match": ONLY_NEW})

_ETAG = re.compile(r'(?:W/)?"([^"]*)"|(\*)|([^\s,"]+)')
_DIGEST = re.compile("[0-9a-f]{64}")
_MOST_DIGITS = 15
SMALL_BODY = 1 << 20


def _path(value: object) -> VaultPath:
    if not isinstance(value, str):
        raise ValueError("should be a text")  # noqa: TRY004  pydantic takes a ValueError for its caller's mistake
    return VaultPath.parse(value)  # whose PathRefusedError passes through pydantic as it is


def _folder(value: object) -> VaultPath:
    if not isinstance(value, str):
        return _path(value)
    return VaultPath("") if value in {"", "."} else _path(value.rstrip("/"))


def _digits(value: object) -> object:
    is_wrong = isinstance(value, str) and not (value.isascii() and value.isdigit())
    if is_wrong or (isinstance(value, str) and len(value) > _MOST_DIGITS):
        raise ValueError("should be a whole number")
    return value


def _text(says: str, **more: object) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "description": says, **more})


_EXAMPLES = ["Projects/garden/AGENTS.md"]
Whole = Annotated[int, BeforeValidator(_digits)]
Path = Annotated[
    VaultPath,
    PlainValidator(_path),
    _text("a file of the vault, relative to it", examples=_EXAMPLES),
]
FolderParameter = Annotated[
    VaultPath, PlainValidator(_folder), _text("a folder of the vault; empty: the vault")
]


class RequestModel(BaseModel):
    """A body or a query. Names may come in either case; unknown ones are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, to_camel(name))
        ),
        defer_build=True,  # most calls are not made between two starts of the daemon
    )


class AppRequestModel(RequestModel):
    """What the app sends: unknown names are ignored."""

    model_config = ConfigDict(extra="ignore")


class NoParameters(RequestModel): ...


def refuse_watching_beyond(
    grant: AccessGrant,
    store: Store,
    path: VaultPath,
    edited: Callable[[bytes], bytes],
    *,
    was: VaultPath | None = None,
) -> None:
    """Raises EditRefusedError when the edited note watches what `grant` does not see.

    A list that reached further before, where the note `was`, may stay, if it leaves out no less.
    Blocks on the disk.
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


_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaBody:
    """A body other than JSON. `item`: the shape of each part of a stream."""

    type: str
    says: str
    item: object = None


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A JSON object that has a value under that name, and beside it perhaps its `count`."""

    name: str
    item: object
    is_counted: bool = False


@dataclass(slots=True, kw_only=True)
class ApiCall:
    """One request: who asks, which files exist for them, and what they sent.

    `touched` and `para_ids` are for the audit, `status` and `headers` for the answer; `is_valid`
    says whether the caller still may.
    """

    request: web.Request
    route: Route
    identity: Identity
    files: AccessFilter
    requester: Requester
    is_valid: Callable[[], bool] = lambda: True
    touched: list[str] = field(default_factory=list, init=False)
    para_ids: list[str] = field(default_factory=list, init=False)
    status: int = field(default=200, init=False)
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": JSON}, init=False)

    @property
    def id(self) -> str:
        return self.requester.request_id

    @property
    def grant(self) -> AccessGrant:
        return self.files.grant

    def answer(self, body: bytes) -> web.Response:
        return web.Response(body=body, status=self.status, headers=self.headers)

    def tag(self, digest: str | None) -> None:
        self.headers["ETag"] = f'"{digest}"'

    @property
    def reading(self) -> AccessGrant:
        """What of the vault they may read, wherever they are, and so may have notes watch."""
        return self.identity.grant("vault", "read") or NOWHERE

    @property
    def writing(self) -> AccessGrant:
        return self.identity.grant("vault", "write") or NOWHERE

    def shown(self, error: Exception) -> Exception:
        """The error of a write of files, without texts and details for who may not read them all.

        One that only says that the note is unknown stays. Blocks on the disk.
        """
        is_write = (self.route.module, self.route.capability) == ("vault", "write")
        touched = [*map(VaultPath, self.touched)] if is_write else []
        if all(map(self._reads, touched)):
            return error
        if isinstance(error, ConflictError):
            return web.HTTPConflict(text=error.message)
        if all(self._reads(path) for path in touched if _sees(self.files, path)):
            return error
        if isinstance(error, NotFoundError):
            return web.HTTPNotFound(
                text="note or section not found; a key that may read the note gets the details"
            )
        if isinstance(error, EditRefusedError):
            return web.HTTPUnprocessableEntity(
                text="the note cannot be edited so; a key that may read the note gets the reason"
            )
        return error

    def _reads(self, path: VaultPath) -> bool:
        return _sees(AccessFilter(self.files.root, self.reading), path)

    def named(self, name: str) -> str:
        return self.request.match_info[name]

    def query(self, model: type[_Model]) -> _Model:
        """The query, checked. Raises HTTPBadRequest and PathRefusedError."""
        text = self.request.rel_url.raw_query_string
        return _checked(model, _one_or_list(text, model)) if text else _empty(model)

    async def body(self, model: type[_Model]) -> _Model:
        """The JSON object in the body, checked; no body is an empty one. Raises as `query`."""
        return _checked(model, json_object(await self.content()))

    async def content(self) -> bytes:
        """The whole body. 413 once it is larger than the route takes, whatever was announced."""
        return (
            b"".join([chunk async for chunk in self.chunks()]) if self.request.body_exists else b""
        )

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces. 401 after the last one when the key has ended."""
        size, most = 0, self.route.largest_body
        while chunk := await self.request.content.readany():
            size += len(chunk)
            if size > most:
                raise web.HTTPRequestEntityTooLarge(max_size=most, actual_size=size)
            yield chunk
        if not self.is_valid():
            raise web.HTTPUnauthorized(
                text="the key was revoked or expired while the body came; nothing was done",
                headers={"WWW-Authenticate": "Bearer"},
            )


def etags(header: str | None) -> list[str]:
    """The digests in such a header, or `*`."""
    return ["".join(found) for found in _ETAG.findall(header or "")]


def is_known(request: web.Request, digest: str) -> bool:
    header = request.headers.get("If-None-Match")
    return header is not None and not {digest, "*"}.isdisjoint(etags(header))


def expected(call: ApiCall, *, any_will_do: bool = False) -> str | None:
    """The digest in `If-Match`; None without one, and where `any_will_do` for `*`. Else 400."""
    header = call.request.headers.get("If-Match")
    if header is None:
        return None
    found = etags(header)
    if any_will_do and found == ["*"]:
        return None
    if len(found) == 1 and _DIGEST.fullmatch(found[0]):
        return found[0]
    raise web.HTTPBadRequest(
        text="If-Match takes one ETag, exactly as the API returned it"
        f"{', or *' if any_will_do else ''}"
    )


def only_new(call: ApiCall) -> bool:
    header = call.request.headers.get("If-None-Match")
    if header is not None and etags(header) != ["*"]:
        raise web.HTTPBadRequest(
            text="If-None-Match of a write may only be *, which is for a file that must not be "
            "there yet"
        )
    return header is not None


RouteHandler: TypeAlias = Callable[[ApiCall], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A declaration; `path` is aiohttp's pattern.

    `capability` None: open to anyone. `answers`: by status, a type, `MediaBody` or `Wrapped`.
    `names` and `headers` say what each means; `uploads`: a body that is taken as it is.
    `for_path_keys`: a key with paths may make the call, and the
    handler keeps within `ApiCall.files`.
    """

    method: str
    path: str
    module: str
    capability: Capability | None
    handle: RouteHandler
    summary: str = ""
    query: type[BaseModel] = NoParameters
    body: type[BaseModel] = NoParameters
    answers: Mapping[int, object] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    uploads: MediaBody | None = None
    largest_body: int = SMALL_BODY
    has_head: bool = True
    for_path_keys: bool = False
    recorded_as: EventType = "api_call"


def handler_of(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """What the router finds. It is never called: the middleware answers in its place."""
    return partial(_unreached, route)


async def _unreached(route: Route, request: web.Request) -> web.StreamResponse:
    raise web.HTTPInternalServerError(
        text=f"{request.method} {route.path} was reached without passing the middleware"
    )


def matched_route(request: web.Request) -> Route | None:
    handler = request.match_info.handler
    return handler.args[0] if isinstance(handler, partial) else None


def _sees(files: AccessFilter, path: VaultPath) -> bool:
    try:
        files.find(path)
    except NotFoundError:
        return False
    return True


@lru_cache(maxsize=128)
def _empty(model: type[_Model]) -> _Model:
    """What an empty query says; models are values, so one serves all."""
    return _checked(model, {})


def _checked(model: type[_Model], document: Mapping[str, object]) -> _Model:
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise web.HTTPBadRequest(text="; ".join(mistakes_in(error)[:8])) from error


def json_object(data: bytes) -> Mapping[str, object]:
    """The object in the body; empty for no bytes. 400 for anything else."""
    try:
        document = json_value(data or b"{}")
    except ValueError as error:
        raise web.HTTPBadRequest(text="the body is not JSON") from error
    if not isinstance(document, dict):
        raise web.HTTPBadRequest(text="the body must be a JSON object")
    return document


def query_values(query: str, errors: str = "surrogateescape") -> dict[str, list[str]]:
    """The values in a query, by name; bytes that are not UTF-8 as `os.fsdecode` has them."""
    found: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors=errors, max_num_fields=1_000)
    except ValueError as error:
        raise web.HTTPBadRequest(text="the query holds too many names") from error
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _one_or_list(query: str, model: type[BaseModel]) -> dict[str, object]:
    lists = set[object]()
    for name, info in model.model_fields.items():
        if "list" in str(info.annotation) or "tuple" in str(info.annotation):
            alias = info.validation_alias
            lists |= {*alias.choices} if isinstance(alias, AliasChoices) else {alias or name}
    found = query_values(query)
    twice = [name for name, values in found.items() if len(values) > 1 and name not in lists]
    if twice:
        raise web.HTTPBadRequest(text=f"{twice[0][:80]} stands in the query more than once")
    return {name: values if name in lists else values[0] for name, values in found.items()}
