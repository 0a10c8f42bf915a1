"""A turn's events for readers who come and go."""

from __future__ import annotations

import asyncio
import random

from tests.module_files import chat_file

turn_stream = chat_file("turn")
TurnStream = turn_stream.TurnStream
DONE = {"type": "done"}


async def collect(stream, after=None):
    return [one async for one in stream.read(after)]


async def test_a_reader_gets_all_of_the_turn_and_its_end():
    stream = TurnStream()
    stream.send("b")
    stream.send(DONE)
    assert [one.data["type"] for one in await collect(stream)] == ["text", "done"]
    assert await collect(stream, stream.last_id) == []


async def test_nothing_is_sent_after_the_end_of_a_turn():
    stream = TurnStream()
    stream.send(DONE)
    stream.send({"type": "aborted"})
    stream.send("late")
    assert [one.data["type"] for one in await collect(stream)] == ["done"]


async def test_a_late_reader_gets_a_text_of_many_pieces_as_one_event():
    stream = TurnStream()
    for _ in range(5_000):
        stream.send("x")
    stream.send(DONE)
    text, done = await collect(stream)
    assert text.data == {"type": "text", "content": "x" * 5_000, "delta": "x" * 5_000}
    assert done.data == DONE


async def test_an_id_that_is_not_known_is_answered_with_a_reset():
    stream = TurnStream()
    stream.send({"type": "init"})
    stream.send(DONE)
    for last in ("0000-1", "x", f"{stream.last_id}9", f"{stream.last_id}\u00b2"):
        found = await collect(stream, last)
        assert [one.data["type"] for one in found] == ["reset", "init", "done"]


async def test_a_browser_gets_a_ping_while_nothing_happens():
    stream = TurnStream(ping_s=0.001)
    async for one in stream.read():
        assert (one.event, one.id) == ("ping", None)
        break


class Client:
    """Reads with interruptions, and keeps what it has seen."""

    def __init__(self, stream: TurnStream) -> None:
        self._stream = stream
        self.last: str | None = None
        self.seen: list[str] = []
        self.is_over = False

    async def read(self, most: int) -> None:
        """At most so many events, then the connection is lost."""
        async for one in self._stream.read(self.last):
            if one.id is None:
                assert one.event == "ping"
                continue
            self.last = one.id
            if one.data["type"] == "text":
                self.seen += one.data["delta"]
            else:
                self.seen.append(f"<{one.data['type']}>")
            if one.data["type"] in turn_stream.LAST_EVENTS:
                self.is_over = True
                return
            most -= 1
            if most <= 0:
                return


async def stress(seed: int, drops: int) -> int:
    """One turn with several clients that drop again and again; how often they did."""
    choice = random.Random(seed)  # noqa: S311  no secret
    stream, sent, dropped = TurnStream(), [], 0
    clients = [Client(stream) for _ in range(3)]

    async def write() -> None:
        for _ in range(choice.randint(1, 2 * drops)):
            if choice.random() < 0.8:
                letter = choice.choice("abc")
                sent.append(letter)
                stream.send(letter)
            else:
                sent.append("<tool_use>")
                stream.send({"type": "tool_use"})
            if choice.random() < 0.5:
                await asyncio.sleep(0)
        end = choice.choice(["done", "aborted", "typed_error"])
        sent.append(f"<{end}>")
        stream.send({"type": end})

    async def follow(client: Client) -> None:
        nonlocal dropped
        while not client.is_over:
            await client.read(choice.randint(1, 4))
            dropped += not client.is_over

    async with asyncio.timeout(60):
        await asyncio.gather(write(), *map(follow, clients))
    assert all(client.seen == sent for client in clients)
    return dropped


async def test_a_thousand_drops_and_stops_leave_every_sequence_complete():
    dropped, seed = 0, 0
    while dropped < 1_000:
        dropped += await stress(seed, 60)
        seed += 1
