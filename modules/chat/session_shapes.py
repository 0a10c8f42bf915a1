"""Sessions and messages as the existing app reads them: its names, its types, and no null where it
wants a value.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from typing_extensions import TypedDict

from .messages import Message
from .session import LinkedBot, Session

Json = dict[str, object]


class AppSession(TypedDict):
    id: str
    paraId: str
    path: str
    title: str | None
    createdAt: str
    updatedAt: str
    lastAccessed: str
    messageCount: int
    archived: bool
    source: str
    module: str
    agentName: str | None
    agentPath: str | None
    agentType: str | None
    continuedFrom: str | None
    originalId: str | None
    workingDirectory: str | None
    trustLevel: str
    linkedBotPlatform: str | None
    linkedBotChatId: str | None
    linkedBotChatType: str | None
    workspaceId: str | None
    curatorSessionId: str | None
    curatorLastRun: Json | None
    bridgeContextLog: str | None
    parentSessionId: str | None
    createdBy: str | None
    mode: str
    model: str | None
    summary: str | None
    tags: list[str]
    contextFolders: list[str]
    metadata: Json


class AppMessage(TypedDict):
    """A message; `content` is a text, or blocks where tools were called."""

    id: str
    paraId: str
    sessionId: str
    role: str
    content: str | list[Json]
    timestamp: str | None
    isCompactSummary: bool


class AppConversation(AppSession):
    messages: list[AppMessage]


class SessionList(TypedDict):
    """Sessions, and the `cursor` of those that follow."""

    sessions: list[AppSession]
    next: str | None


class SessionRuns(TypedDict):
    """The runs of a conversation, the newest first, and its file. `recorded` are those that are
    known without what the file says.
    """

    path: str
    runs: list[str]
    recorded: list[str]


class SessionAnswer(TypedDict):
    session: AppSession


def session_shape(session: Session) -> AppSession:
    bot = session.linked_bot or LinkedBot(platform="", chat_id="")
    agent = session.agent
    is_path = agent is not None and "/" in agent
    last_run = None if session.curator_last_run is None else dict(session.curator_last_run)
    return AppSession(
        id=session.id,
        paraId=session.para_id,
        path=session.path,
        title=session.title,
        createdAt=session.created_at,
        updatedAt=session.updated_at,
        lastAccessed=session.updated_at,
        messageCount=session.message_count,
        archived=session.archived,
        source=session.source,
        module="chat",
        agentName=agent.rpartition("/")[2].removesuffix(".md") if agent else None,
        agentPath=agent if is_path else None,
        agentType=None,
        continuedFrom=session.continued_from,
        originalId=session.original_id,
        workingDirectory=session.working_directory,
        trustLevel="sandboxed" if session.mode == "sandboxed" else "direct",
        linkedBotPlatform=bot.platform or None,
        linkedBotChatId=bot.chat_id or None,
        linkedBotChatType=bot.chat_type,
        workspaceId=session.workspace,
        curatorSessionId=session.curator_session_id,
        curatorLastRun=last_run,
        bridgeContextLog=json.dumps([dict(one) for one in session.bridge_context_log])
        if session.bridge_context_log
        else None,
        parentSessionId=session.parent_id,
        createdBy=session.created_by,
        mode=session.mode,
        model=session.model,
        summary=session.summary,
        tags=list(session.tags),
        contextFolders=list(session.context_folders),
        metadata=_metadata(session, last_run),
    )


def conversation_shape(session: Session, messages: list[Message]) -> AppConversation:
    return AppConversation(
        **session_shape(session), messages=[message_shape(session.id, one) for one in messages]
    )


def message_shape(session_id: str, message: Message) -> AppMessage:
    content: str | list[Json] = message.content
    if message.tools:
        content = [
            {"type": "tool_use", "id": tool.id, "name": tool.name, "input": dict(tool.input)}
            for tool in message.tools
        ]
        content += [{"type": "text", "text": message.content}] if message.content else []
    return AppMessage(
        id=message.id,
        paraId=f"para:chat:{message.id}",
        sessionId=session_id,
        role=message.role,
        content=content,
        timestamp=message.at,
        isCompactSummary=message.meta.get("is_compact_summary") is True,
    )


def _metadata(session: Session, last_run: Json | None) -> Json:
    found: Json = {**session.metadata, "title_source": session.title_source}
    if last_run is not None:
        found["curator_last_run"] = last_run
    if session.permissions is not None:
        found["permissions"] = asdict(session.permissions)
    return found
