"""Fields: what callers may send, as types that check themselves and describe themselves in the
OpenAPI document.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from parachuted.vault import VaultPath

_MOST_DIGITS = 15


def _path(value: object) -> VaultPath:
    if not isinstance(value, str):
        raise ValueError("should be a text")  # noqa: TRY004  pydantic takes a ValueError for its caller's mistake
    return VaultPath.parse(value)  # whose PathRefusedError passes through pydantic as it is


def _folder(value: object) -> VaultPath:
    return (
        VaultPath("")
        if isinstance(value, str) and value in {"", "."}
        else _path(value.rstrip("/") if isinstance(value, str) else value)
    )


def _digits(value: object) -> object:
    if isinstance(value, str) and not (
        value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS
    ):
        raise ValueError("should be a whole number")
    return value


Whole = Annotated[int, BeforeValidator(_digits)]
Path = Annotated[
    VaultPath,
    PlainValidator(_path),
    WithJsonSchema(
        {
            "type": "string",
            "description": "a file of the vault, relative to it",
            "examples": ["Projects/garden/AGENTS.md"],
        }
    ),
]
FolderParameter = Annotated[
    VaultPath,
    PlainValidator(_folder),
    WithJsonSchema({"type": "string", "description": "a folder of the vault; empty: the vault"}),
]


class RequestModel(BaseModel):
    """A body or a query.

    Names may come in either case; unknown names are refused, lest a misspelled one be
    taken for absent.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,  # most calls are not made between two starts of the daemon
    )


class AppRequestModel(RequestModel):
    """What the app sends: unknown names are ignored."""

    model_config = ConfigDict(extra="ignore")


class NoParameters(RequestModel):
    """No query, or no body."""


def sentence_of(error: ValidationError) -> str:
    """All that is wrong, in one sentence."""
    found = []
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        where = ".".join(str(part)[:80] for part in one["loc"])
        says = one["msg"].removeprefix("Value error, ")
        found.append(f"{where}: {says}" if where else says)
    return "; ".join(found[:8])
