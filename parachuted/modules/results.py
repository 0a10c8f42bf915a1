"""Results: what a handler may return, made plain JSON before it leaves the module."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import Enum
from pathlib import PurePath
from typing import TypeAlias
from uuid import UUID

from parachuted.errors import ModuleFailedError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MOST_DEPTH = 64
_LARGEST = 2**63
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = re.compile(
    r"content-(type|length|encoding|range)|connection|keep-alive|transfer-encoding|trailer|upgrade|date|server|access-control-.*"
    r"|x-content-type-options",
    re.IGNORECASE,
)


class WrongResultError(ModuleFailedError):
    """The handler returned what is no JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer with another status than 200, or with headers of its own. The `body` is sent as JSON."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 200 <= self.status <= 599:  # noqa: PLR2004  what HTTP has for an answer
            raise ValueError(f"{self.status} is no status of an answer: use 200 to 599")
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or _OURS.fullmatch(name):
                raise ValueError(f"the header {name!r} is no name of one, or is the daemon's own: it says how an answer is sent and read")
            if any(ord(character) < 32 or ord(character) == 127 for character in f"{name}{value}"):  # noqa: PLR2004  ASCII's controls
                raise ValueError(f"the header {name!r} holds a control character")


def to_json(value: object) -> Json:
    """The value in plain JSON: dataclasses and models as objects, times in ISO 8601, paths as text. Raises WrongResultError."""
    return _plain(value, "", 0)


def _plain(value: object, where: str, depth: int) -> Json:
    if depth > _MOST_DEPTH:
        raise WrongResultError(f"{where or 'It'} is nested more than {_MOST_DEPTH} levels deep, or holds itself.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, where, depth + 1)
    if isinstance(value, int | float):
        return _number(value, where)
    if isinstance(value, str | PurePath | UUID):
        return _text(str(value), where)
    return value.isoformat() if isinstance(value, datetime | date | time) else _composed(value, where, depth)


def _composed(value: object, where: str, depth: int) -> Json:
    if isinstance(value, Mapping):
        return {_key(key, where): _plain(one, f"{where}.{key}".strip("."), depth + 1) for key, one in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [one.name for one in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name), f"{where}.{name}".strip("."), depth + 1) for name in names}
    dump = getattr(type(value), "model_dump", None)  # a pydantic model, without importing pydantic for the modules that have none
    if callable(dump):
        return _plain(dump(value, mode="json"), where, depth + 1)
    if isinstance(value, bytes | bytearray | memoryview):
        raise WrongResultError(f"{where or 'It'} is bytes, which JSON has not: make it a text (base64), or return the path of a file.")
    if isinstance(value, Sequence | AbstractSet):
        items = sorted(value, key=repr) if isinstance(value, AbstractSet) else value
        return [_plain(one, f"{where}[{number}]", depth + 1) for number, one in enumerate(items)]
    told = f"{where or 'It'} is a {type(value).__name__}, which has no form in JSON: return dicts, lists, texts, numbers or dataclasses."
    raise WrongResultError(told)


def _key(key: object, where: str) -> str:
    if isinstance(key, Enum):
        key = key.value
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    if isinstance(key, date):
        return key.isoformat()
    if not isinstance(key, str):
        raise WrongResultError(f"{where or 'It'} has a {type(key).__name__} as a key; JSON has only texts there.")
    return _text(key, where)


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise WrongResultError(f"{where or 'It'} holds half a character (a surrogate), which no JSON can carry.") from error
    return str(text)


def _number(number: float, where: str) -> int | float:
    if isinstance(number, int):
        if not -_LARGEST <= number < 2 * _LARGEST:
            raise WrongResultError(f"{where or 'It'} is a number of more than 64 bits: return it as a text.")
        return int(number)
    if not math.isfinite(number):
        raise WrongResultError(f"{where or 'It'} is {number}, which JSON has not: return None instead.")
    return float(number)
