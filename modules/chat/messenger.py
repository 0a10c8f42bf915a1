"""Messages from the agent of one conversation to another conversation."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Final

from parachuted.errors import (
    ActRefusedError,
    ConflictError,
    EditRefusedError,
    NotFoundError,
    ParachuteError,
)
from parachuted.modules import Module

from .session import Session
from .turn import TurnRequest
from .turns import QueueFullError, Turns

_MOST_HOPS: Final = 3
_MOST_WAITING: Final = 10
_MOST_TRIES: Final = 20


class Messenger:
    """What an agent sends leaves when its own turn has ended, on behalf of the person who asked for
    that turn: the rights of the agent's run end with it.
    """

    def __init__(self, module: Module, turns: Turns) -> None:
        self._module, self._turns = module, turns
        self._waiting: dict[str, list[tuple[str, str]]] = {}
        self._hops: dict[str, int] = {}  # by session, of the turn that goes on there

    async def send(self, target: Session, text: str) -> None:
        await self._turns.start(TurnRequest(message=text, session_id=target.id))

    def send_from(self, source: Session, target: Session, text: str) -> None:
        """Send when the source's turn has ended. ActRefusedError: the target may do other things
        than the source, or too many messages led to each other.
        """
        if target.id == source.id:
            raise EditRefusedError("This is that conversation: answer here instead.")
        if (target.mode, target.permissions) != (source.mode, source.permissions):
            raise ActRefusedError(
                "that conversation's agent may do other things than you, so it takes no orders of "
                "yours"
            )
        waiting = self._waiting.setdefault(source.id, [])
        if self._hops.get(source.id, 0) >= _MOST_HOPS or len(waiting) >= _MOST_WAITING:
            raise ActRefusedError(
                f"no more than {_MOST_WAITING} messages leave a turn, and a message leads to no "
                f"more than {_MOST_HOPS} others in a row"
            )
        waiting.append((target.id, text))

    async def turn_ended(self, session_id: str) -> None:
        hops = self._hops.pop(session_id, 0) + 1
        sent = self._waiting.pop(session_id, [])
        if sent:
            self._module.spawn(self._deliver_all, sent, hops, name="messages to conversations")

    async def _deliver_all(self, sent: Sequence[tuple[str, str]], hops: int) -> None:
        for target, text in sent:
            try:
                await self._deliver(target, text, hops)
            except ParachuteError as error:
                self._module.log.warning(
                    "a message to a conversation was not delivered",
                    extra={"session": target, "why": error.message},
                )

    async def _deliver(self, target: str, text: str, hops: int) -> None:
        """A turn of the target; its agent is told at once where it is at work and listens."""
        for _ in range(_MOST_TRIES):
            try:
                await self._turns.start(TurnRequest(message=text, session_id=target))
                break
            except ConflictError:
                with contextlib.suppress(NotFoundError, QueueFullError):
                    await self._turns.inject(target, text)
                    break
                await self._turns.wait_for_end(target)
        else:
            raise ActRefusedError("that conversation's agent was at work each time")
        self._hops[target] = max(hops, self._hops.get(target, 0))
