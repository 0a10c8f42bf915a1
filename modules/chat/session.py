"""A session: what the frontmatter of its file says, and how a change of it is written there."""

from __future__ import annotations

import json
import re
import unicodedata
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, TypeAlias, get_args

from parachuted.errors import EditRefusedError
from parachuted.modules import NoteEdit, RemoveKey, SetKey

from .messages import Conversation, one_line_json

FOLDER: Final = "Chat/sessions/"
UNTITLED: Final = "Chat"
TitleSource: TypeAlias = Literal["default", "ai", "user"]
SessionMode: TypeAlias = Literal["default", "workspace", "trusted", "sandboxed"]
Source: TypeAlias = Literal[
    "parachute", "claude-code", "claude", "chatgpt", "telegram", "discord", "matrix"
]

_LONGEST_NAME = 80
_MOST_NAME_BYTES = 240  # with a day and `.md` within 255
_LONGEST_TITLE = 300
_NO_NAME = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|#^\[\]]+')
_DATED = re.compile(r"(?P<day>\d{4}-\d{2}-\d{2})[ _-]?(?P<rest>.*)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[ ._/-][A-Za-z0-9]+)*")
_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_NAMESPACE = uuid.UUID("6d0c9a6e-4f1c-5b52-9d0e-0c8a3f6c7b11")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPermissions:
    """None is all, an empty list none."""

    allowed_folders: tuple[str, ...] | None = None
    allowed_mcps: tuple[str, ...] | None = None
    capabilities: tuple[str, ...] = ("Read",)
    sandbox_override: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkedBot:
    platform: str
    chat_id: str
    chat_type: str | None = None
    linked_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Times are ISO 8601 in UTC.

    `continued_from` is the session that it goes on from, `parent_id` the one whose agent made it,
    `history` the `chain_digest` of its messages.
    """

    id: str
    para_id: str
    path: str
    title: str | None = None
    title_source: TitleSource = "default"
    summary: str | None = None
    tags: tuple[str, ...] = ()
    archived: bool = False
    mode: SessionMode = "default"
    model: str | None = None
    context_folders: tuple[str, ...] = ()
    permissions: SessionPermissions | None = None
    created_at: str
    updated_at: str
    agent: str | None = None
    workspace: str | None = None
    working_directory: str | None = None
    source: Source = "parachute"
    linked_bot: LinkedBot | None = None
    continued_from: str | None = None
    parent_id: str | None = None
    original_id: str | None = None
    created_by: str | None = None
    curator_session_id: str | None = None
    curator_last_run: Mapping[str, object] | None = None
    bridge_context_log: tuple[Mapping[str, object], ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)
    message_count: int = 0
    history: str = ""


Fields: TypeAlias = dict[str, Any]
"""Fields of a `Session` by name; None takes one out."""

# how each field stands in the frontmatter
_TEXTS: Final = (
    "title",
    "summary",
    "model",
    "agent",
    "workspace",
    "working_directory",
    "continued_from",
    "parent_id",
    "original_id",
    "created_by",
    "curator_session_id",
    "created_at",
)
_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "title_source": get_args(TitleSource),
    "mode": get_args(SessionMode),
    "source": get_args(Source),
}
_LISTS: Final = ("tags", "context_folders")
_JSON: Final[Mapping[str, type]] = {
    "curator_last_run": dict,
    "bridge_context_log": list,
    "metadata": dict,
}
_NESTED: Final[Mapping[str, Sequence[str]]] = {
    "permissions": [one.name for one in fields(SessionPermissions)],
    "linked_bot": [f"linked_bot_{one.name}" for one in fields(LinkedBot)],
}
_KNOWN: Final = {one.name for one in fields(Session)} - {
    *("path", "updated_at", "message_count", "history")
}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_time(value: object) -> str | None:
    """In UTC; None: it cannot be read, or has no day here."""
    try:
        at = datetime.fromisoformat(str(value).strip()).astimezone(UTC)
        at.astimezone()
    except (ValueError, OverflowError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def file_name(title: str | None, day: str, number: int = 1) -> str:
    """`number` tells twins apart."""
    words = " ".join(_NO_NAME.sub(" ", unicodedata.normalize("NFC", title or UNTITLED)).split())
    suffix = f" {number}" if number > 1 else ""
    most = _MOST_NAME_BYTES - (len(" 1000") if suffix else 0)  # file systems count bytes
    words = words[:_LONGEST_NAME].encode("utf-8", "ignore")[:most].decode(errors="ignore")
    return f"{day} {words.strip('. ') or UNTITLED}{suffix}.md"


def day_of(created_at: str) -> str:
    return datetime.fromisoformat(created_at).astimezone().date().isoformat()


def name_says(path: str, session: Session) -> str | None:
    """What a file's name says in place of the title: who renames it renames the session."""
    rest = _undated(path)
    names = session.title, untitled(session.para_id)
    return None if not rest or any(is_named(path, name) for name in names) else rest


def is_named(path: str, title: str | None) -> bool:
    rest = _undated(path)
    own, twin = (file_name(title, "", number).removesuffix(".md").strip() for number in (1, 2))
    return own in {rest, _unnumbered(rest)} or _unnumbered(rest) == _unnumbered(twin)


def is_named_by_us(path: str, session: Session) -> bool:
    """Whether the file's name follows from its session, and is not one that a person gave it."""
    is_dated = _DATED.fullmatch(path.rpartition("/")[2].removesuffix(".md")) is not None
    return is_dated and name_says(path, session) is None


def untitled(para_id: str) -> str:
    """As no other session ever is called, so that this name's history is its own."""
    return f"{UNTITLED} {para_id[-6:]}"


def _unnumbered(name: str) -> str:
    return re.sub(r" \d{1,4}\Z", "", name)


def _undated(path: str) -> str:
    stem = path.rpartition("/")[2].removesuffix(".md")
    match = _DATED.fullmatch(stem)
    return (match["rest"] if match else stem).strip()


def read_session(
    path: str,
    frontmatter: Mapping[str, object],
    conversation: Conversation,
    history: str,
    modified: datetime,
) -> tuple[Session, list[str]]:
    problems = list(conversation.problems)
    messages = conversation.messages
    values: dict[str, Any] = {}
    for key, read in _READERS.items():
        value, is_permission = frontmatter.get(key), key in _NESTED["permissions"]
        if value is None or (value == "" and not is_permission):
            continue
        try:
            values[key] = read(value)
        except (ValueError, RecursionError) as error:
            problems.append(f"{key} is {error}")
            if is_permission:  # what cannot be read allows nothing
                values[key] = ()
    if "title" in values and not is_named(path, values["title"]):
        values["title_source"] = "user"  # typed into the file, or as its name
    times = [at for at in (iso_time(message.at) for message in messages) if at is not None]
    created = iso_time(values.pop("created_at", None)) or min(times, default=None)
    changed = iso_time(modified) or now()
    permissions, linked_bot = (_nested(name, values) for name in _NESTED)
    has_permissions = not frontmatter.keys().isdisjoint(_NESTED["permissions"])
    is_linked = {"platform", "chat_id"} <= linked_bot.keys()
    session_id = str(frontmatter.get("id") or uuid.uuid5(_NAMESPACE, path))
    short = re.sub(r"[^a-z0-9]", "", session_id.lower())[-12:].rjust(12, "0")
    return Session(
        id=session_id,
        para_id=str(frontmatter.get("para_id") or f"para:chat:{short}"),
        path=path,
        created_at=created or changed,
        updated_at=max(times, default=created or changed),
        permissions=SessionPermissions(**permissions) if has_permissions else None,
        linked_bot=LinkedBot(**linked_bot) if is_linked else None,
        message_count=len(messages),
        history=history,
        **values,
    ), problems


def edits_of(changes: Mapping[str, object], present: Mapping[str, object]) -> list[NoteEdit]:
    """What writes these fields into frontmatter that holds the `present` keys. EditRefusedError."""
    edits: list[NoteEdit] = []
    for name, value in changes.items():
        check_value(name, value)
        if name in _NESTED:
            edits += _nested_edits(name, value, present)
        elif value is None or value in ("", (), [], {}):
            edits += _removed(name, present)
        elif name in _JSON:
            edits += _set(name, one_line_json(value), present)
        elif name in _LISTS:
            listed = value if isinstance(value, list | tuple) else ()
            edits += _set(name, list(map(one_line, listed)), present)
        else:
            edits += _set(name, value if isinstance(value, bool) else one_line(value), present)
    return edits


def new_frontmatter(fields: Fields) -> str:
    edits = [edit for edit in edits_of(fields, {}) if isinstance(edit, SetKey)]
    return "\n".join(["---", *(f"{edit.key}: {_yaml(edit.value)}" for edit in edits), "---", ""])


def _yaml(value: object) -> str:
    """One value of new frontmatter, on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return str(value) if is_plain else one_line_json(value)


def check_value(name: str, value: object) -> None:
    """EditRefusedError: there is no such field, or it cannot have that value."""
    allowed = _CHOICES.get(name)
    if allowed is not None and value not in allowed:
        raise EditRefusedError(f"{name} is one of {', '.join(allowed)}")
    if name == "title" and isinstance(value, str) and len(value) > _LONGEST_TITLE:
        raise EditRefusedError(f"a title has at most {_LONGEST_TITLE} characters")
    if name not in _KNOWN:
        raise EditRefusedError(f"a session has no field {name[:80]} that can be changed")


def one_line(value: object) -> str:
    return " ".join(str(value).encode("utf-8", "replace").decode().split())


def _nested(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Takes them out of the values."""
    present = [key for key in _NESTED[name] if key in values]
    return {key.removeprefix(f"{name}_"): values.pop(key) for key in present}


def _nested_edits(name: str, value: object, present: Mapping[str, object]) -> list[NoteEdit]:
    edits: list[NoteEdit] = []
    for key in _NESTED[name]:
        one = None if value is None else getattr(value, key.removeprefix(f"{name}_"))
        if one is None:
            edits += _removed(key, present)
        else:
            listed = list(map(one_line, one)) if isinstance(one, list | tuple) else None
            edits += _set(key, one_line(one) if listed is None else listed, present)
    return edits


def _removed(key: str, present: Mapping[str, object]) -> list[NoteEdit]:
    return [RemoveKey(key)] if key in present else []


def _set(key: str, value: Any, present: Mapping[str, object]) -> list[NoteEdit]:  # noqa: ANN401
    return [] if key in present and present[key] == value else [SetKey(key, value)]


def _text(value: object) -> str:
    if isinstance(value, list | dict):
        raise ValueError("a text")  # noqa: TRY004  for the reader of all keys
    return str(value)


def _choice(allowed: Sequence[str], value: object) -> str:
    if str(value) not in allowed:
        raise ValueError(f"one of {', '.join(allowed)}")
    return str(value)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, list) or any(isinstance(one, list | dict) for one in value):
        raise ValueError("a list of texts")
    return tuple(map(str, value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")  # noqa: TRY004  the same
    return value


def _json(kind: type, value: object) -> object:
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        found = None
    if kind is list and isinstance(found, list):
        return tuple(one for one in found if isinstance(one, dict))
    if kind is dict and isinstance(found, dict):
        return found
    raise ValueError(f"JSON: {'a list' if kind is list else 'an object'}")


_READERS: Final[Mapping[str, Callable[[object], object]]] = {
    **dict.fromkeys(_TEXTS, _text),
    **{key: partial(_choice, allowed) for key, allowed in _CHOICES.items()},
    **dict.fromkeys((*_LISTS, *_NESTED["permissions"]), _texts),
    **dict.fromkeys(_NESTED["linked_bot"], _text),
    "sandbox_override": str,
    **{key: partial(_json, kind) for key, kind in _JSON.items()},
    "archived": _flag,
}
"""How each key of the frontmatter is read; ValueError says what it has to be."""
