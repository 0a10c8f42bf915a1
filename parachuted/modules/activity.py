"""The activity log, as a module uses it: `self.activity`."""

from __future__ import annotations

from typing import Protocol

from parachuted.access.notes import Activity


class ActivityAccess(Protocol):
    """What was talked about, one file a day, in the vault's `.parachute/activity/`."""

    async def log(
        self,
        summary: str,
        *,
        session_id: str | None = None,
        session_title: str | None = None,
        agent_type: str | None = None,
        exchange_number: int = 0,
    ) -> None:
        """Add one line, with the time that it is now.

        EditRefusedError: the summary is too long. StorageFailedError.
        """
        ...

    async def read(self, day: str) -> list[Activity]:
        """What was logged on that day of UTC, such as 2026-11-23, oldest first.

        ActRefusedError: only for a trusted module or one that may read the whole vault, and not on
        behalf of a key that is limited to some paths.
        """
        ...
