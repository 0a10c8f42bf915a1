"""Bodies of requests, and what a handler answers and streams, on the pipe."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from parachuted.errors import ModuleFailedError
from parachuted.modules.hosting.framing import AskFrame
from parachuted.modules.results import BytesResponse, FileResponse, Response
from parachuted.modules.streams import OPENED, BodySource, PartHead, ServerEvent, StreamOpened

READ, NEXT_PART = "body.read", "body.part"
_MOST = 8  # of the asks that a process may have open, so that slow senders do not take all
_PART: TypeAdapter[PartHead] = TypeAdapter(PartHead)


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    body: int


class OpenBodies:
    """The bodies that a module's process may read now, in the daemon."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._numbers = itertools.count(1)
        self._open: dict[int, BodySource] = {}

    @contextmanager
    def opened(self, source: BodySource | None) -> Iterator[Mapping[str, object] | None]:
        """What the process gets of it, while it may read it. Raises ModuleFailedError where too
        many are open.
        """
        if source is None:
            yield None
            return
        if len(self._open) >= _MOST:
            raise ModuleFailedError(
                f"the module {self._module} reads {_MOST} bodies of requests already; try again "
                "later"
            )
        number = next(self._numbers)
        self._open[number] = source
        try:
            yield {"body": number, "content_type": source.content_type, "size": source.size}
        finally:
            del self._open[number]

    async def serve(self, ask: AskFrame) -> object:
        """Answer an ask of the process. Raises ModuleFailedError for a body that is not open."""
        try:
            source = self._open.get(_Asked.model_validate(ask.body).body)
        except ValidationError as error:
            raise ModuleFailedError("the module's request is invalid") from error
        if source is None:
            raise ModuleFailedError("the body of a request can be read until it is answered")
        if ask.verb == READ:
            return await source.read()
        part = await source.next_part()
        return None if part is None else _PART.dump_python(part)


class RemoteBody:
    """The same body in the module's process."""

    def __init__(
        self,
        ask: Callable[[str, Mapping[str, object]], Awaitable[object]],
        head: Mapping[str, object],
    ) -> None:
        self._ask, self._number = ask, head["body"]
        self.content_type = str(head["content_type"])
        self.size = head["size"] if isinstance(head["size"], int) else None

    async def read(self) -> bytes:
        piece = await self._ask(READ, {"body": self._number})
        if not isinstance(piece, bytes):
            raise ModuleFailedError("the daemon answered with something other than a body")
        return piece

    async def next_part(self) -> PartHead | None:
        part = await self._ask(NEXT_PART, {"body": self._number})
        return None if part is None else _PART.validate_python(part)


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _File(_Said):
    path: str
    filename: str | None


class _Bytes(_Said):
    content_type: str
    filename: str | None


class _Response(_Said):
    status: int
    body: object
    headers: dict[str, str]


class _Event(_Said):
    data: object
    event: str | None
    id: str | None


def answer_of(result: object) -> dict[str, object]:
    """What `InProcessHost.call` returned, for the pipe."""
    if isinstance(result, Response):
        return {
            "response": {
                "status": result.status,
                "body": result.body,
                "headers": dict(result.headers),
            }
        }
    if isinstance(result, FileResponse):
        return {"file": {"path": result.path, "filename": result.filename}}
    if isinstance(result, BytesResponse):
        return {"bytes": {"content_type": result.content_type, "filename": result.filename}}
    return {"value": result}


def result_of(answer: object, data: bytes = b"") -> object:
    """The same again, with the bytes of a BytesResponse. Raises ModuleFailedError: the process is
    not trusted.
    """
    kind, said = _said(answer)
    try:
        if kind == "value":
            return said
        if kind == "response":
            return Response(**dict(_Response.model_validate(said)))
        if kind == "file":
            return FileResponse(**dict(_File.model_validate(said)))
        if kind == "bytes":
            return BytesResponse(data=data, **dict(_Bytes.model_validate(said)))
    except (ValidationError, ValueError) as error:
        raise ModuleFailedError(f"the answer is invalid: {error}") from error
    raise ModuleFailedError("the module's process gave an invalid answer")


def item_answer(item: object) -> dict[str, object]:
    if isinstance(item, ServerEvent):
        return {"event": {"data": item.data, "event": item.event, "id": item.id}}
    return {"opened": True} if isinstance(item, StreamOpened) else {"item": item}


def item_of(answer: object) -> object:
    """The same again. Raises ModuleFailedError."""
    kind, said = _said(answer)
    if kind == "item":
        return said
    if kind == "opened":
        return OPENED
    try:
        if kind == "event":
            return ServerEvent(**dict(_Event.model_validate(said)))
    except (ValidationError, ValueError) as error:
        raise ModuleFailedError(f"the event of a stream is invalid: {error}") from error
    raise ModuleFailedError("the item of the module's stream is invalid")


def has_bytes(answer: object) -> bool:
    """Whether bytes belong to it."""
    return _said(answer)[0] == "bytes"


def _said(answer: object) -> tuple[str, object]:
    if isinstance(answer, dict) and len(answer) == 1:
        return next((str(kind), said) for kind, said in answer.items())
    return "", None
