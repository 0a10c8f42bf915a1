"""What a handler is declared to return is described, however it is declared."""

from __future__ import annotations

import typing
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from parachuted.modules import Response
from parachuted.modules.registry.arguments import schema_of_answer

TEXT = {"type": "string"}


class Bed(TypedDict):
    name: str


@dataclass
class Seed:
    name: str
    sown: datetime | None = None


class Row(BaseModel):
    name_of: str = Field(alias="nameOf")


async def bed() -> Bed: ...
async def seed() -> Seed: ...
async def row() -> Row: ...
async def beds() -> list[Bed]: ...
async def counts() -> dict[str, int]: ...
async def nothing() -> None: ...
async def several() -> Bed | Response: ...
async def stream() -> AsyncIterator[Bed]:
    yield {"name": "a"}


@pytest.mark.parametrize(
    ("function", "kind", "names"),
    [
        (bed, "object", {"name"}),
        (seed, "object", {"name", "sown"}),
        (row, "object", {"name_of"}),
        (beds, "array", None),
        (counts, "object", None),
        (nothing, "null", None),
        (several, "object", {"name"}),
        (stream, "object", {"name"}),
    ],
)
def test_what_is_declared_is_described(
    function: Callable[..., object], kind: str, names: set[str] | None
):
    schema = schema_of_answer(function)

    assert schema["type"] == kind
    assert names is None or set(schema["properties"]) == names


class Old(typing.TypedDict):
    name: str


class Opaque: ...


async def unsaid(): ...
async def anything() -> typing.Any: ...
async def an_object() -> object: ...
async def response() -> Response: ...
async def opaque() -> Opaque: ...


@pytest.mark.parametrize("function", [unsaid, anything, an_object, response, opaque])
def test_what_is_not_declared_or_cannot_be_known_is_left_open(function: Callable[..., object]):
    assert schema_of_answer(function) == {}
