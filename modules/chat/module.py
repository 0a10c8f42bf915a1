"""Chat: conversations as files, with agents that read and write the vault."""

from __future__ import annotations

from dataclasses import replace

from parachuted.modules import Finding

from .elsewhere_routes import ElsewhereRoutes
from .session_routes import SessionRoutes
from .session_tools import SessionTools
from .settings import ChatSettings
from .transcript_routes import TranscriptRoutes
from .turn_routes import TurnRoutes
from .turn_workspaces import WorkspaceRoutes


class ChatModule(
    SessionRoutes,
    ElsewhereRoutes,
    TranscriptRoutes,
    SessionTools,
    TurnRoutes,
    WorkspaceRoutes,
):
    """The conversations: their files, routes, events and the ConversationInterface."""

    Settings = ChatSettings
    settings: ChatSettings

    async def on_enable(self) -> None:
        """Read the sessions."""
        await self.open_sessions()
        self.open_turns()
        await self.open_curator()

    async def doctor(self) -> list[Finding]:
        """What is wrong with the files of conversations and of workspaces."""
        advice = "mend it, or name it by lower-case letters, digits and hyphens"
        _, findings = await self.workspaces()
        return [*await super().doctor(), *(replace(one, advice=advice) for one in findings)]

    async def on_disable(self) -> None:
        """Let all messages reach their files."""
        try:
            await self.close_turns()
        finally:
            await self.sessions.close()

    async def end_turns(self, session_id: str) -> None:
        """Stop the turn that goes on there, end the process that waits for the next one, and forget
        what the curator said of it.
        """
        await self.turns.forget(session_id)
        await self.curator.forget(session_id)

    async def end_processes(self, session_id: str) -> None:
        """End the process that waits for the next turn there."""
        await self.turns.end_process(session_id)

    async def runs_of(self, session_id: str) -> list[str]:
        """The runs of a conversation's agent and of its curator, and those that kept facts of it in
        Brain, the newest first.
        """
        session = await self.sessions.get(session_id)
        recorded = self.recorded_runs_of(session.id)
        return sorted({*await super().runs_of(session_id), *recorded}, reverse=True)

    def recorded_runs_of(self, session_id: str) -> list[str]:
        """Those of them that are known without the conversation's file."""
        curated = self.turns.run_sessions.runs_of(session_id)
        return [*curated, *self.write_back.runs_of(session_id)]
