"""Repeated messages: a message that is sent again, since the answer to it was lost, is said once.

What says that it was said is the session's file, so a restart of the daemon forgets nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from .messages import Message
from .session import Session
from .sessions import Sessions
from .turn import TurnRequest

_NEW_SESSIONS = uuid.UUID("c0a4f1de-5d0b-4b56-9a39-6a1f0f2b7d11")


async def with_session(request: TurnRequest, sessions: Sessions) -> TurnRequest:
    """The request; where its message begins a session that was made already, in that one."""
    if request.session_id is not None or request.message_id is None:
        return request
    new = new_session_id(request.message_id)
    return replace(request, session_id=new) if await sessions.known_ids([new]) else request


def new_session_id(message_id: str) -> str:
    """The id of the session that a message begins, the same each time it is sent."""
    return str(uuid.uuid5(_NEW_SESSIONS, message_id))


async def find_said(
    request: TurnRequest, sessions: Sessions
) -> tuple[Session, Message, Message | None] | None:
    """The session, the message with the request's id and its answer, if it has one; None: it was
    not said. NotFoundError: no such session.
    """
    if request.session_id is None:
        return None
    await sessions.settle(request.session_id)
    session, messages = await sessions.get_with_messages(request.session_id)
    place = next((at for at, one in enumerate(messages) if one.id == request.message_id), None)
    if place is None:
        return None
    return session, messages[place], _answer(messages[place + 1 :])


def _answer(following: Sequence[Message]) -> Message | None:
    """The last thing that was said before a person spoke again."""
    answer = None
    for one in following:
        if one.is_question:
            break
        if one.role == "assistant" and not one.meta.get("cut"):
            answer = one
    return answer
