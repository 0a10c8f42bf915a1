"""Chat: conversations as files, with agents that read and write the vault."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from parachuted.modules import Finding

from .curator import Curator
from .importing import ElsewhereRoutes
from .permissions import SharedChats
from .session_tools import SessionTools
from .sessions import Sessions
from .turn_routes import TurnRoutes
from .turns import Turns
from .workspaces import WorkspaceRoutes


class ChatSettings(BaseModel):
    """What a person can set, under `config:` of modules.yaml."""

    model_config = ConfigDict(extra="forbid")

    curator: bool = Field(
        default=True,
        description="whether a curator keeps titles and summaries; off, a hook of yours can",
    )
    brain_context: bool = Field(
        default=True, description="whether what Brain knows of a message goes into the prompt"
    )
    write_back: bool = Field(
        default=True, description="whether facts of conversations are kept in Brain"
    )


class ChatModule(
    ElsewhereRoutes,
    SessionTools,
    TurnRoutes,
    WorkspaceRoutes,
):
    Settings = ChatSettings

    async def on_enable(self) -> None:
        self.sessions = Sessions(self)
        self.shared_chats = SharedChats(self.sessions)
        self.spawn(self.sessions.load, name="read the sessions")
        self.turns = Turns(self, self.sessions, self.shared_chats)
        self.curator = Curator(self, self.sessions, self.turns.work.run_sessions)
        self.bridge = self.turns.work.bridge
        self.write_back = self.turns.work.write_back
        await self.write_back.load()
        self.turns.followers.append(self.turn_ended)

    async def doctor(self) -> list[Finding]:
        advice = "mend it, or name it by lower-case letters, digits and hyphens"
        _, findings = await self.workspaces()
        return [
            *await self.sessions.findings(),
            *(replace(finding, advice=advice) for finding in findings),
        ]

    async def on_disable(self) -> None:
        await self.turns.close()
