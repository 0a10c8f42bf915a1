"""What the app asks of Claude Code: its sessions, which are listed and adopted for the person at
this machine, and its plugins, of which there are none.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, Literal

from typing_extensions import TypedDict

from parachuted.errors import ActRefusedError, EditRefusedError, NotFoundError
from parachuted.modules import Response, route

from .import_routes import ImportRoutes
from .transcripts import (
    ClaudeCodeProject,
    ClaudeCodeSession,
    Transcript,
    Transcripts,
)

_CLAUDE_CODE: Final = "/api/claude-code"
_PLUGINS: Final = "/api/plugins"
_ELSEWHERE: Final = (
    "Claude Code's sessions are read for the person at this machine, without an API key; type "
    "`parachute chat --adopt FILE` there"
)
_NO_PLUGINS: Final = (
    "agents here run Claude Code without its plugins: put a plugin's agents into .agents/, its "
    "skills into .skills/ and its MCP servers into .mcp.json"
)


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
    """`/api/claude-code` and `/api/plugins`."""

    @route("GET", "/recent", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_recent(self) -> ClaudeCodeSessions:
        """Claude Code's latest sessions on this machine."""
        return {"sessions": await asyncio.to_thread(self._transcripts().newest)}

    @route("GET", "/projects", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_projects(self) -> ClaudeCodeProjects:
        """The folders that Claude Code was used in."""
        return {"projects": await asyncio.to_thread(self._transcripts().projects)}

    @route("GET", "/sessions", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_sessions(self, path: str | None = None) -> ClaudeCodeSessions:
        """The latest sessions of one of these folders, by its path or its encoded name."""
        return {"sessions": await asyncio.to_thread(self._transcripts().newest, path)}

    @route("GET", "/sessions/{id}", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_session(self, id: str) -> ClaudeCodeSession:  # noqa: A002  of the path
        """One of them with what was said in it."""
        found = await self._transcript(id)
        return {**found.session, "messages": found.messages}

    @route("POST", "/adopt/{id}", prefix=_CLAUDE_CODE, tolerant=True, timeout_s=600)
    async def adopt(self, id: str) -> AdoptAnswer:  # noqa: A002  of the path
        """Make a conversation of a session of Claude Code, if that was not done before."""
        found = await self._transcript(id)
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

    def _transcripts(self) -> Transcripts:
        """ActRefusedError: the caller is another than the person at this machine."""
        call = self.current_call
        if call.key or call.is_limited or call.run is not None:
            raise ActRefusedError(_ELSEWHERE)
        return Transcripts(Path.home() / ".claude/projects")

    async def _transcript(self, session_id: str) -> Transcript:
        found = await asyncio.to_thread(self._transcripts().get, session_id)
        if found is None:
            raise NotFoundError(f"Claude Code has no session {session_id[:80]!r} on this machine")
        return found

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
