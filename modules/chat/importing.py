"""Conversations from elsewhere: exports of ChatGPT and Claude, and Claude Code's own transcripts in
`~/.claude/projects`, which the person at this machine lists and adopts; plugins, of which there are
none.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import Finding, Response, read_each, reading, route

from .messages import Message, Role, ToolUse
from .session import iso_time, one_line
from .session_routes import SessionRoutes

Export: TypeAlias = Literal["chatgpt", "claude", "claude-code"]

_NAMESPACE: Final = uuid.UUID("0b8d0d0e-5a53-5c0f-9c55-3a2c1f8f6f0a")
_ROLES: Final[Mapping[str, Role]] = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
}
_LONGEST_TITLE: Final = 200
_IMPORT: Final = "/api/import"
_MOST: Final = 100
_LARGEST: Final = 32 << 20  # what is read of a transcript
_PREVIEW: Final = 200
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9]")
Result = TypeVar("Result")
_CLAUDE_CODE: Final = "/api/claude-code"
_PLUGINS: Final = "/api/plugins"
_ELSEWHERE: Final = (
    "Claude Code's sessions are read for the person at this machine, without an API key"
)
_NO_PLUGINS: Final = (
    "agents here run Claude Code without its plugins: put a plugin's agents into .agents/, its "
    "skills into .skills/ and its MCP servers into .mcp.json"
)


class ExportError(ValueError):
    """The file is not an export that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """`is_own`: only the person speaks in it, and no file is quoted."""

    id: str
    source: Export
    original_id: str
    title: str
    created_at: str | None
    messages: tuple[Message, ...]
    is_own: bool = False
    left_out: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Reading:
    messages: list[Message] = field(default_factory=list)
    left_out: list[Finding] = field(default_factory=list)
    is_own: bool = True
    _ids: set[str] = field(default_factory=set)

    def add(self, message: Message) -> None:
        """A file has each id once."""
        while message.id in self._ids:
            message = replace(message, id=_key(f"{message.id}:{len(self.messages)}"))
        self._ids.add(message.id)
        self.messages.append(message)


def session_id_of(source: Export, original: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, f"{source}:{original}"))


def read_export(data: object) -> tuple[list[Imported], list[Finding]]:
    """The conversations of an export, and why others are left out. Raises ExportError."""
    if isinstance(data, dict) and isinstance(data.get("conversations"), list):
        data = data["conversations"]
    conversations = data if isinstance(data, list) else [data]
    if not conversations:
        raise ExportError("the export holds no conversation")
    return read_each(
        ((f"conversation {number}", one) for number, one in enumerate(conversations, 1)), _read
    )


def _read(one: object) -> Imported:
    # half characters, which no file and no answer can hold, become question marks
    one = json.loads(json.dumps(one, ensure_ascii=False).encode("utf-8", "replace"))
    if isinstance(one, dict) and isinstance(one.get("mapping"), dict):
        source: Export = "chatgpt"
        found = _chatgpt(one)
        original, created = one.get("conversation_id") or one.get("id"), one.get("create_time")
        title = one.get("title")
    elif isinstance(one, dict) and isinstance(one.get("chat_messages"), list):
        source, found = "claude", _claude(one["chat_messages"])
        original, created, title = one.get("uuid"), one.get("created_at"), one.get("name")
    elif isinstance(one, dict) and isinstance(one.get("events"), list):
        events = [event for event in one["events"] if isinstance(event, dict)]
        source, found = "claude-code", _Reading()
        for message in _claude_code_messages(events):
            found.add(message)
        original, created = one.get("sessionId"), None
        summaries = [one["summary"] for one in events if isinstance(one.get("summary"), str)]
        first = found.messages[0].content if found.messages else ""
        title = summaries[-1] if summaries else first
    else:
        raise ExportError("it is neither one of ChatGPT's nor one of Claude's or Claude Code's")
    if not isinstance(original, str) or not original:
        raise ExportError("it has no id")
    if not found.messages:
        why = f": {found.left_out[0].problem}" if found.left_out else ""
        raise ExportError(f"it has no message{why}")
    return Imported(
        id=session_id_of(source, original),
        source=source,
        original_id=original,
        title=one_line(title if isinstance(title, str) else "")[:_LONGEST_TITLE] or "Imported chat",
        created_at=_time(created) or found.messages[0].at,
        messages=tuple(found.messages),
        is_own=found.is_own and all(message.role == "user" for message in found.messages),
        left_out=tuple(found.left_out),
    )


def _chatgpt(conversation: Mapping[str, object]) -> _Reading:
    """The branch that was shown last: from its end up to the first message, and back."""
    found, mapping = _Reading(), conversation["mapping"]
    nodes: Mapping[str, object] = mapping if isinstance(mapping, dict) else {}
    branch: dict[str, Mapping[str, object]] = {}
    last, at = next(reversed(list(nodes)), None), conversation.get("current_node")
    if at and not isinstance(_node(nodes, at), dict):
        found.left_out.append(Finding(path="current_node", problem="it names no message"))
        at = None
    at = at or last
    while isinstance(node := _node(nodes, at), dict) and at not in branch:
        branch[str(at)] = node
        at = node.get("parent")
        if at and not isinstance(_node(nodes, at), dict):
            why = "its parent is no message, so what came before it is not known"
            found.left_out.append(Finding(path=f"message {str(node.get('id'))[:80]}", problem=why))
    for place, node in reversed(branch.items()):
        with reading(f"message {place[:80]}", found.left_out):
            for message in _chatgpt_message(place, node.get("message")):
                found.add(message)
    return found


def _node(nodes: Mapping[str, object], at: object) -> object:
    return nodes.get(at) if isinstance(at, str) else None


def _chatgpt_message(place: str, message: object) -> Iterator[Message]:
    if message is None:  # the root
        return
    if not isinstance(message, dict) or not isinstance(author := message.get("author"), dict):
        raise ExportError("it has no author")
    metadata, content = message.get("metadata"), message.get("content")
    is_hidden = isinstance(metadata, dict) and metadata.get("is_visually_hidden_from_conversation")
    role = _role(author.get("role"))
    if role is None or is_hidden:
        return
    if isinstance(content, dict):
        content = content.get("parts") or content.get("text") or []
    if text := _parts([content] if isinstance(content, str) else content):
        yield _message(place, role, text, message.get("create_time"))


def _claude(messages: Sequence[object]) -> _Reading:
    found = _Reading()
    for number, one in enumerate(messages, 1):
        with reading(f"message {number}", found.left_out):
            if not isinstance(one, dict) or (role := _role(one.get("sender"))) is None:
                raise ExportError("it is neither a person's nor an assistant's")
            content, attachments = one.get("content"), one.get("attachments")
            text = _parts(content) if isinstance(content, list) else ""
            text = text or _parts([one["text"]] if isinstance(one.get("text"), str) else content)
            for file in attachments if isinstance(attachments, list) else ():
                if isinstance(file, dict) and isinstance(file.get("extracted_content"), str):
                    name = one_line(file.get("file_name") or "attachment")
                    text += f"\n\n**{name}**\n\n{file['extracted_content']}"
                    found.is_own = False
            if text.strip():
                place = str(one.get("uuid") or number - 1)
                found.add(_message(place, role, text, one.get("created_at")))
    return found


def _claude_code_messages(events: Sequence[Mapping[str, object]]) -> Iterator[Message]:
    """Events of the CLI that follow one another are one message."""
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
        ToolUse(id=str(block.get("id") or ""), name=str(block["name"]))
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "tool_use" and block.get("name")
    ]


def _message(original: str, role: Role, text: str, at: object) -> Message:
    return Message(
        id=_key(original), role=role, content=text, at=_time(at), meta={"imported": True}
    )


def _key(text: str) -> str:
    return uuid.uuid5(_NAMESPACE, text).hex[:12]


def _role(value: object) -> Role | None:
    return _ROLES.get(value) if isinstance(value, str) else None


def _parts(parts: object) -> str:
    if not isinstance(parts, list):
        raise ExportError("its content is neither a text nor a list of parts")
    texts = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and "image" in str(part.get("content_type", "")):
            texts.append("*(a picture)*")
    return "\n\n".join(text for text in texts if text.strip())


def _time(value: object) -> str | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return iso_time(datetime.fromtimestamp(value, UTC))
        except (OverflowError, ValueError, OSError):
            return None
    return iso_time(value) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSession:
    """`origin` is whose text it counts as: `imported`, or `you`."""

    id: str
    title: str
    source: str
    message_count: int
    is_there: bool
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """With `dry_run`, what it would do. `warnings` are messages of imported ones, left out."""

    total_conversations: int
    imported_count: int
    skipped_count: int
    errors: list[str]
    session_ids: list[str]
    conversations: list[PlannedSession] = field(default_factory=list)
    run: str | None = None
    warnings: list[str] = field(default_factory=list)


class ImportRoutes(SessionRoutes):
    @route("POST", "/", prefix=_IMPORT, tolerant=True, timeout_s=600)
    async def import_conversations(
        self,
        data: list[object] | dict[str, object],
        *,
        archived: bool = False,
        dry_run: bool = False,
        trust: bool = False,
    ) -> ImportReport:
        """Import the `conversations.json` of ChatGPT or Claude, or transcripts of Claude Code, each
        as its `sessionId` and its `events`. What was imported before is left out. With `dry_run`
        it only says what it would do.

        What is imported counts as a stranger's text; with `trust`, those conversations count as
        yours in which only you speak.
        """
        try:
            found, left_out = read_export(data)
        except ExportError as error:
            raise EditRefusedError(str(error)) from error
        total = len(found) + len(left_out)
        known = await self.sessions.known_ids(one.id for one in found)
        made: list[str] = []
        planned: list[PlannedSession] = []
        for one in found:
            is_there, is_own = one.id in known, trust and one.is_own
            known.add(one.id)  # what an export holds twice is imported once
            with reading(one.title, left_out):
                if not (is_there or dry_run):
                    made.append(await self._add(one, archived=archived, is_own=is_own))
                planned.append(
                    PlannedSession(
                        id=one.id,
                        title=one.title,
                        source=one.source,
                        message_count=len(one.messages),
                        is_there=is_there,
                        origin="you" if is_own else "imported",
                    )
                )
        return ImportReport(
            total_conversations=total,
            imported_count=len(made),
            skipped_count=sum(session.is_there for session in planned),
            errors=list(map(_said, left_out)),
            session_ids=made,
            conversations=planned,
            run=self.current_call.own_run if made else None,
            warnings=[f"{one.title}, {_said(what)}" for one in found for what in one.left_out],
        )

    async def _add(self, imported_item: Imported, *, archived: bool, is_own: bool) -> str:
        created = await self.sessions.create(
            imported_item.messages,
            announce=False,
            write=partial(self.vault.import_note, is_own=is_own),
            id=imported_item.id,
            title=imported_item.title,
            title_source="ai",
            source=imported_item.source,
            original_id=imported_item.original_id,
            archived=archived,
            created_by="import",
            created_at=imported_item.created_at,
        )
        return created.id


def _said(finding: Finding) -> str:
    return f"{finding.path}: {finding.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    file: Path
    document: dict[str, Any]
    found: Imported

    @property
    def session(self) -> dict[str, Any]:
        """As the app reads it."""
        events = self.document["events"]
        cwd = next((event["cwd"] for event in events if isinstance(event.get("cwd"), str)), None)
        spoken = (event.get("message") for event in events if event.get("type") == "assistant")
        models = (one.get("model") for one in spoken if isinstance(one, dict))
        messages = self.found.messages
        times = [message.at for message in messages if message.at]
        return {
            "sessionId": self.file.stem,
            "title": self.found.title,
            "firstMessage": messages[0].content[:_PREVIEW],
            "messageCount": len(messages),
            "createdAt": times[0] if times else None,
            "lastTimestamp": times[-1] if times else None,
            "model": next((model for model in models if isinstance(model, str)), None),
            "cwd": cwd,
            "projectPath": cwd,
            "projectDisplayName": Path(cwd).name if cwd else self.file.parent.name,
        }


# these block on the disk, and pass over what cannot be read


def _newest(project: str | None = None) -> list[dict[str, Any]]:
    names = None if project is None else {project, _NOT_PLAIN.sub("-", project.rstrip("/"))}
    files = [file for file in _files() if names is None or file.parent.name in names]
    return [transcript.session for transcript in filter(None, map(_transcript, files[:_MOST]))]


def _projects() -> list[dict[str, Any]]:
    by_name: dict[str, list[Path]] = {}
    for file in _files():
        by_name.setdefault(file.parent.name, []).append(file)
    found = []
    for name, files in by_name.items():
        last = next(filter(None, map(_transcript, files)), None)
        path = (last and last.session["cwd"]) or name.replace("-", "/")
        found.append({"encodedName": name, "path": path, "sessionCount": len(files)})
    return found


def _get(session_id: str) -> Transcript:
    files = _files() if _ID.fullmatch(session_id) else []
    transcript = next(
        filter(None, (_transcript(file) for file in files if file.stem == session_id)), None
    )
    if transcript is None:
        raise NotFoundError(f"Claude Code has no session {session_id[:80]!r} on this machine")
    return transcript


def _files() -> list[Path]:
    found = (
        path
        for path in (Path.home() / ".claude/projects").glob("*/*.jsonl")
        if path.is_file() and not (path.is_symlink() or path.parent.is_symlink())
    )
    return sorted(found, key=lambda one: (one.stat().st_mtime_ns, one), reverse=True)


def _transcript(file: Path) -> Transcript | None:
    try:
        with file.open("rb") as opened:
            data = opened.read(_LARGEST)
    except OSError:
        return None
    events = [event for line in data.split(b"\n") for event in _event(line)]
    named = next((str(one["sessionId"]) for one in events if one.get("sessionId")), file.stem)
    document: dict[str, Any] = {"sessionId": named, "events": events}
    found, _ = read_export(document)
    return Transcript(file=file, document=document, found=found[0]) if found else None


def _event(line: bytes) -> Iterator[dict[str, Any]]:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):  # the last line of a session that was killed
        return
    if isinstance(event, dict):
        yield event


class ElsewhereRoutes(ImportRoutes):
    @route("GET", "/recent", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_recent(self) -> dict[str, Any]:
        """Claude Code's latest sessions on this machine."""
        return {"sessions": await self._ask(_newest)}

    @route("GET", "/projects", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_projects(self) -> dict[str, Any]:
        """The folders that Claude Code was used in."""
        return {"projects": await self._ask(_projects)}

    @route("GET", "/sessions", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_sessions(self, path: str | None = None) -> dict[str, Any]:
        """The latest sessions of one of these folders, by its path or its encoded name."""
        return {"sessions": await self._ask(_newest, path)}

    @route("GET", "/sessions/{id}", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_session(self, id: str) -> dict[str, Any]:  # noqa: A002  of the path
        """One of them with what was said in it."""
        transcript = await self._ask(_get, id)
        messages = [
            {"type": message.role, "content": message.content, "timestamp": message.at}
            for message in transcript.found.messages
        ]
        return {**transcript.session, "messages": messages}

    @route("POST", "/adopt/{id}", prefix=_CLAUDE_CODE, tolerant=True, timeout_s=600)
    async def adopt(self, id: str) -> dict[str, Any]:  # noqa: A002  of the path
        """Make a conversation of a session of Claude Code, if that was not done before."""
        transcript = await self._ask(_get, id)
        report = await self.import_conversations(transcript.document)
        if report.errors:
            raise EditRefusedError(report.errors[0])
        session = await self.sessions.get(transcript.found.id)
        is_new = bool(report.session_ids)
        return {
            "success": True,
            "alreadyAdopted": not is_new,
            "parachuteSessionId": session.id,
            "filePath": session.path,
            "messageCount": session.message_count,
            "message": "it is a conversation now" if is_new else "it was adopted before",
        }

    async def _ask(self, read: Callable[..., Result], *about: str | None) -> Result:
        call = self.current_call
        if call.key or call.is_limited or call.run is not None:
            raise ActRefusedError(_ELSEWHERE)
        return await asyncio.to_thread(read, *about)

    @route("GET", "/", prefix=_PLUGINS, tolerant=True)
    async def plugins(self) -> dict[str, Any]:
        """The plugins that agents here use: none."""
        return {"plugins": []}

    @route("POST", "/install", prefix=_PLUGINS, tolerant=True)
    async def install_plugin(self) -> dict[str, Any]:
        """501, with what to do instead."""
        return Response(status=501, body={"error": _NO_PLUGINS, "detail": _NO_PLUGINS})  # type: ignore[return-value]

    @route("POST", "/{slug}/update", prefix=_PLUGINS, tolerant=True)
    @route("DELETE", "/{slug}", prefix=_PLUGINS, tolerant=True)
    @route("GET", "/{slug}/check-update", prefix=_PLUGINS, tolerant=True)
    @route("GET", "/{slug}/{kind}/{name}", prefix=_PLUGINS, tolerant=True)
    async def plugin(self, slug: str, kind: str = "", name: str = "") -> dict[str, Any]:
        """404: there is none."""
        del kind, name
        raise NotFoundError(f"there is no plugin {slug[:80]!r}: {_NO_PLUGINS}")
