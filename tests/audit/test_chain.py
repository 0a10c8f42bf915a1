from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parachuted.audit.chain import (
    MOST_LINE_BYTES,
    START,
    AuditEvent,
    ChainPosition,
    line_of,
    read_line,
)
from tests.audit.audit_rig import NOON, event

HOSTILE = st.one_of(
    st.text(st.characters(), max_size=400),
    st.sampled_from(
        [
            "\r\n",
            "\u2028",
            "\x1b[2J",
            "\0",
            "\ud800",
            "\udcff",
            '"}\n{"seq":1',
            "x" * 1_000_000,
            ',"hash":"' + "0" * 64 + '"}',
            "\\",
        ]
    ),
)


@given(
    st.lists(HOSTILE, min_size=3, max_size=40),
    st.none() | HOSTILE,
    st.floats(),
    st.booleans(),
    st.none() | st.integers(100, 599),
)
def test_whatever_an_event_holds_it_is_one_sound_line(texts, maybe, took, success, status):
    who, module, endpoint = texts[:3]
    happened = AuditEvent(
        NOON,
        "api_call",
        "api_key",
        who,
        module,
        endpoint,
        texts,
        took,
        success,
        maybe,
        maybe,
        status,
        texts,
        texts,
        texts,
        maybe,
        before=maybe,
        after=maybe,
        write=3,
        details={"kept": who, "count": 3, "late": True},
    )

    line, link = line_of(happened, START)

    assert line.endswith(b"\n")
    assert len(line[:-1].decode().splitlines()) == 1
    assert len(line) < MOST_LINE_BYTES
    read = read_line(line[:-1])
    assert read.is_sound
    assert (read.link, read.prev) == (link, START.hash)
    assert (read.document["success"], read.document.get("status")) == (success, status)


def test_a_line_holds_what_the_event_does():
    happened = event(
        "GET /api/notes/{path}",
        duration_ms=1.23456,
        success=False,
        error="there is no such note",
        request_id="abc",
        status=404,
        paths=["日記/a b.md"],
        names=["id=7"],
        causes=["c-1"],
        run="r-1",
        before="b",
        after="a",
        para_ids_involved=["para:daily:x7y8z9abcdef"],
    )

    reported = read_line(line_of(happened, ChainPosition(41, "f" * 64))[0][:-1]).document

    assert reported == {
        "seq": 42,
        "timestamp": "2026-11-22T12:00:00.000000Z",
        "event_type": "api_call",
        "source_type": "local",
        "source_id": "this machine",
        "target_module": "system",
        "target_endpoint": "GET /api/notes/{path}",
        "para_ids_involved": ["para:daily:x7y8z9abcdef"],
        "duration_ms": 1.235,
        "success": False,
        "error": "there is no such note",
        "status": 404,
        "request_id": "abc",
        "run": "r-1",
        "before": "b",
        "after": "a",
        "paths": ["日記/a b.md"],
        "names": ["id=7"],
        "causes": ["c-1"],
        "prev": "f" * 64,
        "hash": reported["hash"],
    }


def test_the_hash_is_of_the_line_without_it_as_anyone_can_check():
    line, link = line_of(event(), START)
    body = line.rstrip(b"\n").rsplit(b',"hash":', 1)[0] + b"}"

    assert hashlib.sha256(body).hexdigest() == link.hash == json.loads(line)["hash"]


def reported(happened: AuditEvent) -> dict[str, object]:
    return read_line(line_of(happened, START)[0][:-1]).document


def test_times_are_in_utc_and_of_many_paths_some_are_reported():
    there = datetime(2026, 11, 23, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    assert reported(event(at=there))["timestamp"] == "2026-11-22T23:30:00.000000Z"

    document = reported(event(paths=[f"{number}.md" for number in range(50)]))
    assert (len(document["paths"]), document["paths_count"]) == (20, 50)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"seq":1,"prev":"","hash":"x"}',
        b"\xff\xfe",
        b'{"seq":true,"prev":"a","hash":"' + b"0" * 64 + b'"}',
        b'{"seq":"1","prev":"a","hash":"' + b"0" * 64 + b'"}',
        b'{"seq":-1,"prev":"a","hash":"' + b"0" * 64 + b'"}',
        b'{"a":' + b"[" * 100_000 + b',"hash":"' + b"0" * 64 + b'"}',
        b"x" * (MOST_LINE_BYTES + 1),
    ],
)
def test_what_is_not_a_line_is_none(raw):
    assert read_line(raw) is None


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_no_byte_of_a_line_can_be_another(at, byte):
    line = bytearray(line_of(event(error="no", success=False, paths=["a.md"]), START)[0][:-1])
    at %= len(line)
    if line[at] == byte:
        return
    line[at] = byte

    read = read_line(bytes(line))

    assert read is None or not read.is_sound
