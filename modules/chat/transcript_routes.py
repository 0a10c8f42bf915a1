"""A conversation as the app's viewer of transcripts reads it: an event a message."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from parachuted.modules import route

from .messages import Message
from .session_service import SessionService
from .session_shapes import Json, message_shape

_PREVIEW = 200


class TranscriptEvent(TypedDict):
    """One message; `parentUuid` is the one before it."""

    type: str
    subtype: str | None
    uuid: str
    parentUuid: str | None
    timestamp: str | None
    message: Json
    isCompactSummary: bool


class TranscriptSegment(TypedDict):
    """Messages up to a summary that took their place, or to the end."""

    index: int
    isCompacted: bool
    messageCount: int
    eventCount: int
    startTime: str | None
    endTime: str | None
    preview: str | None
    loaded: bool


class TranscriptAnswer(TypedDict):
    """The events of the segment that was asked for, and what segments there are."""

    sessionId: str
    transcriptPath: str
    eventCount: int
    events: list[TranscriptEvent]
    segments: list[TranscriptSegment]
    segmentCount: int
    loadedSegmentIndex: int | None


class TranscriptRoutes(SessionService):
    @route("GET", "/{session_id}/transcript", tolerant=True)
    async def get_transcript(
        self,
        session_id: str,
        *,
        after_compact: bool = True,
        segment: Annotated[int, Field(ge=0)] | None = None,
        full: bool = False,
    ) -> TranscriptAnswer:
        """A conversation's messages as events: those since the last summary, of one `segment`, or,
        with `full` or without `after_compact`, all.
        """
        session, messages = await self.sessions.get_with_messages(session_id)
        parts = _segments(messages)
        wanted = segment if segment is not None else len(parts) - 1
        is_whole = segment is None and (full or not after_compact)
        loaded = range(len(parts)) if is_whole else [wanted] if wanted < len(parts) else []
        events = [
            event
            for number, part in enumerate(parts)
            if number in loaded
            for event in _events(session.id, part)
        ]
        return TranscriptAnswer(
            sessionId=session.id,
            transcriptPath=session.path,
            eventCount=len(messages),
            events=events,
            segments=[
                _segment(number, part, is_last=number == len(parts) - 1, loaded=number in loaded)
                for number, part in enumerate(parts)
            ],
            segmentCount=len(parts),
            loadedSegmentIndex=None if is_whole or not loaded else wanted,
        )


def _segments(messages: list[Message]) -> list[list[Message]]:
    """The messages, cut before each summary."""
    parts: list[list[Message]] = [[]]
    for one in messages:
        if one.meta.get("is_compact_summary") is True and parts[-1]:
            parts.append([])
        parts[-1].append(one)
    return parts


def _events(session_id: str, messages: list[Message]) -> list[TranscriptEvent]:
    found: list[TranscriptEvent] = []
    for one in messages:
        shape = message_shape(session_id, one)
        found.append(
            TranscriptEvent(
                type=one.role,
                subtype=None,
                uuid=one.id,
                parentUuid=found[-1]["uuid"] if found else None,
                timestamp=one.at,
                message={"role": one.role, "content": shape["content"]},
                isCompactSummary=shape["isCompactSummary"],
            )
        )
    return found


def _segment(
    number: int, messages: list[Message], *, is_last: bool, loaded: bool
) -> TranscriptSegment:
    times = [one.at for one in messages if one.at is not None]
    said = next((one.content for one in messages if one.role == "user"), None)
    return TranscriptSegment(
        index=number,
        isCompacted=not is_last,
        messageCount=len(messages),
        eventCount=len(messages),
        startTime=times[0] if times else None,
        endTime=times[-1] if times else None,
        preview=None if said is None else said[:_PREVIEW],
        loaded=loaded,
    )
