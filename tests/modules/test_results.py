"""What a handler returns becomes plain JSON, or an error; events, and bodies in pieces."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from datetime import UTC, date, datetime, time
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel

from parachuted.errors import BodyTooLargeError, ModuleFailedError
from parachuted.modules import Body, ServerEvent
from parachuted.modules.results import Response, body_in_memory, to_json


@dataclasses.dataclass(frozen=True)
class Entry:
    at: datetime
    tags: tuple[str, ...] = ()


class Model(BaseModel):
    when: date
    inner: dict[str, int] = {}


class Mood(enum.Enum):
    GOOD = "good"


class Loud(str):
    __slots__ = ()


NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (Loud("x"), "x"),
        ({"a": (1, 2.5)}, {"a": [1, 2.5]}),
        ([Entry(NOON, ("x",))], [{"at": "2026-01-05T12:00:00Z", "tags": ["x"]}]),
        (Model(when=date(2026, 1, 5)), {"when": "2026-01-05", "inner": {}}),
        (time(3, 30), "03:30:00"),
        (Path("a/b.md"), "a/b.md"),
        (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (Mood.GOOD, "good"),
        ({"b", "a"}, ["a", "b"]),
        (
            {1: "one", Mood.GOOD: "x", date(2026, 1, 5): "day"},
            {"1": "one", "good": "x", "2026-01-05": "day"},
        ),
        (MappingProxyType({"a": range(2)}), {"a": [0, 1]}),
        ([math.nan, math.inf], [None, None]),
    ],
)
def test_what_has_a_form_in_json_gets_it(value, plain):
    assert to_json(value) == plain
    assert type(to_json(value)) is type(plain)


def itself() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [{"b": b"x"}]}, "a bytes; return"),
        ({"f": len}, "a builtin_function"),
        ((one for one in "ab"), "a generator"),
        ({(1, 2): 3}, "Dict key must"),
        ({"\ud800": "\ud800"}, "surrogates not allowed"),
        (2**64, "64-bit"),
        (itself(), "recursion|Recursion"),
        (Entry, "a type"),
    ],
)
def test_what_has_none_is_refused(value, says):
    with pytest.raises(ModuleFailedError, match=says):
        to_json(value)


@given(
    some.recursive(
        some.none()
        | some.booleans()
        | some.integers(-(2**63), 2**64 - 1)
        | some.floats(allow_nan=False, allow_infinity=False)
        | some.text(),
        lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
        max_leaves=20,
    )
)
def test_json_stays_what_it_is(value):
    assert to_json(value) == json.loads(json.dumps(value)) == value


OF_THE_DAEMON = (
    *("Content-Length", "transfer-encoding", "content-type", "Access-Control-Allow-Origin"),
    *("X: a", "", "é"),
)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        *(({"status": status}, "not an HTTP status") for status in (0, 101, 600)),
        *(({"headers": {name: "500"}}, "the daemon's own") for name in OF_THE_DAEMON),
        ({"headers": {"X-Name": "a\r\nSet-Cookie: b"}}, "control character"),
    ],
)
def test_how_an_answer_is_sent_and_read_is_not_a_modules_to_say(answer, says):
    with pytest.raises(ValueError, match=says):
        Response(**answer)


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
