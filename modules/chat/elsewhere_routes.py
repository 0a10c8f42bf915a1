"""What the app asks of Claude Code: its sessions, in `~/.claude/projects`, which the person at this
machine lists and adopts, and its plugins, of which there are none.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NotRequired, TypeVar

from typing_extensions import TypedDict

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import Response, route

from .importing import Imported, ImportRoutes, read_export

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


class ClaudeCodeMessage(TypedDict):
    """What was said."""

    type: str
    content: str
    timestamp: str | None


class ClaudeCodeSession(TypedDict):
    """A session of Claude Code, as the app reads it; `messages` where one is asked for."""

    sessionId: str
    title: str
    firstMessage: str
    messageCount: int
    createdAt: str | None
    lastTimestamp: str | None
    model: str | None
    cwd: str | None
    projectPath: str | None
    projectDisplayName: str
    messages: NotRequired[list[ClaudeCodeMessage]]


class ClaudeCodeProject(TypedDict):
    """A folder that Claude Code was used in; `encodedName` is its name among the transcripts."""

    encodedName: str
    path: str
    sessionCount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    file: Path
    document: dict[str, Any]
    found: Imported

    @property
    def session(self) -> ClaudeCodeSession:
        events = self.document["events"]
        cwd = next((event["cwd"] for event in events if isinstance(event.get("cwd"), str)), None)
        spoken = (event.get("message") for event in events if event.get("type") == "assistant")
        models = (one.get("model") for one in spoken if isinstance(one, dict))
        said = self.found.messages
        times = [one.at for one in said if one.at]
        return ClaudeCodeSession(
            sessionId=self.file.stem,
            title=self.found.title,
            firstMessage=said[0].content[:_PREVIEW],
            messageCount=len(said),
            createdAt=times[0] if times else None,
            lastTimestamp=times[-1] if times else None,
            model=next((model for model in models if isinstance(model, str)), None),
            cwd=cwd,
            projectPath=cwd,
            projectDisplayName=Path(cwd).name if cwd else self.file.parent.name,
        )

    @property
    def messages(self) -> list[ClaudeCodeMessage]:
        return [
            ClaudeCodeMessage(type=message.role, content=message.content, timestamp=message.at)
            for message in self.found.messages
        ]


# these block on the disk, and pass over what cannot be read


def _newest(project: str | None = None) -> list[ClaudeCodeSession]:
    names = None if project is None else {project, _NOT_PLAIN.sub("-", project.rstrip("/"))}
    files = [file for file in _files() if names is None or file.parent.name in names]
    return [one.session for one in filter(None, map(_read, files[:_MOST]))]


def _projects() -> list[ClaudeCodeProject]:
    by_name: dict[str, list[Path]] = {}
    for file in _files():
        by_name.setdefault(file.parent.name, []).append(file)
    found = []
    for name, files in by_name.items():
        last = next(filter(None, map(_read, files)), None)
        path = (last and last.session["cwd"]) or name.replace("-", "/")
        found.append(ClaudeCodeProject(encodedName=name, path=path, sessionCount=len(files)))
    return found


def _get(session_id: str) -> Transcript:
    files = _files() if _ID.fullmatch(session_id) else []
    found = next(filter(None, (_read(file) for file in files if file.stem == session_id)), None)
    if found is None:
        raise NotFoundError(f"Claude Code has no session {session_id[:80]!r} on this machine")
    return found


def _files() -> list[Path]:
    found = (
        path
        for path in (Path.home() / ".claude/projects").glob("*/*.jsonl")
        if path.is_file() and not (path.is_symlink() or path.parent.is_symlink())
    )
    return sorted(found, key=lambda one: (one.stat().st_mtime_ns, one), reverse=True)


def _read(file: Path) -> Transcript | None:
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


class ClaudeCodeSessions(TypedDict):
    """Sessions of Claude Code, the newest first."""

    sessions: list[ClaudeCodeSession]


class ClaudeCodeProjects(TypedDict):
    """The folders that Claude Code was used in."""

    projects: list[ClaudeCodeProject]


class AdoptAnswer(TypedDict):
    """The conversation that a session of Claude Code has become, now or earlier."""

    success: bool
    alreadyAdopted: bool
    parachuteSessionId: str
    filePath: str
    messageCount: int
    message: str


class PluginList(TypedDict):
    """None."""

    plugins: list[dict[str, object]]


class ElsewhereRoutes(ImportRoutes):
    @route("GET", "/recent", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_recent(self) -> ClaudeCodeSessions:
        """Claude Code's latest sessions on this machine."""
        return {"sessions": await self._ask(_newest)}

    @route("GET", "/projects", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_projects(self) -> ClaudeCodeProjects:
        """The folders that Claude Code was used in."""
        return {"projects": await self._ask(_projects)}

    @route("GET", "/sessions", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_sessions(self, path: str | None = None) -> ClaudeCodeSessions:
        """The latest sessions of one of these folders, by its path or its encoded name."""
        return {"sessions": await self._ask(_newest, path)}

    @route("GET", "/sessions/{id}", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_session(self, id: str) -> ClaudeCodeSession:  # noqa: A002  of the path
        """One of them with what was said in it."""
        found = await self._ask(_get, id)
        return {**found.session, "messages": found.messages}

    @route("POST", "/adopt/{id}", prefix=_CLAUDE_CODE, tolerant=True, timeout_s=600)
    async def adopt(self, id: str) -> AdoptAnswer:  # noqa: A002  of the path
        """Make a conversation of a session of Claude Code, if that was not done before."""
        found = await self._ask(_get, id)
        report = await self.import_conversations(found.document)
        if report.errors:
            raise EditRefusedError(report.errors[0])
        session = await self.sessions.get(found.found.id)
        is_new = bool(report.session_ids)
        return AdoptAnswer(
            success=True,
            alreadyAdopted=not is_new,
            parachuteSessionId=session.id,
            filePath=session.path,
            messageCount=session.message_count,
            message="it is a conversation now" if is_new else "it was adopted before",
        )

    async def _ask(self, read: Callable[..., Result], *about: str | None) -> Result:
        call = self.current_call
        if call.key or call.is_limited or call.run is not None:
            raise ActRefusedError(_ELSEWHERE)
        return await asyncio.to_thread(read, *about)

    @route("GET", "/", prefix=_PLUGINS, tolerant=True)
    async def plugins(self) -> PluginList:
        """The plugins that agents here use: none."""
        return {"plugins": []}

    @route("POST", "/install", prefix=_PLUGINS, tolerant=True)
    async def install_plugin(self) -> PluginList:
        """501, with what to do instead."""
        return _not_implemented()

    @route("DELETE", "/{slug}", prefix=_PLUGINS, tolerant=True)
    async def remove_plugin(self, slug: str) -> PluginList:
        """404: there is none."""
        raise _no_plugin(slug)

    @route("POST", "/{slug}/update", prefix=_PLUGINS, tolerant=True)
    async def update_plugin(self, slug: str) -> PluginList:
        """501, as for an installation."""
        del slug
        return _not_implemented()

    @route("GET", "/{slug}/check-update", prefix=_PLUGINS, tolerant=True)
    async def check_plugin_update(self, slug: str) -> PluginList:
        """404: there is none that could have one."""
        raise _no_plugin(slug)

    @route("GET", "/{slug}/{kind}/{name}", prefix=_PLUGINS, tolerant=True)
    async def plugin_part(
        self, slug: str, kind: Literal["skills", "agents"], name: str
    ) -> PluginList:
        """A plugin's skill or agent: 404, for the same reason."""
        del kind, name
        raise _no_plugin(slug)


def _not_implemented() -> PluginList:
    return Response(status=501, body={"error": _NO_PLUGINS, "detail": _NO_PLUGINS})  # type: ignore[return-value]


def _no_plugin(slug: str) -> NotFoundError:
    return NotFoundError(f"there is no plugin {slug[:80]!r}: {_NO_PLUGINS}")
