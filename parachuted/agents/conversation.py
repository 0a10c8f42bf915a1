"""What a person says to an agent while its run goes on: words for the next moment that it listens,
and answers to what it asks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from parachuted.errors import ActRefusedError

MOST_WAITING = 20
LONGEST_TEXT = 100_000


class ConversationInput:
    """Of one run. All on the event loop."""

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._moved = asyncio.Event()
        self._open: dict[str, Callable[[object], bool]] = {}
        self._is_closed = False

    def inject(self, text: str) -> bool:
        """Say that to the agent as soon as it listens; False: the run has ended, or is about to.

        Raises ActRefusedError for what is empty or too long, and where too much waits already.
        """
        if not text.strip() or len(text) > LONGEST_TEXT:
            raise ActRefusedError(f"a message should have 1 to {LONGEST_TEXT:,} characters")
        if self._is_closed:
            return False
        if len(self._texts) >= MOST_WAITING:
            raise ActRefusedError(f"{MOST_WAITING} messages wait for the agent already")
        self._texts.append(text)
        self._moved.set()
        return True

    async def next_text(self) -> str:
        """What was said next; waits for it."""
        while not self._texts:
            self._moved.clear()
            await self._moved.wait()
        return self._texts.popleft()

    @property
    def has_text(self) -> bool:
        """Whether something was said that nobody has taken."""
        return bool(self._texts)

    def expect(self, name: str, take: Callable[[object], bool]) -> None:
        """An answer to that question is expected; `take` gets it, and returns whether it still
        waited.
        """
        self._open[name] = take

    def forget(self, name: str) -> None:
        """It is expected no longer."""
        self._open.pop(name, None)

    def answer(self, name: str, value: object) -> bool:
        """Answer a question by its id; False: none of that id waits.

        Raises ActRefusedError for an answer that does not fit; the question waits on then.
        """
        take = self._open.get(name)
        if take is None:
            return False
        taken = take(value)
        self.forget(name)
        return taken

    def reopen(self) -> None:
        """The run goes on after all."""
        self._is_closed = False

    def close(self) -> None:
        """The run listens no longer."""
        self._is_closed = True
        self._open.clear()
