"""What takes part in hooks beside a person's programs: a module that holds the right."""

from __future__ import annotations

from typing import Protocol

from parachuted.hooks.decision import HookAnswer
from parachuted.hooks.hook_event import HookEvent


class HookParticipant(Protocol):
    """A module's part in one event. `id` names it in problems and answers."""

    @property
    def id(self) -> str: ...

    @property
    def event(self) -> str: ...

    def wants(self, hook_event: HookEvent) -> bool:
        """Whether it is to be asked about that one."""
        ...

    async def answer(self, hook_event: HookEvent) -> HookAnswer:
        """What it says, within a limited time.

        Raises nothing: whatever goes wrong is the answer's `failure`.
        """
        ...
