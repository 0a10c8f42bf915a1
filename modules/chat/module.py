"""Chat: conversations as files, with agents that read and write the vault."""

from __future__ import annotations

from .import_routes import ImportRoutes
from .prompt import PromptPart
from .session import Session
from .session_routes import SessionRoutes
from .session_tools import SessionTools
from .turn import EndedTurn, TurnRequest
from .turn_routes import TurnRoutes


class ChatModule(SessionRoutes, ImportRoutes, SessionTools, TurnRoutes):
    """The conversations: their files, routes, events and the ConversationInterface."""

    async def on_enable(self) -> None:
        """Read the sessions."""
        await self.open_sessions()
        await self.open_curator()
        self.open_turns()
        self.turns.parts.enrichers.append(self._from_brain)
        self.turns.run_listeners.append(self.run_sessions.add)
        self.turns.followers.append(self._exchange_ended)

    async def on_disable(self) -> None:
        """Let all messages reach their files."""
        await self.close_turns()
        await self.sessions.close()

    async def deliver(self, session_id: str, content: str) -> None:
        """Send a message to a conversation, whose agent answers it there. Returns at once."""
        await self.turns.start(TurnRequest(message=content, session_id=session_id, source="agent"))

    async def _from_brain(self, session: Session, message: str) -> list[PromptPart]:
        """What the bridge to Brain adds to a prompt."""
        found = await self.bridge.enrich(session, message)
        path = found.paths[0] if len(found.paths) == 1 else None
        part = PromptPart(kind="brain", text=found.text, path=path, count=found.count)
        return [part] if found.text else []

    async def _exchange_ended(self, ended: EndedTurn) -> None:
        self.exchange_done(ended.session, ended.question, ended.answer, ended.number)
