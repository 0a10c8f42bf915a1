"""The bodies of requests that are not JSON: bytes, and forms with files, of which no more is in
memory than a piece.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from parachuted.errors import BodyTooLargeError, EditRefusedError

_READ = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHead:
    """What is said of a part of a form before its content comes."""

    name: str
    filename: str | None
    content_type: str


class BodySource(Protocol):
    """Where the pieces come from. Its methods raise RequestBodyError when no more can come."""

    @property
    def content_type(self) -> str:
        """The media type that the caller named, or an empty text."""

    @property
    def size(self) -> int | None:
        """How many bytes the caller announced, if it did."""

    async def read(self) -> bytes:
        """The next piece of the body, or of the present part; empty at the end."""

    async def next_part(self) -> PartHead | None:
        """Leave what is left of the present part, and begin the next; None: there is no more."""


class Body:
    """The body of a request, in pieces: `async for piece in body`."""

    def __init__(self, source: BodySource) -> None:
        self._source = source

    @property
    def content_type(self) -> str:
        """The media type that the caller named, or an empty text."""
        return self._source.content_type

    @property
    def size(self) -> int | None:
        """How many bytes the caller announced; None where it did not."""
        return self._source.size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self._source.read():
            yield piece

    async def read(self, limit: int = _READ) -> bytes:
        """All of it. Raises BodyTooLargeError when it is more than `limit` bytes."""
        return await _whole(aiter(self), limit)


class FormPart:
    """A field or a file of a form: `async for piece in part`.

    `filename` is the last name of what the caller said, None for a field. It and all else that is
    said of a part is the caller's claim.
    """

    def __init__(self, head: PartHead, form: Form, number: int) -> None:
        self.name, self.filename = head.name, head.filename
        self.content_type = head.content_type
        self._form, self._number = form, number

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await self._form.piece(self._number):
            yield piece

    async def read(self, limit: int = _READ) -> bytes:
        """All of it. Raises BodyTooLargeError when it is more than `limit` bytes."""
        return await _whole(aiter(self), limit)

    async def text(self, limit: int = _READ) -> str:
        """The same as text. Raises EditRefusedError when it is not UTF-8."""
        try:
            return (await self.read(limit)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise EditRefusedError(f"{self.name}: is not UTF-8 text") from error


class Form:
    """A form of fields and files: `async for part in form`, in the order in which they come.

    A part is read before the next one is asked for; what was not read of it is gone then.
    """

    def __init__(self, source: BodySource) -> None:
        self._source = source
        self._number = 0

    async def __aiter__(self) -> AsyncIterator[FormPart]:
        while head := await self._source.next_part():
            self._number += 1
            yield FormPart(head, self, self._number)

    async def piece(self, number: int) -> bytes:
        """The next piece of the part of that number; empty when the form has gone on."""
        return await self._source.read() if number == self._number else b""


async def _whole(pieces: AsyncIterator[bytes], limit: int) -> bytes:
    found = bytearray()
    async for piece in pieces:
        found += piece
        if len(found) > limit:
            raise BodyTooLargeError(f"it is larger than {limit:,} bytes")
    return bytes(found)
