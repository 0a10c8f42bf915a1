"""Arguments: a handler gets what it names, of the type it names, or is not called."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import date, datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from parachuted.errors import ModuleFailedError, UnfitError
from parachuted.modules import Response
from parachuted.modules.registry.arguments import (
    HandlerArguments,
    RequestParts,
    schema_of_answer,
)


@dataclasses.dataclass(frozen=True)
class Entry:
    title: str
    tags: list[str] = dataclasses.field(default_factory=list)


class Place(BaseModel):
    lat: float
    lon: float


class Handlers:
    async def listing(self, date: str = None, limit: int = 50): ...  # noqa: RUF013  as the people who write modules do

    async def one(self, entry_id: str, full: bool = False): ...  # noqa: FBT001, FBT002  the same

    async def create(
        self,
        content: str,
        entry: Entry,
        at: datetime | None = None,
        mood: Literal["good", "bad"] = "good",
    ): ...

    async def tagged(self, tags: list[str], days: tuple[date, ...] = ()): ...

    async def webhook(self, message: dict[str, Any], **rest: object): ...

    async def whole(self, body: Place): ...

    async def anything(self, body): ...

    async def untyped(self, a, b=2): ...

    async def nothing(self): ...

    async def created(self, entry_id: str, content: str = ""): ...

    async def all_data(self, data: dict[str, object]): ...

    async def kept(self, entry_id: str, **data: object): ...


def bound(name: str, body: Mapping[str, object] = MappingProxyType({}), *, path=None, query=None):
    return HandlerArguments(getattr(Handlers(), name)).bind(
        body, RequestParts(path=path or {}, query=query or {})
    )


def problems(name: str, body: Mapping[str, object] = MappingProxyType({}), **more) -> list[str]:
    with pytest.raises(UnfitError) as raised:
        bound(name, body, **more)
    return str(raised.value).split("; ")


AT = "2026-01-05T12:00:00Z"
DAYS = (date(2026, 1, 5),)
HI = {"message": {"text": "hi"}, "update_id": 7}
ID = {"entry_id": "42"}


@pytest.mark.parametrize(
    ("name", "sent", "found"),
    [
        ("listing", {}, {}),
        ("listing", {"query": {"date": "now", "limit": "5"}}, {"date": "now", "limit": 5}),
        ("listing", {"query": {"limit": "5"}, "body": {}}, {"limit": 5}),
        ("listing", {"body": {"date": None}}, {"date": None}),
        ("one", {"path": ID, "query": {"full": "true"}}, {**ID, "full": True}),
        ("one", {"body": {**ID, "full": False}}, {**ID, "full": False}),
        ("one", {"path": ID, "query": {"entry_id": "b"}, "body": {"entry_id": "c"}}, ID),
        ("tagged", {"query": {"tags": ["a", "b"]}}, {"tags": ["a", "b"]}),
        ("tagged", {"query": {"tags": "a", "days": "2026-01-05"}}, {"tags": ["a"], "days": DAYS}),
        ("webhook", {"body": HI}, HI),
        ("webhook", {"query": {"secret": "x"}, "body": HI}, {**HI, "secret": "x"}),
        ("whole", {"body": {"lat": 1, "lon": 2}}, {"body": Place(lat=1, lon=2)}),
        ("anything", {"body": {"body": "as a tool sends it"}}, {"body": "as a tool sends it"}),
        ("untyped", {"body": {"a": [1]}}, {"a": [1]}),
        ("nothing", {"body": {}}, {}),
        (
            "create",
            {"body": {"content": "x", "entry": {"title": "A", "tags": ["t"]}, "at": AT}},
            {"content": "x", "entry": Entry("A", ["t"]), "at": datetime.fromisoformat(AT)},
        ),
    ],
)
def test_each_is_taken_from_where_it_stands(name, sent, found):
    assert bound(name, **sent) == found


NO_NUMBER, UNREAD = "Input should be a valid integer", "unable to parse string as an integer"
UNKNOWN = "Extra inputs are not permitted"
MANY = [f"{letter}: {UNKNOWN}" for letter in "abcdefghijklmnopqrst"]  # at most 20


@pytest.mark.parametrize(
    ("name", "sent", "reported"),
    [
        ("one", {}, ["entry_id: Field required"]),
        ("listing", {"query": {"limit": "many"}}, [f"limit: {NO_NUMBER}, {UNREAD}"]),
        ("listing", {"query": {"limit": ["1", "2"]}}, [f"limit: {NO_NUMBER}"]),
        ("listing", {"query": {"limt": "1"}}, [f"limt: {UNKNOWN}"]),
        ("listing", {"body": {"limt": 1}}, [f"limt: {UNKNOWN}"]),
        ("nothing", {"query": {"a": "1"}}, [f"a: {UNKNOWN}"]),
        ("nothing", {"body": dict.fromkeys("abcdefghijklmnopqrstuvwxyz", 0)}, MANY),
        (
            "whole",
            {"body": {"lat": "secret"}},
            [
                "body.lat: Input should be a valid number, unable to parse string as a number",
                "body.lon: Field required",
            ],
        ),
        ("whole", {}, ["body.lat: Field required", "body.lon: Field required"]),
        (
            "create",
            {"body": {"entry": {"tags": [1]}, "mood": "so-so", "at": "soon"}},
            [
                "content: Field required",
                "entry.title: Field required",
                "entry.tags.0: Input should be a valid string",
                "at: Input should be a valid datetime or date, input is too short",
                "mood: Input should be 'good' or 'bad'",
            ],
        ),
    ],
)
def test_all_that_is_wrong_is_reported_at_once_and_no_flood_in_full(name, sent, reported):
    assert problems(name, **sent) == reported


def test_a_path_field_that_the_rest_takes():
    async def rest(**rest: object): ...

    sent = RequestParts(path={"a": "1"}, query={"b": "2"})
    assert HandlerArguments(rest).bind({"c": 3}, sent) == {"a": "1", "b": "2", "c": 3}


DATA = {"entry_id": "monday", "content": "Text", "more": 1}


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("created", DATA, {"entry_id": "monday", "content": "Text"}),
        ("nothing", DATA, {}),
        ("all_data", DATA, {"data": DATA}),
        ("all_data", {"data": {"a": 1}, "b": 2}, {"data": {"a": 1}}),
        ("kept", DATA, DATA),
    ],
)
def test_a_listener_takes_what_it_names_of_an_events_data(name, data, found):
    assert HandlerArguments(getattr(Handlers(), name)).bind_data(data) == found


def test_a_listener_gets_what_it_says_it_needs_or_is_not_called():
    arguments = HandlerArguments(Handlers().created)

    assert arguments.bind_data({"entry_id": "a"}) == {"entry_id": "a"}
    with pytest.raises(UnfitError, match="entry_id: Field required"):
        arguments.bind_data({"content": "x"})
    with pytest.raises(UnfitError, match="content: Input should be a valid string"):
        arguments.bind_data({"entry_id": "a", "content": 7})


Words = Annotated[str, Field(description="Words to look for")]


async def search(query: Words, limit: int = 5, since: date = None, at: Place | None = None): ...  # noqa: RUF013  the same


def test_a_tool_is_described_so_that_what_fits_the_schema_can_be_called():
    schema = HandlerArguments(search).schema()
    jsonschema.Draft202012Validator.check_schema(schema)

    assert schema["required"] == ["query"]
    assert schema["properties"]["query"] == {"type": "string", "description": "Words to look for"}
    assert schema["properties"]["limit"] == {"type": "integer", "default": 5}
    assert schema["additionalProperties"] is False
    good = {"query": "x", "since": "2026-01-05", "at": {"lat": 1.0, "lon": 2.0}}
    jsonschema.validate(good, schema)
    assert HandlerArguments(search).bind(good)["at"] == Place(lat=1, lon=2)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"query": "x", "other": 1}, schema)


def test_each_tool_has_a_schema_but_one_that_takes_what_no_json_can_be():
    async def odd(call: Callable[[], int]): ...

    assert HandlerArguments(Handlers().webhook).schema()["additionalProperties"] is True
    none = {"type": "object", "properties": {}, "additionalProperties": False}
    assert HandlerArguments(Handlers().nothing).schema() == none
    with pytest.raises(ModuleFailedError, match="cannot be described to agents"):
        HandlerArguments(odd).schema()


class NoType:
    pass


async def unread(a: NoSuchName): ...  # type: ignore[name-defined]  # noqa: F821


async def foreign(a: NoType): ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (unread, "NoSuchName"),
        (foreign, "a parameter has a type of which nothing .*NoType"),
    ],
)
def test_a_handler_that_no_one_could_call_is_refused(function, says):
    with pytest.raises(ModuleFailedError, match=says):
        HandlerArguments(function)


json = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=20),
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)
names = some.sampled_from(
    ["limit", "date", "tags", "message", "body", "x", "entry", "at", "mood", "entry_id", "full"]
)


@given(
    name=some.sampled_from(
        ["listing", "one", "create", "tagged", "webhook", "whole", "anything", "untyped", "nothing"]
    ),
    path=some.dictionaries(names, some.text(max_size=10), max_size=2),
    query=some.dictionaries(
        names,
        some.text(max_size=10) | some.lists(some.text(max_size=5), min_size=2, max_size=3),
        max_size=3,
    ),
    body=some.dictionaries(names, json, max_size=4),
)
def test_whatever_is_sent_the_handler_is_called_or_the_caller_told(name, path, query, body):
    handler = getattr(Handlers(), name)
    try:
        found = HandlerArguments(handler).bind(body, RequestParts(path=path, query=query))
    except UnfitError:
        return
    asyncio.run(handler(**found))


class Bed(TypedDict):
    name: str


@dataclasses.dataclass
class Seed:
    name: str
    sown: datetime | None = None


class Row(BaseModel):
    name_of: str = Field(alias="nameOf")


class Opaque: ...


@pytest.mark.parametrize(
    ("hint", "kind", "names"),
    [
        (Bed, "object", {"name"}),
        (Seed, "object", {"name", "sown"}),
        (Row, "object", {"name_of"}),
        (list[Bed], "array", None),
        (None, "null", None),
        (Bed | Response, "object", {"name"}),
        (AsyncIterator[Bed], "object", {"name"}),
        *((unknown, None, None) for unknown in (Any, object, Response, Opaque)),
    ],
)
def test_what_is_declared_is_described_and_the_unknown_left_open(hint, kind, names):
    async def handler(): ...

    handler.__annotations__["return"] = hint
    schema = schema_of_answer(handler)

    assert schema.get("type") == kind
    assert kind is not None or schema == {}
    assert names is None or set(schema["properties"]) == names
