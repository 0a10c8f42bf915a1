"""What the app asks for that a daemon without rights to other programs' files does not have: Claude
Code's sessions, which `parachute chat --adopt` reads as the person, and its plugins.

The answers say so in the fields that the app reads.
"""

from __future__ import annotations

from typing import Final, Literal

from typing_extensions import TypedDict

from parachuted.errors import NotFoundError
from parachuted.modules import Response, route

from .importing import session_id_of
from .session_service import SessionService

_CLAUDE_CODE: Final = "/api/claude-code"
_PLUGINS: Final = "/api/plugins"
_ADOPT: Final = (
    "the daemon does not read Claude Code's files; type `parachute chat --adopt FILE`, which does "
    "so as you"
)
_NO_PLUGINS: Final = (
    "plugins are not installed as such: put their agents into .agents/, their skills into .skills/ "
    "and their MCP servers into .mcp.json"
)


class ClaudeCodeSessions(TypedDict):
    """None: the daemon reads none."""

    sessions: list[dict[str, object]]


class ClaudeCodeProjects(TypedDict):
    """None: the same."""

    projects: list[dict[str, object]]


class AdoptAnswer(TypedDict):
    """Whether a session of Claude Code has been adopted, and as which."""

    success: bool
    alreadyAdopted: bool
    parachuteSessionId: str
    message: str


class PluginList(TypedDict):
    """None."""

    plugins: list[dict[str, object]]


class ElsewhereRoutes(SessionService):
    """`/api/claude-code` and `/api/plugins`."""

    @route("GET", "/recent", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_recent(self) -> ClaudeCodeSessions:
        """Claude Code's latest sessions: none, since the daemon reads none of its files."""
        return {"sessions": []}

    @route("GET", "/projects", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_projects(self) -> ClaudeCodeProjects:
        """Claude Code's projects: none, for the same reason."""
        return {"projects": []}

    @route("GET", "/sessions", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_sessions(self) -> ClaudeCodeSessions:
        """The sessions of a project: none, for the same reason."""
        return {"sessions": []}

    @route("GET", "/sessions/{id}", prefix=_CLAUDE_CODE, tolerant=True)
    async def claude_code_session(self, id: str) -> ClaudeCodeSessions:  # noqa: A002  of the path
        """One of them: 404, which says how it is adopted."""
        del id
        raise NotFoundError(_ADOPT)

    @route("POST", "/adopt/{id}", prefix=_CLAUDE_CODE, tolerant=True)
    async def adopt(self, id: str) -> AdoptAnswer:  # noqa: A002  of the path
        """Whether that session of Claude Code has been adopted; if not, how it is."""
        mine = session_id_of("claude-code", id)
        is_there = mine in await self.sessions.known_ids([mine])
        return AdoptAnswer(
            success=is_there,
            alreadyAdopted=is_there,
            parachuteSessionId=mine if is_there else "",
            message="it is there" if is_there else _ADOPT,
        )

    @route("GET", "/", prefix=_PLUGINS, tolerant=True)
    async def plugins(self) -> PluginList:
        """The plugins: none."""
        return {"plugins": []}

    @route("POST", "/install", prefix=_PLUGINS, tolerant=True)
    async def install_plugin(self) -> PluginList:
        """Refused, with what to do instead."""
        return Response(status=400, body={"detail": _NO_PLUGINS})  # type: ignore[return-value]

    @route("DELETE", "/{slug}", prefix=_PLUGINS, tolerant=True)
    async def remove_plugin(self, slug: str) -> PluginList:
        """404: there is none."""
        raise _no_plugin(slug)

    @route("POST", "/{slug}/update", prefix=_PLUGINS, tolerant=True)
    async def update_plugin(self, slug: str) -> PluginList:
        """Refused as an installation is, with what to do instead."""
        del slug
        return Response(status=400, body={"detail": _NO_PLUGINS})  # type: ignore[return-value]

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


def _no_plugin(slug: str) -> NotFoundError:
    return NotFoundError(f"there is no plugin {slug[:80]!r}: {_NO_PLUGINS}")
