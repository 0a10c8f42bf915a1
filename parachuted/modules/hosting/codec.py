"""Errors and notes on the pipe, so that a module in its own process is written like any other.

Only errors that authors or callers are promised keep their class; any other arrives as
ModuleFailedError.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from types import MappingProxyType
from typing import Any

from parachuted.access.notes import Note, NoteLink, NoteSection
from parachuted.errors import (
    ActRefusedError,
    AgentFailedError,
    AgentUnavailableError,
    BodyTooLargeError,
    ConflictError,
    EditRefusedError,
    HookRefusedError,
    ModuleFailedError,
    NotFoundError,
    PathRefusedError,
    RequestBodyError,
    StorageFailedError,
)
from parachuted.modules.hosting.framing import RefusalFrame
from parachuted.modules.registry.arguments import WrongArgumentsError
from parachuted.modules.results import to_json

_BY_MESSAGE: Mapping[str, type[Exception]] = MappingProxyType(
    {
        kind.__name__: kind
        for kind in (
            ActRefusedError,
            AgentFailedError,
            AgentUnavailableError,
            BodyTooLargeError,
            EditRefusedError,
            HookRefusedError,
            ModuleFailedError,
            NotFoundError,
            PathRefusedError,
            RequestBodyError,
            StorageFailedError,
            TypeError,
            ValueError,
        )
    }
)
_CONFLICT, _WRONG = ConflictError.__name__, WrongArgumentsError.__name__
_SIDES = ("base", "ours", "theirs")
_SECTION = tuple(one.name for one in fields(NoteSection))
_LINK = tuple(one.name for one in fields(NoteLink))
_MOST_TEXT = 20_000
_MOST_AT_ONCE = 2_000


def refusal_of(asked: int, error: BaseException) -> RefusalFrame:
    message = (str(error) or type(error).__name__)[
        -_MOST_TEXT:
    ]  # of a traceback, the end says what it was
    if isinstance(error, ConflictError):
        sides = {side: base64.b64encode(getattr(error, side)).decode() for side in _SIDES}
        return RefusalFrame(
            id=asked,
            error=_CONFLICT,
            message=message,
            details={**sides, "is_known": error.is_known},
        )
    if isinstance(error, WrongArgumentsError):
        return RefusalFrame(
            id=asked,
            error=_WRONG,
            message=message,
            details={"problems": [str(problem) for problem in error.problems]},
        )
    name = next(
        (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _BY_MESSAGE), None
    )
    if name is None:
        return RefusalFrame(
            id=asked, error=ModuleFailedError.__name__, message=f"{type(error).__name__}: {message}"
        )
    return RefusalFrame(id=asked, error=name, message=message)


def error_of(refusal: RefusalFrame) -> Exception:
    if refusal.error == _CONFLICT:
        return _conflict(refusal)
    if refusal.error == _WRONG:
        problems = refusal.details.get("problems")
        return WrongArgumentsError(
            [str(problem) for problem in problems]
            if isinstance(problems, list)
            else [refusal.message]
        )
    return _BY_MESSAGE.get(refusal.error, ModuleFailedError)(refusal.message)


def _conflict(refusal: RefusalFrame) -> Exception:
    try:
        base, ours, theirs = (
            base64.b64decode(str(refusal.details.get(side, "")), validate=True) for side in _SIDES
        )
    except ValueError:
        return ModuleFailedError(refusal.message)
    return ConflictError(
        refusal.message,
        base=base,
        ours=ours,
        theirs=theirs,
        is_known=refusal.details.get("is_known") is True,
    )


class RemoteObject(dict[str, object]):
    """An object that came over the pipe, where it was a dataclass: `mention.confidence` reads what
    `mention["confidence"]` does.
    """

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def remote_value(value: object) -> object:
    """The JSON value with its objects readable in both ways, as in a module that the value's maker
    runs beside.
    """
    if isinstance(value, Mapping):
        return RemoteObject({str(name): remote_value(one) for name, one in value.items()})
    return [remote_value(one) for one in value] if isinstance(value, list) else value


def is_large(value: object) -> bool:
    """Whether a JSON value holds so much that a loop should leave it to a thread; looks at no more
    than that.
    """
    seen, waiting = 0, [value]
    while waiting and seen <= _MOST_AT_ONCE:
        one = waiting.pop()
        inner = (
            list(one.values()) if isinstance(one, Mapping) else one if isinstance(one, list) else []
        )
        seen += 1 + len(inner)
        waiting += inner[:_MOST_AT_ONCE]
    return seen > _MOST_AT_ONCE


def note_to_json(note: Note) -> Mapping[str, object]:
    """All of it: the other end has no index to look links up in."""
    return {
        "path": note.path,
        "digest": note.digest,
        "text": note.text,
        "frontmatter": to_json(note.frontmatter),
        "title": note.title,
        "tags": list(note.tags),
        "created": note.created.isoformat(),
        "modified": note.modified.isoformat(),
        "body_start": note.body_start,
        "sections": [[getattr(one, name) for name in _SECTION] for one in note.sections],
        "links": [[getattr(one, name) for name in _LINK] for one in note.links],
    }


def note_of(value: Mapping[str, Any]) -> Note:
    given = dict(value)
    sections: Sequence[Sequence[Any]] = given.pop("sections")
    links: Sequence[Sequence[Any]] = given.pop("links")
    return Note(
        **{
            **given,
            "tags": tuple(given["tags"]),
            "created": datetime.fromisoformat(given["created"]),
            "modified": datetime.fromisoformat(given["modified"]),
        },
        find_sections=lambda _text: tuple(
            NoteSection(**dict(zip(_SECTION, one, strict=True))) for one in sections
        ),
        find_links=lambda _text: tuple(
            NoteLink(**dict(zip(_LINK, one, strict=True))) for one in links
        ),
    )
