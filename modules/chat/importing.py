"""Reads the exports of ChatGPT and Claude, and the transcripts of Claude Code: conversations with
their messages, in order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

from .messages import Message, Role, ToolUse
from .session import iso_time, one_line

Export: TypeAlias = Literal["chatgpt", "claude", "claude-code"]

_NAMESPACE: Final = uuid.UUID("0b8d0d0e-5a53-5c0f-9c55-3a2c1f8f6f0a")
_ROLES: Final[Mapping[object, Role]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
}
_LONGEST_TITLE: Final = 200


class ExportError(ValueError):
    """The file is not an export that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A conversation of an export. Its `id` follows from where it comes from."""

    id: str
    source: Export
    original_id: str
    title: str
    created_at: str | None
    messages: tuple[Message, ...]


def session_id_of(source: Export, original: str) -> str:
    """The id of the session that a conversation of that program becomes."""
    return str(uuid.uuid5(_NAMESPACE, f"{source}:{original}"))


def read_export(data: object) -> tuple[list[Imported], list[str]]:
    """The conversations of an export, and what is wrong with others.

    `data` is the content of `conversations.json`, or one conversation of it. Raises ExportError.
    """
    if isinstance(data, dict) and isinstance(data.get("conversations"), list):
        data = data["conversations"]
    conversations = data if isinstance(data, list) else [data]
    found: dict[str, Imported] = {}
    problems = []
    for number, one in enumerate(conversations, 1):
        try:
            read = _read(one)
        except ExportError as error:
            problems.append(f"conversation {number}: {error}")
        else:
            found[read.id] = read
    if not found and not problems:
        raise ExportError("the export holds no conversation")
    return list(found.values()), problems


def _read(one: object) -> Imported:
    if isinstance(one, dict) and isinstance(one.get("mapping"), dict):
        source: Export = "chatgpt"
        messages = list(_chatgpt_messages(one))
        original, created = one.get("conversation_id") or one.get("id"), one.get("create_time")
        title = one.get("title")
    elif isinstance(one, dict) and isinstance(one.get("chat_messages"), list):
        source, messages = "claude", list(_claude_messages(one["chat_messages"]))
        original, created, title = one.get("uuid"), one.get("created_at"), one.get("name")
    elif isinstance(one, dict) and isinstance(one.get("events"), list):
        events = [event for event in one["events"] if isinstance(event, dict)]
        source, messages = "claude-code", list(_claude_code_messages(events))
        original, created = one.get("sessionId"), None
        title = _title_of(events) or (messages[0].content if messages else "")
    else:
        raise ExportError("it is neither one of ChatGPT's nor one of Claude's or Claude Code's")
    if not isinstance(original, str) or not original:
        raise ExportError("it has no id")
    if not messages:
        raise ExportError("it has no message")
    return Imported(
        id=session_id_of(source, original),
        source=source,
        original_id=original,
        title=one_line(title or "")[:_LONGEST_TITLE] or "Imported chat",
        created_at=_time(created) or messages[0].at,
        messages=tuple(messages),
    )


def _chatgpt_messages(one: Mapping[str, object]) -> Iterator[Message]:
    """The branch that was shown last: from its end up to the first message, and back."""
    mapping = one["mapping"]
    nodes: Mapping[object, object] = mapping if isinstance(mapping, dict) else {}
    branch: dict[object, Mapping[str, object]] = {}
    at: object = one.get("current_node") or next(reversed(list(nodes)), None)
    while isinstance(node := nodes.get(at), dict) and at not in branch:
        branch[at] = node
        at = node.get("parent")
    for place, node in reversed(branch.items()):
        message = node.get("message")
        if not isinstance(message, dict):
            continue
        metadata = message.get("metadata")
        is_hidden = isinstance(metadata, dict) and metadata.get(
            "is_visually_hidden_from_conversation"
        )
        author, content = message.get("author"), message.get("content")
        role = _ROLES.get(author.get("role")) if isinstance(author, dict) else None
        text = (
            _parts(content.get("parts") or [content.get("text")])
            if isinstance(content, dict)
            else ""
        )
        if role is not None and text and not is_hidden:
            yield _message(str(place), role, text, message.get("create_time"))


def _claude_messages(said: Sequence[object]) -> Iterator[Message]:
    for number, one in enumerate(said):
        if not isinstance(one, dict) or (role := _ROLES.get(one.get("sender"))) is None:
            continue
        content = one.get("content")
        text = _parts(content) if isinstance(content, list) else ""
        text = text or (one["text"] if isinstance(one.get("text"), str) else "")
        attached = one.get("attachments")
        for file in attached if isinstance(attached, list) else ():
            if isinstance(file, dict) and file.get("extracted_content"):
                name = one_line(file.get("file_name") or "attachment")
                text += f"\n\n**{name}**\n\n{file['extracted_content']}"
        if text.strip():
            yield _message(str(one.get("uuid") or number), role, text, one.get("created_at"))


def _claude_code_messages(events: Sequence[Mapping[str, object]]) -> Iterator[Message]:
    """What was said, without side chains, what programs answered, and what no person typed.

    The CLI writes an answer in several events; those that follow one another are one message.
    """
    place, role, at = "", "", None
    texts: list[str] = []
    tools: list[ToolUse] = []

    def said() -> Iterator[Message]:
        if role in _ROLES and (texts or tools):
            yield replace(_message(place, _ROLES[role], "\n\n".join(texts), at), tools=tuple(tools))

    for event in events:
        spoken = event.get("message")
        who = str(event.get("type"))
        if event.get("isSidechain") or event.get("isMeta") or not isinstance(spoken, dict):
            continue
        content = spoken.get("content")
        blocks = content if isinstance(content, list) else [content]
        text, used = _parts(blocks), _tools_of(blocks)
        if who not in _ROLES or not (text or used):
            continue
        if who != role or who == "user":
            yield from said()
            place, role, at = str(event.get("uuid") or ""), who, event.get("timestamp")
            texts, tools = [], []
        texts += [text] if text else []
        tools += used
    yield from said()


def _tools_of(blocks: Sequence[object]) -> list[ToolUse]:
    return [
        ToolUse(id=str(one.get("id") or ""), name=str(one["name"]))
        for one in blocks
        if isinstance(one, dict) and one.get("type") == "tool_use" and one.get("name")
    ]


def _title_of(events: Sequence[Mapping[str, object]]) -> object:
    """The last summary that the CLI made."""
    return next(
        (one["summary"] for one in reversed(events) if isinstance(one.get("summary"), str)), None
    )


def _message(original: str, role: Role, text: str, at: object) -> Message:
    key = uuid.uuid5(_NAMESPACE, original).hex[:12]
    return Message(id=key, role=role, content=text, at=_time(at), meta={"imported": True})


def _parts(parts: object) -> str:
    """Texts are joined; what is none, such as a picture, leaves a word."""
    texts = []
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and "image" in str(part.get("content_type", "")):
            texts.append("*(a picture)*")
    return "\n\n".join(text for text in texts if text.strip())


def _time(value: object) -> str | None:
    if isinstance(value, int | float):
        try:
            return iso_time(datetime.fromtimestamp(value, UTC))
        except (OverflowError, ValueError, OSError):
            return None
    return iso_time(value) if isinstance(value, str) else None
