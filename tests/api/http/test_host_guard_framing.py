"""Messages that two readers could cut differently: each gets one answer at most, a refusal, and
nothing that hides in it is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest

from tests.stories.daemon_rig import DaemonRig

HIDDEN = b"POST /api/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
START = b"POST /api/bubble/plan HTTP/1.1\r\n"
OLD = b"POST /api/bubble/plan HTTP/1.0\r\n"
HOST = b"Host: localhost\r\n"
LONG = b"Content-Length: %d\r\n" % len(HIDDEN)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
END = b"\r\n"
EMPTY = START + HOST + b"Content-Length: 0\r\n" + END


def chunked(size: bytes, data: bytes, rest: bytes = b"0\r\n\r\n") -> bytes:
    return START + HOST + CHUNKED + END + size + b"\r\n" + data + b"\r\n" + rest


def sent(*lines: bytes) -> bytes:
    return START + HOST + b"".join(lines) + END + HIDDEN


AMBIGUOUS = {
    "both lengths": START + HOST + LONG + CHUNKED + END + b"0\r\n\r\n" + HIDDEN,
    "both lengths the other way": START + HOST + CHUNKED + LONG + END + b"0\r\n\r\n" + HIDDEN,
    "two lengths": sent(b"Content-Length: 0\r\n", LONG),
    "two equal lengths": sent(LONG, LONG),
    "a list of lengths": sent(b"Content-Length: 0, 5\r\n"),
    "a negative length": sent(b"Content-Length: -1\r\n"),
    "a length with a sign": sent(b"Content-Length: +5\r\n"),
    "a length in hex": sent(b"Content-Length: 0x5\r\n"),
    "a length with an underscore": sent(b"Content-Length: 1_0\r\n"),
    "a length in other digits": sent("Content-Length: ٣\r\n".encode()),
    "a length with a tail": sent(b"Content-Length: 5 x\r\n"),
    "a length that is empty": sent(b"Content-Length:\r\n"),
    "a length beyond all": START + HOST + b"Content-Length: " + b"9" * 40 + END + END + HIDDEN,
    "another coding": sent(b"Transfer-Encoding: xchunked\r\n"),
    "a coding of none": sent(b"Transfer-Encoding: identity\r\n", LONG),
    "codings one after the other": sent(b"Transfer-Encoding: chunked, gzip\r\n"),
    "chunked twice": sent(b"Transfer-Encoding: chunked, chunked\r\n"),
    "two codings": sent(CHUNKED, b"Transfer-Encoding: identity\r\n"),
    "a coding behind a tab": sent(b"Transfer-Encoding:\x0bchunked\r\n"),
    "a coding in quotes": sent(b'Transfer-Encoding: "chunked"\r\n'),
    "a space before the colon": sent(b"Transfer-Encoding : chunked\r\n", LONG),
    "a header without a name": sent(b": x\r\n", LONG),
    "a header without a colon": sent(b"Content-Length\r\n"),
    "a folded header": sent(b"X: y\r\n Content-Length: 5\r\n"),
    "a folded length": sent(b"Content-Length:\r\n 5\r\n"),
    "a header that begins with a space": START + b" X: y\r\n" + HOST + LONG + END + HIDDEN,
    "ends of lines without returns": EMPTY.replace(b"\r\n", b"\n") + HIDDEN,
    "returns without ends of lines": EMPTY.replace(b"\r\n", b"\r") + HIDDEN,
    "a return in a value": sent(b"X: y\rContent-Length: 5\r\n"),
    "a NUL in a value": sent(b"X: y\0z\r\n"),
    "a NUL in a name": sent(b"Content\0-Length: 5\r\n"),
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
    "an old version with chunks": OLD + HOST + CHUNKED + LONG + END + HIDDEN,
    "a tab in the line": b"POST\t/api/bubble/plan HTTP/1.1\r\n" + HOST + END + HIDDEN,
    "a version that is none": b"POST /api/bubble/plan HTTP/1.1.1\r\n" + HOST + END + HIDDEN,
    "another protocol": b"POST /api/bubble/plan HTTPS/1.1\r\n" + HOST + END + HIDDEN,
    "no version": b"POST /api/bubble/plan\r\n" + HOST + END + HIDDEN,
    "a method that is none": b"PO(ST /api/bubble/plan HTTP/1.1\r\n" + HOST + END + HIDDEN,
    "the greeting of the second protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN,
    "two hosts": sent(b"Host: evil.example\r\n", LONG),
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


@pytest.mark.parametrize("name", AMBIGUOUS)
async def test_no_reader_could_take_it_for_another(file_daemon: DaemonRig, name: str):
    answered = await said(file_daemon.daemon.port, AMBIGUOUS[name])

    assert not file_daemon.daemon.agents.worker.paused, answered
    statuses = [int(status) for status in STATUS.findall(answered)]
    assert len(statuses) == 1, answered
    assert all(400 <= status < 500 for status in statuses), answered


async def test_what_is_not_ambiguous_is_answered_each_in_turn(vault: Path, daemon_rig: DaemonRig):
    (vault / "a.md").write_text("# A\n")
    plan = b'{"path": "a.md"}'
    one = START + HOST + b"Content-Length: %d\r\n\r\n" % len(plan) + plan
    other = START + HOST + CHUNKED + END + b"%x\r\n" % len(plan) + plan + b"\r\n0\r\n\r\n"
    answered = await said(daemon_rig.daemon.port, one + other + HIDDEN, 3)

    assert [int(status) for status in STATUS.findall(answered)] == [200, 200, 200]
    assert daemon_rig.daemon.agents.worker.paused
