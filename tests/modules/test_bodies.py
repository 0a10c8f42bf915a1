"""Bodies: what a handler is given of a request that is not JSON, without a daemon."""

from __future__ import annotations

import pytest

from parachuted.errors import BodyTooLargeError, EditRefusedError
from parachuted.modules import Body, Form
from parachuted.modules.streams import PartHead


class ChunkedSource:
    """A source of these parts, each in these pieces."""

    content_type, size = "audio/wav", None

    def __init__(self, *parts: list[bytes]) -> None:
        self._parts, self._left = list(parts), list[bytes]()

    async def read(self) -> bytes:
        return self._left.pop(0) if self._left else b""

    async def next_part(self) -> PartHead | None:
        if not self._parts:
            return None
        self._left = self._parts.pop(0)
        return PartHead(name="a", filename="a.wav", content_type="audio/wav")


async def body(*pieces: bytes) -> Body:
    source = ChunkedSource(list(pieces))
    await source.next_part()
    return Body(source)


async def test_a_body_is_read_piece_by_piece_or_whole_up_to_a_limit():
    assert [piece async for piece in await body(b"a", b"bc")] == [b"a", b"bc"]
    assert await (await body(b"a", b"bc")).read() == b"abc"
    assert (await body()).content_type == "audio/wav"
    with pytest.raises(BodyTooLargeError, match="larger than 2 bytes"):
        await (await body(b"a", b"bc")).read(2)


async def test_a_part_that_is_read_after_the_next_one_has_started_is_empty():
    parts = [part async for part in Form(ChunkedSource([b"first"], [b"second"]))]

    assert [await part.read() for part in parts] == [b"", b"second"]


async def test_a_field_that_is_not_text_is_refused():
    async for part in Form(ChunkedSource([b"\xff"])):
        with pytest.raises(EditRefusedError, match="a: is not UTF-8 text"):
            await part.text()
