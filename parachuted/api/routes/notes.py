"""Notes: one note as it is, in the form that is asked for, and its versions.

`note_changes` changes them, `note_listing` finds them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from typing import Annotated
from urllib.parse import unquote_to_bytes

from aiohttp import web
from pydantic import (
    Field,
)
from typing_extensions import TypedDict

from parachuted.access.filter import unknown
from parachuted.api.http.decorators import get
from parachuted.api.http.file_answers import KNOWN, etags
from parachuted.api.http.route import (
    ApiCall,
    MediaBody,
    RequestModel,
    Whole,
)
from parachuted.api.routes.note_reading import (
    CachedAnswer,
    NoteMapResponse,
    NoteReading,
    NoteResponse,
    Shape,
    is_note,
    no_note,
    served_as,
)
from parachuted.api.routes.note_writer import (
    refuse_programs_but_to_admins,
)
from parachuted.errors import NotFoundError
from parachuted.times import Time, moment
from parachuted.vault import (
    Store,
    VaultPath,
    Write,
    printable,
)


def writable(call: ApiCall, path: VaultPath) -> VaultPath:
    """Where the note is, links followed.

    Blocks. Raises NotFoundError, or HTTPForbidden where it belongs to a module.
    """
    real = call.sight.find(path)
    for one in (path, real):
        refuse_programs_but_to_admins(one, call.identity)
    return real


class NoteVersionResponse(TypedDict):
    """An earlier text of a note, as `?version=` takes its `hash`: who wrote it, when and how; null
    where that is not known.
    """

    hash: str
    at: Time | None
    by: str | None
    operation: str | None
    run: str | None


class NoteVersionsResponse(TypedDict):
    """The earlier texts that are kept, the newest first."""

    path: str
    versions: list[NoteVersionResponse]


FOLDER = "/api/notes/"


class NoteReadQuery(RequestModel):
    """In which form, and which version: a digest that the note had once."""

    shape: Annotated[Shape | None, Field(alias="as")] = None
    version: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")] = None


class VersionsQuery(RequestModel):
    """How many."""

    limit: Annotated[Whole, Field(ge=1, le=1_000)] = 100


class NoteRoutes:
    def __init__(self, store: Store, reading: NoteReading) -> None:
        self._store, self._reading = store, reading

    @get(
        FOLDER + "{path:.+}",
        "vault",
        "read",
        reach="paths",
        query=NoteReadQuery,
        answers={
            200: (
                NoteResponse | NoteMapResponse,
                MediaBody(type="text/markdown", says="The note, or its bytes as they are."),
            ),
            304: None,
        },
        names={"path": "The note, relative to the vault."},
        headers={"If-None-Match": KNOWN},
    )
    async def note(self, call: ApiCall) -> web.Response:
        """A note: raw, as JSON with its sections and links, or as a map of its headings and
        keys.
        """
        path, query = note_path(call), call.query(NoteReadQuery)
        if query.version is not None:
            return await self._version(call, path, query.version, query.shape or "raw")
        shape = query.shape or _accepted(call.request.headers.get("Accept"))
        served = self._reading.fresh(path, shape) if call.sight.sees(path) else None
        return _answer(call, served or await self._read(call, path, shape))

    async def _read(self, call: ApiCall, path: VaultPath, shape: Shape) -> CachedAnswer:
        served, real, content, may_stay = await asyncio.to_thread(
            self._reading.read, path, shape, call.sight
        )
        self._reading.keep(real, content)
        if may_stay:
            self._reading.remember(path, shape, served)
        return served

    @get(
        FOLDER + "{path:.+}/versions",
        "vault",
        "read",
        reach="paths",
        names={"path": "The note, relative to the vault."},
    )
    async def versions(self, call: ApiCall, query: VersionsQuery) -> NoteVersionsResponse:
        """The earlier texts of a note."""
        path, limit = note_path(call, "/versions"), query.limit
        versions = await asyncio.to_thread(self._versions, call, path, limit)
        return NoteVersionsResponse(path=printable(path), versions=versions)

    def _versions(self, call: ApiCall, path: VaultPath, limit: int) -> list[NoteVersionResponse]:
        real, objects = call.sight.find(path), self._store.objects
        writes = self._store.history.writes_of(real)
        try:
            present = self._store.root.read(real).digest
        except NotFoundError:
            if not writes:
                raise
            present = ""
        return list(
            itertools.islice(
                (
                    one
                    for one in versions_of(writes)
                    if one["hash"] != present and one["hash"] in objects
                ),
                limit,
            )
        )

    async def _version(
        self, call: ApiCall, path: VaultPath, digest: str, shape: Shape
    ) -> web.Response:
        """Its present text, or one that the daemon's own write replaced or left."""
        real = await asyncio.to_thread(call.sight.find, path)
        served = await asyncio.to_thread(self._served, path, real, digest, shape)
        if served is None:
            raise NotFoundError(f"no version {digest[:12]} of {printable(path)} is kept")
        return _answer(call, served)

    def _served(
        self, path: VaultPath, real: VaultPath, digest: str, shape: Shape
    ) -> CachedAnswer | None:
        """`modified` is when it was last written, or, where that was not seen, replaced."""
        writes = self._store.history.writes_of(real)
        moments = [write.at for write in writes if write.after == digest] or [
            write.at for write in writes if write.before == digest
        ]
        data = self._store.objects.get(digest) if moments else None
        if data is not None:
            return served_as(shape, path, digest, data, moments[-1].timestamp())
        with contextlib.suppress(NotFoundError):
            present = self._store.root.read(real)
            if present.digest == digest:
                return served_as(shape, path, digest, present.data, present.status.st_mtime)
        return None


def versions_of(writes: Sequence[Write]) -> list[NoteVersionResponse]:
    """Each text that these left or replaced, once, as it was last there; the newest first."""
    found: dict[str, NoteVersionResponse] = {}
    for write in reversed(writes):
        if write.after is not None and (
            write.after not in found or found[write.after]["at"] is None
        ):
            known: NoteVersionResponse = {
                "hash": write.after,
                "at": moment(write.at.timestamp()),
                "by": printable(write.author.by),
                "operation": write.operation,
                "run": write.author.run,
            }
            found[write.after] = known
        if write.before is not None:
            found.setdefault(
                write.before,
                {"hash": write.before, "at": None, "by": None, "operation": None, "run": None},
            )
    return list(found.values())


def note_path(call: ApiCall, ending: str = "") -> VaultPath:
    """The note that the request's path names, as bytes say it: names that are not UTF-8 come as
    `os.fsdecode` gives them.

    Raises PathRefusedError, HTTPNotFound for what no note can be called.
    """
    raw = call.request.rel_url.raw_path.removeprefix(FOLDER).removesuffix(ending)
    path = VaultPath.parse(
        unquote_to_bytes(raw).decode("utf-8", "surrogateescape")
        if "%" in raw or not raw.isascii()
        else raw
    )
    if not is_note(path):
        raise no_note(path) if call.sight.sees(path) else unknown(path)
    return path


def _accepted(header: str | None) -> Shape:
    if header is None or "text/" not in header:
        return "json"
    best = header.partition(",")[0].partition(";")[0].strip()
    return "raw" if best in {"text/markdown", "text/plain", "text/x-markdown"} else "json"


def _answer(call: ApiCall, served: CachedAnswer) -> web.Response:
    asked = call.request.headers.get("If-None-Match")
    if asked is not None and not {served.digest, "*"}.isdisjoint(etags(asked)):
        return web.Response(status=304, headers=served.headers)
    return web.Response(body=served.body, headers={**served.headers, "Content-Type": served.type})
