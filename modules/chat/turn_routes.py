"""Turns over HTTP: asking, following, stopping, answering, as the existing app does it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from parachuted.errors import EditRefusedError
from parachuted.modules import Response, ServerEvent, interface, route

from .session_routes import LONGEST_MESSAGE, Json, SessionRoutes
from .turn import RecoveryMode, TurnRequest
from .turns import QueueFullError

_NEW = "new"
_LONGEST_BESIDES = 1_000_000
_LONGEST_NAME = 2_000

Message = Annotated[str, Field(max_length=LONGEST_MESSAGE)]
Besides = Annotated[str, Field(max_length=_LONGEST_BESIDES)]
Name = Annotated[str, Field(max_length=_LONGEST_NAME)]
Names = Annotated[list[Name], Field(max_length=50)]
MessageId = Annotated[str, Field(pattern=r"^[a-z0-9]{12}$")]
Slug = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=100)]


class TurnRoutes(SessionRoutes):
    @interface("ConversationInterface")
    async def send_message(self, session_id: str, content: str, source: str = "parachute") -> Json:
        """Send a message to a session, and wait for the agent's answer.

        Raises what ended the turn otherwise, ConflictError where another goes on.
        """
        if not 0 < len(content) <= LONGEST_MESSAGE:
            raise EditRefusedError(f"a message has 1 to {LONGEST_MESSAGE:,} characters")
        ended = await self.turns.ask(
            TurnRequest(message=content, session_id=session_id, source=source)
        )
        return {
            "id": ended.answer.id,
            "session_id": ended.session.id,
            "content": ended.answer.content,
            "run_id": ended.run_id,
        }

    @interface("ConversationInterface")
    async def start_turn(
        self,
        session_id: str,
        content: str,
        source: str = "parachute",
        message_id: str | None = None,
        attachments: Sequence[Mapping[str, Any]] = (),
        chat_id: str | None = None,
    ) -> Json:
        """Say something in a session, and return what came of it so far; `turn_events` has the
        rest, until a `done`, `error`, `typed_error` or `aborted`.

        A message whose `message_id` was said already is not said again. `chat_id` is the chat of
        the platform `source` that shows the answer. ConflictError: a turn of another message goes
        on.
        """
        if len(content) > LONGEST_MESSAGE or not (content.strip() or attachments):
            raise EditRefusedError(f"a message has 1 to {LONGEST_MESSAGE:,} characters")
        request = TurnRequest(
            message=content,
            session_id=session_id,
            message_id=message_id,
            source=source,
            attachments=tuple(attachments),
            chat=None if chat_id is None else (source, chat_id),
        )
        stream = await self.turns.start(request)
        events, after = await stream.batch(None, 0)
        return {"events": [dict(event) for event in events], "after": after}

    @interface("ConversationInterface")
    async def turn_events(
        self, session_id: str, after: str | None = None, wait_s: float = 20
    ) -> Json:
        """The events after those that another call returned. While there are none and a turn goes
        on, it waits so long, 20 s at most.
        """
        stream = await self.turns.follow(session_id, after)
        events, last = await stream.batch(after, min(wait_s, 20))
        return {"events": [dict(event) for event in events], "after": last}

    @interface("ConversationInterface")
    async def stop_turn(self, session_id: str, message_id: str | None = None) -> None:
        """Stop the turn, or only that of this message; what was said so far stays. NotFoundError:
        it does not go on.
        """
        await self.turns.abort(session_id, message_id)

    @interface("ConversationInterface")
    async def answer_question(
        self, session_id: str, request_id: str, answers: Mapping[str, str | list[str]]
    ) -> None:
        """Answer what the agent asked, each question by its words. NotFoundError: it is decided."""
        await self.turns.answer(session_id, request_id, dict(answers))

    @route("POST", "/", tolerant=True)
    async def chat(  # noqa: PLR0913  what the app sends
        self,
        message: Message,
        *,
        session_id: Name | None = None,
        message_id: MessageId | None = None,
        system_prompt: Besides | None = None,
        working_directory: Name | None = None,
        initial_context: Besides | None = None,
        prior_conversation: Besides | None = None,
        continued_from: Name | None = None,
        contexts: Names | None = None,
        context_folders: Names | None = None,
        recovery_mode: RecoveryMode | None = None,
        agent_type: Name | None = None,
        agent_path: Name | None = None,
        trust_level: Name | None = None,
        model: Name | None = None,
        workspace_id: Slug | None = None,
        attachments: Annotated[list[dict[str, Any]], Field(max_length=100)] | None = None,
    ) -> AsyncIterator[dict[str, object]]:
        """Say something, in a new or existing conversation, and follow the answer.

        The last event is `done`, `error`, `typed_error` or `aborted`. The turn goes on when the
        connection is lost; `GET /api/chat/{id}/stream` has the rest.

        With a `message_id` that its sender chose, it can be sent again when the answer was lost:
        a message that was said already is not said again, and what came of it is followed.
        """
        if not message.strip() and not attachments:
            raise EditRefusedError("a message should say something, or bring a file")
        request = TurnRequest(
            message=message,
            session_id=None if session_id in {None, "", _NEW} else session_id,
            message_id=message_id,
            system_prompt=system_prompt or None,
            working_directory=working_directory or None,
            before="\n\n".join(filter(None, [prior_conversation, initial_context])),
            continued_from=continued_from or None,
            contexts=tuple(dict.fromkeys([*(contexts or ()), *(context_folders or ())])),
            recovery=recovery_mode,
            agent=agent_path or agent_type or None,
            trust_level=trust_level,
            model=model or None,
            workspace=workspace_id,
            attachments=tuple(attachments or ()),
            is_typed=True,
        )
        stream = await self.turns.start(request)
        async for event in stream.read():
            yield event  # type: ignore[misc]  # the annotation is what is in an event

    @route("GET", "/active-streams")
    async def active_streams(self) -> Json:
        """The conversations in which a turn goes on."""
        return {"streams": [{"session_id": one} for one in self.turns.active()]}

    @route("GET", "/stats")
    async def stats(self) -> Json:
        """How many conversations and messages there are, and in how many a turn goes on."""
        sessions, archived, messages = await self.sessions.count()
        return {
            "sessions": sessions,
            "archived": archived,
            "messages": messages,
            "active_streams": len(self.turns.active()),
        }

    @route("GET", "/{session_id}/stream-status")
    async def stream_status(self, session_id: str) -> Json:
        """Whether a turn goes on in a conversation."""
        return {"active": self.turns.is_active(session_id)}

    @route("GET", "/{session_id}/stream")
    async def follow(
        self, session_id: str, after: str | None = None
    ) -> AsyncIterator[dict[str, object]]:
        """The events of a turn after the one with the id `after`, or all of the last turn.

        Where what was missed is no longer stored, an event `reset` comes first.
        """
        stream = await self.turns.follow(session_id, after)
        yield ServerEvent({"type": "ping"}, "ping")  # type: ignore[misc]  # it is there
        async for event in stream.read(after):
            yield event  # type: ignore[misc]

    @route("POST", "/{session_id}/retry")
    async def retry(self, session_id: str) -> AsyncIterator[dict[str, object]]:
        """Ask the last question again: one that was cut off, or answered without a model."""
        stream = await self.turns.ask_again(session_id)
        async for event in stream.read():
            yield event  # type: ignore[misc]

    @route("POST", "/{session_id}/abort")
    async def abort(self, session_id: str) -> dict[str, str]:
        """Stop the turn. What was said so far stays."""
        await self.turns.abort(session_id)
        return {"status": "aborted"}

    @route("POST", "/{session_id}/inject", tolerant=True)
    async def inject(
        self, session_id: str, message: Annotated[str, Field(min_length=1, max_length=32_000)]
    ) -> dict[str, str]:
        """Say something to the agent while it works."""
        try:
            await self.turns.inject(session_id, message)
        except QueueFullError as error:
            return Response(status=429, body={"error": error.message})  # type: ignore[return-value]
        return {"status": "injected"}

    @route("GET", "/{session_id}/prompt")
    async def preview_prompt(self, session_id: str, message: Message = "") -> dict[str, Any]:
        """The system prompt that a message would be asked with, its parts, their shares and
        dates. It leaves nothing behind and asks no model: words decide what of Brain is in it.
        """
        return await self.turns.preview(session_id, message)

    @route("GET", "/{session_id}/pending-questions")
    async def pending_questions(self, session_id: str) -> Json:
        """What the agent asked and a person has not answered, permission requests too."""
        return {"pending": [one.document() for one in await self.turns.pending(session_id)]}

    @route("POST", "/{session_id}/answer", tolerant=True)
    async def answer(
        self, session_id: str, request_id: str, answers: dict[str, str | list[str]]
    ) -> dict[str, str]:
        """Answer what the agent asked, each question by its words."""
        await self.turns.answer(session_id, request_id, answers)
        return {"status": "answered"}

    @route("POST", "/{session_id}/permissions/{request_id}/{decision}")
    async def decide(
        self,
        session_id: str,
        request_id: str,
        decision: Literal["grant", "deny"],
        pattern: Name | None = None,
    ) -> dict[str, str]:
        """Grant or deny what the agent asked leave for.

        With one of its `patterns` it is granted for the rest of the conversation.
        """
        wanted: object = "allow" if decision == "grant" else "deny"
        if decision == "grant" and pattern is not None:
            wanted = {"pattern": pattern}
        await self.turns.decide(session_id, request_id, wanted)
        return {"status": "granted" if decision == "grant" else "denied"}
