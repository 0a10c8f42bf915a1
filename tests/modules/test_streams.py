"""Streams: each reader gets every event in order, comes back where it was, and holds no one up; and
bodies of requests, which come in pieces.
"""

from __future__ import annotations

import asyncio

import pytest

from parachuted.errors import BodyTooLargeError, ModuleFailedError
from parachuted.modules import Body, ServerEvent, Stream
from parachuted.modules.results import MemoryBody


async def read_all(stream: Stream, after: str | None = None) -> list[object]:
    return [one.event if one.event == "reset" else one.data async for one in stream.read(after)]


async def test_readers_get_all_that_is_sent_each_at_its_own_pace():
    stream, live = Stream(), Stream(is_live=True)
    last = live.send("old")
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(read_all(stream)) for _ in range(3)]
        fresh = [group.create_task(read_all(live, after)) for after in (None, last)]
        for number in range(200):
            stream.send({"n": number}, "step")
            if number % 50 == 0:
                await asyncio.sleep(0)
        live.send("new")
        stream.close()
        live.close()

    for reader in readers:
        assert reader.result() == [{"n": number} for number in range(200)]
    assert stream.is_closed
    assert [reader.result() for reader in fresh] == [["new"], ["new"]], "a live one begins now"


async def test_who_comes_back_gets_what_followed():
    stream = Stream(keep=10)
    ids = [stream.send(number) for number in range(20)]
    stream.close()

    assert await read_all(stream, ids[15]) == [16, 17, 18, 19]
    assert await read_all(stream, ids[19]) == []
    assert await read_all(stream, ids[9]) == list(range(10, 20))
    assert await read_all(stream, ids[5]) == ["reset", *range(10, 20)]
    assert await read_all(stream) == list(range(10, 20))


@pytest.mark.parametrize(
    "after", ["other-3", "nothing", "-", "5", "{sender}-99", "{sender}-x", "{sender}-\u0661"]
)
async def test_an_unknown_id_is_reported(after):
    stream = Stream()
    sender = stream.send(1).partition("-")[0]
    stream.close()

    assert await read_all(stream, after.format(sender=sender)) == ["reset", 1]


async def test_a_reader_that_stands_still_loses_events_and_is_reported():
    stream = Stream(keep=5)
    slow = stream.read()
    stream.send(0)
    assert (await anext(slow)).data == 0
    for number in range(1, 20):
        stream.send(number)
    stream.close()

    assert [one.event or one.data async for one in slow] == ["reset", 15, 16, 17, 18, 19]


async def test_what_cannot_be_sent_is_refused_where_it_is_sent():
    stream = Stream()
    for name in ("a b", "a\nid: 1", "", "x" * 201):
        with pytest.raises(ValueError, match="is not a name or id of an event"):
            ServerEvent({}, name)
        with pytest.raises(ValueError, match="is not a name or id of an event"):
            ServerEvent({}, id=name)
    with pytest.raises(ModuleFailedError):
        stream.send(object())
    stream.close()
    with pytest.raises(RuntimeError, match="closed"):
        stream.send(1)
    for keep in (0, 10_001):
        with pytest.raises(ValueError, match="keep="):
            Stream(keep)
    assert await read_all(stream) == []


def body(data: bytes = b"abc") -> Body:
    return Body(MemoryBody("audio/wav", data, piece=2))


async def test_a_body_is_read_piece_by_piece_or_whole_up_to_a_limit():
    assert [piece async for piece in body()] == [b"ab", b"c"]
    assert await body().read() == b"abc"
    assert body(b"").content_type == "audio/wav"
    with pytest.raises(BodyTooLargeError, match="larger than 2 bytes"):
        await body().read(2)
