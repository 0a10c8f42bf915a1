"""Bodies of requests, which come in pieces, and events of a stream."""

from __future__ import annotations

import pytest

from parachuted.errors import BodyTooLargeError
from parachuted.modules import Body, ServerEvent
from parachuted.modules.results import body_in_memory


@pytest.mark.parametrize("name", ["a b", "a\nid: 1", "", "x" * 201])
def test_a_name_or_id_of_an_event_cannot_end_its_line(name: str):
    for fields in ({"event": name}, {"id": name}):
        with pytest.raises(ValueError, match="is not a name or id of an event"):
            ServerEvent({}, **fields)


def body(data: bytes = b"abc") -> Body:
    return body_in_memory("audio/wav", data, piece=2)


async def test_a_body_is_read_piece_by_piece_or_whole_up_to_a_limit():
    assert [piece async for piece in body()] == [b"ab", b"c"]
    assert await body().read() == b"abc"
    assert body(b"").content_type == "audio/wav"
    with pytest.raises(BodyTooLargeError, match="larger than 2 bytes"):
        await body().read(2)
