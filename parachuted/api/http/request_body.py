"""The body of a request that a module reads in pieces: never more of it in memory than aiohttp
reads ahead, and no more than its route takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import BodyPartReader, ClientError, MultipartReader, web
from aiohttp.http_exceptions import BadHttpMessage

from parachuted.api.http.route import ApiCall
from parachuted.errors import BodyTooLargeError, RequestBodyError
from parachuted.modules.streams import PartHead
from parachuted.visible import visible

MOST_PARTS = 1_000
_PIECE = 1 << 18
_FIELD, _FIELDS = 8_190, 32
_LONGEST_NAME = 200
_CUT = "the body was cut short"


class RequestBody:
    """The `BodySource` of one request; `close` ends it. `check` raises once its caller may not go
    on.
    """

    def __init__(self, call: ApiCall, check: Callable[[], None]) -> None:
        self._call, self._check = call, check
        self._request = call.request
        self._pieces: AsyncIterator[bytes] | None = None
        self._form: MultipartReader | None = None
        self._part: BodyPartReader | None = None
        self._parts = self._size = 0
        self._reading = asyncio.Lock()
        self._is_closed = False

    @property
    def content_type(self) -> str:
        """The media type that the caller named, or an empty text."""
        named = self._request.headers.get("Content-Type", "")
        return visible(named.partition(";")[0].strip().lower())[:_LONGEST_NAME]

    @property
    def size(self) -> int | None:
        """How many bytes the caller announced, if it did."""
        return self._request.content_length

    def close(self) -> None:
        """The request is answered: nothing more can be read."""
        self._is_closed = True

    async def read(self) -> bytes:
        """The next piece of the body, or of the present part; empty at the end."""
        async with self._reading:
            self._refuse_closed()
            try:
                if self._part is not None:
                    piece = await self._part.read_chunk(_PIECE)
                else:
                    piece = b"" if self._form is not None else await self._next_piece()
            except web.HTTPRequestEntityTooLarge as error:
                raise self._too_large() from error
            except (ConnectionError, ClientError, BadHttpMessage, ValueError) as error:
                raise RequestBodyError(_CUT) from error
            self._refuse_large()
            return piece

    async def next_part(self) -> PartHead | None:
        """Leave what is left of the present part, and begin the next; None: there is no more."""
        async with self._reading:
            self._refuse_closed()
            try:
                part = await self._multipart().next()
            except (ConnectionError, ClientError, BadHttpMessage, ValueError) as error:
                raise RequestBodyError(f"the form cannot be read: {_CUT}, or it is none") from error
            self._refuse_large()
            self._part = part if isinstance(part, BodyPartReader) else None
            if part is None:
                return None
            self._parts += 1
            if self._part is None or self._parts > MOST_PARTS:
                raise RequestBodyError(
                    f"a form has at most {MOST_PARTS:,} parts, and none of them is another form"
                )
            return _head_of(self._part)

    async def _next_piece(self) -> bytes:
        if self._pieces is None:
            self._pieces = self._call.chunks()
        piece = await anext(self._pieces, b"")
        self._size += len(piece)
        if not piece and self.size not in {None, self._size}:
            raise RequestBodyError(_CUT)
        return piece

    def _multipart(self) -> MultipartReader:
        if self._form is None:
            self._form = MultipartReader(
                self._request.headers,
                self._request.content,
                max_field_size=_FIELD,
                max_headers=_FIELDS,
            )
        return self._form

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise RequestBodyError("the body of a request can be read until it is answered")
        self._check()

    def _refuse_large(self) -> None:
        """Of a form, all that came counts, what is read ahead too."""
        read = self._request.content.total_bytes if self._form is not None else 0
        if read > self._call.route.largest_body:
            raise self._too_large()

    def _too_large(self) -> BodyTooLargeError:
        return BodyTooLargeError(
            f"the body is larger than {self._call.route.largest_body:,} bytes, which is what this "
            "call takes"
        )


def _head_of(part: BodyPartReader) -> PartHead:
    """Names as they can be shown and kept: no controls, and of a file the last name alone."""
    filename = part.filename
    last = None if filename is None else filename.replace("\\", "/").rpartition("/")[2]
    return PartHead(
        name=_name(part.name or ""),
        filename=None if last is None else _name(last),
        content_type=_name(part.headers.get("Content-Type", "")),
    )


def _name(text: str) -> str:
    return "".join(one for one in text if one.isprintable())[:_LONGEST_NAME]
