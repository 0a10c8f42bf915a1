"""How a turn goes on from those before: from the model's own transcript where that is of the same
messages, else from the session's messages as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from parachuted.errors import ParachuteError
from parachuted.modules import Module

from .messages import Message
from .modes import Mode
from .prompt_history import EarlierMessages, history_of
from .session import Session
from .sessions import Sessions, chain_digest
from .turn import TurnRequest
from .turn_documents import Resumption

_CONTINUED: Final = 12_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlan:
    """The `transcript` to go on with, if there is one, and the `history` for where it is not."""

    transcript: str | None
    history: str
    resumption: Resumption


class Resuming:
    """Remembers, on this machine, which transcript belongs to which messages."""

    def __init__(self, module: Module, sessions: Sessions) -> None:
        self._module, self._sessions = module, sessions

    async def plan(
        self, asked: TurnRequest, session: Session, mode: Mode, earlier: list[Message]
    ) -> ResumePlan:
        """How this turn goes on after the `earlier` messages.

        A transcript counts only if it was made of exactly these messages, in the same mode and
        folder and with the same permissions: after an edit by hand, on another machine and for
        another agent the text does. It holds what tools have answered, which the text does not.
        """
        if asked.recovery == "fresh_start":
            return ResumePlan(transcript=None, history="", resumption=Resumption())
        history = await self._history(session, earlier)
        kept = await self._module.state.get(_key(session), None)
        transcript = None
        if (
            isinstance(kept, dict)
            and earlier
            and asked.recovery is None
            and kept.get("made_of") == _made_of(session, mode, chain_digest(earlier))
        ):
            transcript = str(kept["transcript"])
        resumption = Resumption(
            transcript=transcript,
            injected=0 if transcript else history.count,
            tokens=0 if transcript else history.tokens,
            earlier=len(earlier),
        )
        return ResumePlan(transcript=transcript, history=history.text, resumption=resumption)

    async def keep(self, session: Session, mode: Mode, transcript: str | None) -> None:
        """Remember the transcript of all that the session holds now. It is a cache: where it cannot
        be kept, the text does.
        """
        try:
            if transcript is None:
                await self._module.state.delete(_key(session))
            else:
                made_of = _made_of(session, mode, session.history)
                kept = {"transcript": transcript, "made_of": made_of}
                await self._module.state.put(_key(session), kept)
        except ParachuteError as error:
            self._module.log.warning("a transcript is not kept", extra={"why": error.message})

    async def _history(self, session: Session, earlier: list[Message]) -> EarlierMessages:
        """The earlier messages as text, or those of the session that this one goes on from."""
        if earlier or not session.continued_from:
            return history_of(earlier)
        try:
            before = await self._sessions.messages(session.continued_from)
        except ParachuteError:  # it is gone
            return EarlierMessages()
        return history_of(before, _CONTINUED)


def _made_of(session: Session, mode: Mode, history: str) -> list[str]:
    return [
        history,
        mode.name,
        session.working_directory or "",
        session.agent or "",
        repr(session.permissions),
    ]


def _key(session: Session) -> str:
    return f"transcript.{session.id}"
