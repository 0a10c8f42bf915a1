"""Messages that two readers could cut differently: each gets one answer at most, a refusal, and
nothing that hides in it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from parachuted.daemon import Daemon
from tests.stories.daemon_rig import Live, shared_daemon

pytestmark = pytest.mark.asyncio(loop_scope="module")

HIDDEN = b"POST /api/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
START = b"POST /api/bubble/plan HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
LONG = b"Content-Length: %d\r\n" % len(HIDDEN)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
END = b"\r\n"


def chunked(size: bytes, data: bytes, rest: bytes = b"0\r\n\r\n") -> bytes:
    return START + HOST + CHUNKED + END + size + b"\r\n" + data + b"\r\n" + rest


AMBIGUOUS = {
    "both lengths": START + HOST + LONG + CHUNKED + END + b"0\r\n\r\n" + HIDDEN,
    "both lengths, the other way round": START
    + HOST
    + CHUNKED
    + LONG
    + END
    + b"0\r\n\r\n"
    + HIDDEN,
    "two lengths": START + HOST + b"Content-Length: 0\r\n" + LONG + END + HIDDEN,
    "two equal lengths": START + HOST + LONG + LONG + END + HIDDEN,
    "a list of lengths": START + HOST + b"Content-Length: 0, 5\r\n" + END + HIDDEN,
    "a negative length": START + HOST + b"Content-Length: -1\r\n" + END + HIDDEN,
    "a length with a sign": START + HOST + b"Content-Length: +5\r\n" + END + HIDDEN,
    "a length in hex": START + HOST + b"Content-Length: 0x5\r\n" + END + HIDDEN,
    "a length with an underscore": START + HOST + b"Content-Length: 1_0\r\n" + END + HIDDEN,
    "a length in other digits": START + HOST + "Content-Length: ٣\r\n".encode() + END + HIDDEN,
    "a length with a tail": START + HOST + b"Content-Length: 5 x\r\n" + END + HIDDEN,
    "a length that is empty": START + HOST + b"Content-Length:\r\n" + END + HIDDEN,
    "a length beyond all": START + HOST + b"Content-Length: " + b"9" * 40 + END + END + HIDDEN,
    "another coding": START + HOST + b"Transfer-Encoding: xchunked\r\n" + END + HIDDEN,
    "a coding of none": START + HOST + b"Transfer-Encoding: identity\r\n" + LONG + END + HIDDEN,
    "codings one after the other": START
    + HOST
    + b"Transfer-Encoding: chunked, gzip\r\n"
    + END
    + HIDDEN,
    "chunked twice": START + HOST + b"Transfer-Encoding: chunked, chunked\r\n" + END + HIDDEN,
    "two codings": START + HOST + CHUNKED + b"Transfer-Encoding: identity\r\n" + END + HIDDEN,
    "a coding behind a tab": START + HOST + b"Transfer-Encoding:\x0bchunked\r\n" + END + HIDDEN,
    "a coding in quotes": START + HOST + b'Transfer-Encoding: "chunked"\r\n' + END + HIDDEN,
    "a space before the colon": START
    + HOST
    + b"Transfer-Encoding : chunked\r\n"
    + LONG
    + END
    + HIDDEN,
    "a header without a name": START + HOST + b": x\r\n" + LONG + END + HIDDEN,
    "a header without a colon": START + HOST + b"Content-Length\r\n" + END + HIDDEN,
    "a folded header": START + HOST + b"X: y\r\n Content-Length: 5\r\n" + END + HIDDEN,
    "a folded length": START + HOST + b"Content-Length:\r\n 5\r\n" + END + HIDDEN,
    "a header that begins with a space": START + b" X: y\r\n" + HOST + LONG + END + HIDDEN,
    "ends of lines without "
    "returns": b"POST /api/bubble/plan HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n" + HIDDEN,
    "returns without ends of "
    "lines": b"POST /api/bubble/plan HTTP/1.1\rHost: localhost\rContent-Length: 0\r\r" + HIDDEN,
    "a return in a value": START + HOST + b"X: y\rContent-Length: 5\r\n" + END + HIDDEN,
    "a NUL in a value": START + HOST + b"X: y\0z\r\n" + END + HIDDEN,
    "a NUL in a name": START + HOST + b"Content\0-Length: 5\r\n" + END + HIDDEN,
    "a chunk with a sign": chunked(b"+5", b"hello") + HIDDEN,
    "a chunk in 0x": chunked(b"0x5", b"hello") + HIDDEN,
    "a chunk with an underscore": chunked(b"0_5", b"hello") + HIDDEN,
    "a chunk with a space": chunked(b" 5", b"hello") + HIDDEN,
    "a chunk that is negative": chunked(b"-5", b"hello") + HIDDEN,
    "a chunk that is longer than its size": chunked(b"2", b"hello") + HIDDEN,
    "a chunk whose size has no end": chunked(b"f" * 20_000, b"hello") + HIDDEN,
    "a chunk beyond all": chunked(b"f" * 20, b"hello") + HIDDEN,
    "an extension with an end of line": chunked(b"5;a=\nb", b"hello") + HIDDEN,
    "chunks that end without a return": START + HOST + CHUNKED + END + b"5\nhello\n0\n\n" + HIDDEN,
    "an old version with chunks": b"POST /api/bubble/plan HTTP/1.0\r\n"
    + HOST
    + CHUNKED
    + LONG
    + END
    + b"0\r\n\r\n"
    + HIDDEN,
    "a tab in the line": b"POST\t/api/bubble/plan HTTP/1.1\r\n" + HOST + END + HIDDEN,
    "a version that is none": b"POST /api/bubble/plan HTTP/1.1.1\r\n" + HOST + END + HIDDEN,
    "another protocol": b"POST /api/bubble/plan HTTPS/1.1\r\n" + HOST + END + HIDDEN,
    "no version": b"POST /api/bubble/plan\r\n" + HOST + END + HIDDEN,
    "a method that is none": b"PO(ST /api/bubble/plan HTTP/1.1\r\n" + HOST + END + HIDDEN,
    "the second protocol's greeting": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
    "two hosts": START + HOST + b"Host: evil.example\r\n" + LONG + END + HIDDEN,
}
STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")


async def said(port: int, data: bytes, answers: int = 1) -> bytes:
    """All that is answered until the connection ends, or, after so many answers, nothing more
    comes.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = b""
    try:
        writer.write(data)
        while part := await asyncio.wait_for(
            reader.read(65_536), 0.7 if len(STATUS.findall(answered)) >= answers else 60
        ):
            answered += part
    except (ConnectionError, TimeoutError):
        return answered
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return answered


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def daemon(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Daemon]:
    """One daemon for all: what is refused leaves it as it was."""
    async with shared_daemon(tmp_path_factory.mktemp("framing")) as daemon_rig:
        yield daemon_rig.daemon


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_no_reader_could_take_it_for_another(daemon: Daemon, name: str):
    answered = await said(daemon.port, AMBIGUOUS[name])

    assert not daemon.agents.worker.paused, answered
    statuses = [int(status) for status in STATUS.findall(answered)]
    assert len(statuses) == 1, answered
    assert all(400 <= status < 500 for status in statuses), answered


async def test_what_is_not_ambiguous_is_answered_each_in_turn(live: Live, vault: Path):
    (vault / "a.md").write_text("# A\n")
    async with live() as daemon_rig:
        plan = b'{"path": "a.md"}'
        one = START + HOST + b"Content-Length: %d\r\n\r\n" % len(plan) + plan
        other = START + HOST + CHUNKED + END + b"%x\r\n" % len(plan) + plan + b"\r\n0\r\n\r\n"
        answered = await said(daemon_rig.daemon.port, one + other + HIDDEN, 3)

        assert [int(status) for status in STATUS.findall(answered)] == [200, 200, 200]
        assert daemon_rig.daemon.agents.worker.paused
