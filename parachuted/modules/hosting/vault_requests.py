"""Answers what a module host asks of the vault, through the access that holds the module's rights.

The process may be hostile, so its requests are checked like any from outside: known verbs and
fields of the right types.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from parachuted.access.notes import Note
from parachuted.errors import EditRefusedError, ModuleFailedError
from parachuted.modules.hosting.note_codec import (
    MOST_EDITS,
    ChangeBody,
    EditBody,
    change_of,
    edit_of,
    note_to_json,
)
from parachuted.modules.results import to_json
from parachuted.modules.services import VaultAccess
from parachuted.vault import printable

_MOST_FOUND = 200
_MOST_CHANGES = 10_000
_MOST_READ = 200
_MOST_NAMED = 10_000
_MOST_UPLOADS = 8
_MOST_IN_BATCH, _MOST_PARTS = 1_500_000, 8_000  # characters; sections and links
# what still fits into a frame; more than that is not even made ready for one, which takes long
_LARGEST = 6_000_000


class PipeRequestBody(BaseModel):
    """What comes with a request."""

    model_config = ConfigDict(extra="forbid", strict=True)


Asked = TypeVar("Asked", bound=PipeRequestBody)


class _Path(PipeRequestBody):
    path: str


class _Pattern(PipeRequestBody):
    pattern: str


class _Query(PipeRequestBody):
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


class _Notes(PipeRequestBody):
    folder: str
    tag: str | None
    where: dict[str, object] | None
    order: str
    limit: int
    cursor: str | None


class _Paths(PipeRequestBody):
    paths: Annotated[Sequence[str], Field(max_length=_MOST_READ)]


class _Named(PipeRequestBody):
    paths: Annotated[Sequence[str], Field(max_length=_MOST_NAMED)]


class _Nothing(PipeRequestBody):
    pass


class _Move(PipeRequestBody):
    source: str
    target: str


class _Upload(_Path):
    number: int


class _Piece(PipeRequestBody):
    number: int
    data: Annotated[bytes, BeforeValidator(_decoded)]


class _Edit(_Path):
    edits: Annotated[Sequence[EditBody], Field(max_length=MOST_EDITS)]
    base: str | None


class _EditAll(PipeRequestBody):
    changes: Annotated[Sequence[ChangeBody], Field(max_length=_MOST_CHANGES)]
    reason: str


_CALLS: Mapping[str, type[PipeRequestBody]] = MappingProxyType(
    {
        "read": _Path,
        "read_bytes": _Path,
        "exists": _Path,
        "list": _Pattern,
        "scope": _Nothing,
        "readable": _Named,
        "search": _Query,
        "write": _Write,
        "write_bytes": _WriteBytes,
        "create": _Create,
        "append": _Append,
        "set_key": _SetKey,
        "note": _Path,
        "notes": _Notes,
        "links": _Path,
        "backlinks": _Path,
        "read_notes": _Paths,
        "edit": _Edit,
        "edit_all": _EditAll,
        "move": _Move,
        "upload": _Upload,
        "upload_piece": _Piece,
        "delete": _Path,
        "digest": _Path,
        "written_by": _Path,
    }
)
VAULT_VERBS = tuple(_CALLS)
"""All that a module's process can ask of the vault."""


class VaultRequests:
    """Answers one module's requests."""

    def __init__(self, vault: VaultAccess) -> None:
        self._vault = vault
        self._uploads: dict[int, _OpenUpload] = {}

    async def serve(self, verb: str, body: Mapping[str, object]) -> object:
        """Do what is asked; JSON.

        Raises what the vault raises, and ModuleFailedError for a request that is none.
        """
        fields = fields_of(_CALLS[verb], body)
        if verb == "upload":
            return await self._upload(checked(_Upload, body))
        if verb == "upload_piece":
            piece = checked(_Piece, body)
            upload = self._uploads.get(piece.number)
            return upload is not None and await upload.take(piece.data)
        if verb == "read_notes":
            return await self._read_notes(checked(_Paths, body).paths)
        if verb == "edit":
            fields["edits"] = [edit_of(one) for one in checked(_Edit, body).edits]
        if verb == "edit_all":
            fields["changes"] = [change_of(one) for one in checked(_EditAll, body).changes]
        result = await getattr(self._vault, verb)(**fields)
        large = result.text if isinstance(result, Note) else result
        if isinstance(large, bytes | str) and len(large) > _LARGEST:
            raise EditRefusedError(
                f"it is larger than {_LARGEST // 1_000_000} MB, which a module in a process of its "
                "own is not given at once"
            )
        if isinstance(result, Note):
            return note_to_json(result)
        return base64.b64encode(result).decode() if isinstance(result, bytes) else to_json(result)

    async def _upload(self, asked: _Upload) -> object:
        if asked.number in self._uploads or len(self._uploads) >= _MOST_UPLOADS:
            raise ModuleFailedError(f"it has {len(self._uploads)} uploads open already")
        upload = self._uploads[asked.number] = _OpenUpload()
        try:
            return to_json(await self._vault.upload(asked.path, upload.pieces()))
        finally:
            del self._uploads[asked.number]
            upload.end()

    async def _read_notes(self, paths: Sequence[str]) -> object:
        """The first of these notes, as many as fit into one frame."""
        notes: list[Mapping[str, object]] = []
        shown, left_out = [printable(path) for path in paths], dict[str, str]()
        at = characters = parts = 0
        stream = self._vault.read_notes(paths)
        async for note in stream:
            size, number = len(note.text), len(note.sections) + len(note.links)
            characters, parts = characters + size, parts + number
            at = shown.index(note.path, at)
            if notes and (characters > _MOST_IN_BATCH or parts > _MOST_PARTS):
                break
            if size > _LARGEST or number > _MOST_PARTS:
                left_out[note.path] = f"{note.path} is more than a module's process is given"
            else:
                notes.append(note_to_json(note))
        else:
            at = len(paths)
        left_out |= {path: stream.left_out[path] for path in shown[:at] if path in stream.left_out}
        return {"notes": notes, "left_out": left_out, "read": at}


class _OpenUpload:
    """The pieces of an upload, one waiting at a time; an empty one is the last."""

    def __init__(self) -> None:
        self._piece: bytes | None = None
        self._is_ended = False
        self._ready, self._taken = asyncio.Event(), asyncio.Event()

    async def take(self, piece: bytes) -> bool:
        """Wait until the one before was taken; False: the upload has ended."""
        while self._piece is not None and not self._is_ended:
            self._taken.clear()
            await self._taken.wait()
        if not self._is_ended:
            self._piece = piece
            self._ready.set()
        return not self._is_ended

    async def pieces(self) -> AsyncIterator[bytes]:
        """What comes, up to the last."""
        while True:
            await self._ready.wait()
            self._ready.clear()
            piece, self._piece = self._piece, None
            self._taken.set()
            if not piece:
                return
            yield piece

    def end(self) -> None:
        """Nothing is taken any more."""
        self._is_ended = True
        self._taken.set()


def checked(kind: type[Asked], body: Mapping[str, object]) -> Asked:
    """The body; raises ModuleFailedError for one that is not of that kind."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise ModuleFailedError(
            "what the module asks is not as it should be: "
            f"{error.errors(include_url=False)[0]['msg']}"
        ) from error


def fields_of(kind: type[PipeRequestBody], body: Mapping[str, object]) -> dict[str, object]:
    """Its fields by name; raises as `checked` does."""
    return dict(checked(kind, body))
