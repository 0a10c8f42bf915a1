"""Messages in a session's file: each stands below an HTML comment that says whose it is.

```
<!-- message {"id": "k3x9…", "role": "user", "at": "2026-11-23T10:00:00Z"} -->
### User

What the person said.
```

A line of a message's own text that looks like such a comment is written with a backslash before it,
so no text can pretend to be a message. What cannot be read is kept, and reported.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, TypeAlias, cast, get_args

Role: TypeAlias = Literal["user", "assistant", "system"]

ROLES: Final = get_args(Role)
_LETTERS = string.ascii_lowercase + string.digits
_ID_LENGTH = 12
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}")
_MARK = re.compile(r"^<!-- message\b[^\n]*(?:\n|\Z)", re.MULTILINE)
_WHOLE_MARK = re.compile(r"<!-- message (\{.*\}) -->[ \t\r]*\n?\Z")
_LABEL = re.compile(r"### (?:User|Assistant|System)[ \t\r]*(?:\n|\Z)")
_OLDER = re.compile(
    r"^### (?:para:(?:chat:)?(?P<id>[a-z0-9]{6,12}) )?(?P<role>User|Assistant|System) \| "
    r"(?P<at>[^\n|]{1,40}?)[ \t\r]*(?:\n|\Z)",
    re.MULTILINE | re.IGNORECASE,
)
_NOT_SAID = r"(\\*(?:<!-- message\b|<{7}(?![^ \r\n])))"  # marks of a message, and of a conflict
_ESCAPED = re.compile(rf"^\\{_NOT_SAID}", re.MULTILINE)
_TO_ESCAPE = re.compile(rf"^{_NOT_SAID}", re.MULTILINE)
_LONGEST_VALUE = 2_000
_DIGEST_SIZE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    id: str
    name: str
    input: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    id: str
    role: Role
    content: str
    at: str | None = None
    tools: tuple[ToolUse, ...] = ()
    meta: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_question(self) -> bool:
        return self.role == "user" and not self.meta.get("injected")

    @property
    def digest(self) -> str:
        return _digest(f"{self.role}\n{_plain(self.content)}")


@dataclass(frozen=True, slots=True)
class Part:
    raw: str
    message: Message | None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Conversation:
    head: str
    parts: tuple[Part, ...]

    @property
    def messages(self) -> list[Message]:
        return [part.message for part in self.parts if part.message is not None]

    @property
    def problems(self) -> list[str]:
        return [part.problem for part in self.parts if part.problem is not None]


def new_message_id() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))


def read_conversation(text: str, body_start: int = 0) -> Conversation:
    marks = list(_MARK.finditer(text, body_start))
    first = marks[0].start() if marks else len(text)
    older = list(_OLDER.finditer(text, body_start, first))
    starts = [*(mark.start() for mark in (*older, *marks)), len(text)]
    pieces = [text[start:stop] for start, stop in pairwise(starts)]
    taken: set[str] = set()
    parts = [_older_part(mark, raw, taken) for mark, raw in zip(older, pieces, strict=False)]
    parts += [
        _part(mark[0], raw, taken) for mark, raw in zip(marks, pieces[len(older) :], strict=True)
    ]
    return Conversation(head=text[: starts[0]], parts=tuple(parts))


def append_messages(text: str, messages: Iterable[Message]) -> str:
    end_of_line = "\r\n" if "\r\n" in text[:4096] else "\n"
    parts = [text]
    if text and not text.endswith("\n"):
        parts.append(end_of_line)
    for message in messages:
        written = f"\n{compose_message(message)}"
        parts.append(written if end_of_line == "\n" else written.replace("\n", end_of_line))
    return "".join(parts)


def compose_message(message: Message) -> str:
    content = _plain(message.content)
    said: dict[str, object] = {"id": message.id, "role": message.role}
    if message.at is not None:
        said["at"] = message.at
    if message.tools:
        said["tools"] = [
            {"id": tool.id, "name": tool.name, "input": _short(tool.input)}
            for tool in message.tools
        ]
    said |= {name: value for name, value in message.meta.items() if name not in said}
    body = _TO_ESCAPE.sub(r"\\\1", content)
    return f"<!-- message {one_line_json(said)} -->\n### {message.role.capitalize()}\n\n{body}\n"


def one_line_json(value: object) -> str:
    """JSON that ends no comment and no frontmatter, and is valid Unicode."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.replace(">", "\\u003e").replace("<", "\\u003c").replace("---", "\\u002d--")
    return text.encode("utf-8", "replace").decode()


def chain_digest(messages: Sequence[Message]) -> str:
    """What names these messages in this order: a transcript of others does not fit."""
    return _digest("\n".join(f"{message.id} {message.digest}" for message in messages))


def _part(mark: str, raw: str, taken: set[str]) -> Part:
    said = _read_mark(mark)
    if isinstance(said, str):
        return Part(raw=raw, message=None, problem=said)
    body = raw[len(mark) :]
    label = _LABEL.match(body)
    if label is not None:
        body = body[label.end() :]
    message = Message(
        id=str(said["id"]),
        role=cast("Role", said["role"]),
        content=_ESCAPED.sub(r"\1", _plain(body)),
        at=cast("str | None", said.get("at")),
        tools=tuple(_tools(said.get("tools"))),
        meta={
            name: value for name, value in said.items() if name not in {"id", "role", "at", "tools"}
        },
    )
    return _counted(raw, message, taken)


def _older_part(mark: re.Match[str], raw: str, taken: set[str]) -> Part:
    """A message as earlier servers wrote it: `### User | 2026-02-24 10:30`."""
    content = _plain(raw[len(mark[0]) :])
    role = cast("Role", mark["role"].lower())
    message_id = mark["id"] or _digest(f"{mark['at']} {role} {content}")[:_ID_LENGTH]
    at = mark["at"].strip()
    return _counted(raw, Message(id=message_id, role=role, content=content, at=at), taken)


def _counted(raw: str, message: Message, taken: set[str]) -> Part:
    if message.id in taken:
        return Part(
            raw=raw, message=None, problem=f"the message {message.id} is there twice; remove one"
        )
    taken.add(message.id)
    return Part(raw=raw, message=message)


def _read_mark(mark: str) -> Mapping[str, object] | str:
    match = _WHOLE_MARK.match(mark)
    try:
        said = json.loads(match[1]) if match else None
    except (ValueError, RecursionError):
        said = None
    excerpt = mark.strip()[:80]
    if not isinstance(said, dict):
        return f"this comment is not as it was written: {excerpt}"
    if said.get("role") not in ROLES:
        return f"a message is of {', '.join(ROLES)}: {excerpt}"
    message_id, at = said.get("id"), said.get("at")
    if not (isinstance(message_id, str) and _ID.fullmatch(message_id)):
        return f"a message needs an id: {excerpt}"
    if not isinstance(at, str | None):
        return f"a message's `at` is a time: {excerpt}"
    return said


def _tools(said: object) -> Iterable[ToolUse]:
    for one in said if isinstance(said, list) else ():
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            values = one.get("input")
            yield ToolUse(
                id=str(one.get("id", "")),
                name=one["name"],
                input=values if isinstance(values, dict) else {},
            )


def _short(values: Mapping[str, object]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        is_long = len(text) > _LONGEST_VALUE
        found[str(name)[:200]] = f"{text[:_LONGEST_VALUE]}…" if is_long else value
    return found


def _plain(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode().strip("\n")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_SIZE).hexdigest()
