"""What a handler answers and what it streams, on the pipe: JSON that says of which kind it is. The
bytes of a BytesResponse follow as a stream.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from parachuted.errors import ModuleFailedError
from parachuted.modules.results import BytesResponse, FileResponse, Response
from parachuted.modules.streams import OPENED, ServerEvent, StreamOpened


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
        raise ModuleFailedError(f"the answer is none: {error}") from error
    raise ModuleFailedError("the answer of the module's process is none")


def item_answer(item: object) -> dict[str, object]:
    """An item of a stream, for the pipe."""
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
        raise ModuleFailedError(f"the event of a stream is none: {error}") from error
    raise ModuleFailedError("the item of the module's stream is none")


def has_bytes(answer: object) -> bool:
    """Whether bytes belong to it."""
    return _said(answer)[0] == "bytes"


def _said(answer: object) -> tuple[str, object]:
    if isinstance(answer, dict) and len(answer) == 1:
        return next((str(kind), said) for kind, said in answer.items())
    return "", None
