import asyncio
import socket
import threading

import pytest

from parachuted.agents.sandbox import Container
from parachuted.errors import AgentUnavailableError


class EngineStream:
    """An engine with one container, and the far end of its stream."""

    def __init__(self):
        self.near, self.stream = socket.socketpair()
        self.stream.settimeout(0)
        self.removed = self.paused = 0
        self.ends = lambda: (3, False)
        self.container = Container("c1", self)

    def start(self, _options, _name, *, is_held):
        assert not is_held
        return self.near

    def exit_code(self, _name, program):
        assert program is None
        return self.ends()

    def remove(self, _name):
        self.removed += 1

    def pause(self, _name):
        self.paused += 1

    def say(self, kind, data):
        self.stream.send(bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data)


@pytest.fixture
async def far():
    made = EngineStream()
    await made.container.begin({})
    yield made
    made.stream.close()
    await made.container.kill()


async def test_pieces_are_put_together_whatever_their_borders(far):
    frame = (
        b"\x01\x00\x00\x00\x00\x00\x00\x06hello\n"
        b"\x02\x00\x00\x00\x00\x00\x00\x03err"
        b"\x01\x00\x00\x00\x00\x00\x00\x02ok"
    )
    for at in range(len(frame)):
        far.stream.send(frame[at : at + 1])
        await asyncio.sleep(0)

    assert await far.container.stdout.readline() == b"hello\n"
    assert await far.container.stdout.readexactly(2) == b"ok"


async def test_what_it_says_on_stderr_is_in_the_log_and_bounded(far, caplog):
    caplog.set_level("INFO")
    far.say(2, b"something is ")
    far.say(2, b"wrong\n" + b"x" * 100_000 + b"\n")
    far.say(1, b"!")

    await far.container.stdout.readexactly(1)

    assert "something is wrong" in caplog.text
    assert "x" * 500 in caplog.text
    assert "x" * 501 not in caplog.text


@pytest.mark.parametrize("is_short", [True, False])
async def test_its_end_is_reported_with_its_code(far, is_short):
    far.ends = lambda: (3, is_short)
    far.stream.close()

    assert await far.container.stdout.read() == b""
    assert await far.container.wait() == 3
    assert ("more memory than its sandbox has" in (far.container.problem or "")) is is_short
    assert not far.container.is_ready
    with pytest.raises(BrokenPipeError):
        await far.container.write(b"x")


async def test_it_is_stopped_and_killed_once_however_often_that_is_asked(far):
    await far.container.write(b"last")
    await asyncio.gather(*(far.container.stop() for _ in range(3)))
    assert (far.paused, far.removed, far.container.problem) == (1, 0, None)
    assert await far.container.stdout.read() == b""
    assert await far.container.wait() == 137

    await asyncio.gather(*(far.container.kill() for _ in range(5)))
    assert far.removed == 1


async def test_its_end_is_that_of_one_killed_when_it_is_removed_meanwhile(far):
    asked, is_removed = threading.Event(), threading.Event()

    def exit_code():
        asked.set()
        is_removed.wait(30)
        raise AgentUnavailableError("No such container")

    far.ends = exit_code
    waiting = asyncio.get_running_loop().create_task(far.container.wait())
    far.stream.close()
    assert await asyncio.to_thread(asked.wait, 30)
    far.container.end_soon("it was too large")
    while not far.removed:
        await asyncio.sleep(0.01)
    is_removed.set()

    assert (await waiting, far.container.problem) == (137, "it was too large")


async def test_an_engine_that_does_not_tell_its_end_is_reported(far):
    def exit_code():
        raise AgentUnavailableError("the engine is gone")

    far.ends = exit_code
    far.stream.close()

    with pytest.raises(AgentUnavailableError, match="the engine is gone"):
        await far.container.wait()
