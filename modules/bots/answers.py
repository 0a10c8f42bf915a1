"""An answer in a chat: its text grows by edits, and becomes several messages where it is long."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from .connector import Connector, RetryLaterError, UnansweredError
from .splitting import split
from .store import Store, Update

_LONGEST_PAUSE_S: Final = 300.0
_NOTING_S: Final = 2.0

Result = TypeVar("Result")
_ENDED: Final = frozenset({"done", "error", "typed_error", "aborted"})


async def patient(ask: Callable[[], Awaitable[Result]], *, is_repeatable: bool = True) -> Result:
    """What the platform answers, as soon as it can be asked. UnansweredError: it may be done
    already.
    """
    pause = 1.0
    while True:
        try:
            return await ask()
        except RetryLaterError as error:
            if isinstance(error, UnansweredError) and not is_repeatable:
                raise
            await asyncio.sleep(max(error.after_s, pause))
            pause = min(2 * pause, _LONGEST_PAUSE_S)


class Pacing:
    """At most one message or edit in so many seconds, in one chat; the first goes at once."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s, self._next = gap_s, 0.0

    async def turn(self) -> None:
        await asyncio.sleep(max(0.0, self._next - time.monotonic()))
        self._next = time.monotonic() + self._gap_s


class Answer:
    """The messages that answer one update. What was sent before a restart is edited, not sent
    again.
    """

    def __init__(self, connector: Connector, pacing: Pacing, store: Store, update: Update) -> None:
        self._connector, self._pacing, self._store = connector, pacing, store
        self._update = update
        self._chat_id = update.incoming.chat_id
        self._shown: dict[int, str] = {}

    @property
    def may_be_sent(self) -> bool:
        """Whether a message of it was being sent, and may be there or not."""
        return self._update.is_sending and not self._connector.limits.repeats_safely

    async def show(self, text: str) -> None:
        """Let the chat show this text, as soon as the platform allows it."""
        limits = self._connector.limits
        for place, part in enumerate(split(text, limits.longest, self._connector.size)):
            if self._shown.get(place) == part:
                continue
            await self._pacing.turn()
            if place < len(self._update.sent):
                await self._edit(self._update.sent[place], part)
            else:
                await self.send(part)
            self._shown[place] = part

    async def send(self, text: str) -> None:
        """Send the next message, once. UnansweredError: it may have been sent.

        A bot that is stopped meanwhile waits a moment to learn whether it was.
        """
        sending = asyncio.create_task(  # noqa: TID251  it is awaited below
            self._send(text), name="a message"
        )
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending], timeout=_NOTING_S)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            raise

    async def _send(self, text: str) -> None:
        update, is_repeatable = self._update, self._connector.limits.repeats_safely
        was_sending, update.is_sending = update.is_sending, True
        await self._store.save(update)
        key = f"{update.key}-{len(update.sent)}"
        sent = await patient(
            lambda: self._connector.send(self._chat_id, text, key=key), is_repeatable=is_repeatable
        )
        update.sent.append(sent)
        update.is_sending = False
        await self._store.save(update)
        if was_sending:  # it is there since before the restart, perhaps with an earlier text
            await self._edit(sent, text)

    async def note(self, text: str) -> None:
        key = f"{self._update.key}-{zlib.crc32(text.encode()):x}"
        for part in split(text, self._connector.limits.longest, self._connector.size)[:1]:
            await patient(lambda part=part: self._connector.send(self._chat_id, part, key=key))  # type: ignore[misc]

    async def typing(self) -> None:
        """Show that work goes on, unless a text shows it."""
        if not self._shown:
            await patient(lambda: self._connector.typing(self._chat_id))

    async def _edit(self, message_id: str, text: str) -> None:
        await patient(lambda: self._connector.edit(self._chat_id, message_id, text))


class TurnText:
    """The text of one turn: that between two calls of tools is a paragraph of its own."""

    def __init__(self) -> None:
        self.has_ended = False
        self._before: list[str] = []
        self._current = ""

    @property
    def whole(self) -> str:
        return "\n\n".join(filter(None, (one.strip() for one in (*self._before, self._current))))

    def read(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        if kind == "text":
            self._current = str(event["content"])
        elif kind == "tool_use":
            self._before.append(self._current)
            self._current = ""
        elif kind in _ENDED:
            self.has_ended = True
            self._before.append(self._current)
            self._current = _ending(event)


def _ending(event: Mapping[str, Any]) -> str:
    if event["type"] == "done":
        return ""
    if event["type"] == "aborted":
        return "(Stopped.)"
    words = [str(event.get(name) or "") for name in ("title", "message")]
    return f"({': '.join(filter(None, words)) or 'The turn failed.'})"
