"""The activity log for one module: with its rights, in the daemon and over the pipe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

from parachuted.access.activity import Activity
from parachuted.access.authority import Authority
from parachuted.access.origin import UNTRUSTED
from parachuted.audit.activity import ActivityLog
from parachuted.errors import ActRefusedError
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.times import time_of

_EVERYTHING = frozenset({"**", "**/*"})


class ModuleActivity:
    """The `ActivityAccess` of one module in the daemon."""

    def __init__(
        self,
        approved: ApprovedModule,
        log: ActivityLog,
        clock: Callable[[], datetime],
        authority: Callable[[], Authority],
    ) -> None:
        self._name, self._log, self._clock, self._authority = approved.name, log, clock, authority
        self._is_strange = approved.trust == "untrusted"
        self._reads_all = not self._is_strange or not _EVERYTHING.isdisjoint(
            approved.manifest.permissions.read
        )

    async def log(
        self,
        summary: str,
        *,
        session_id: str | None = None,
        session_title: str | None = None,
        agent_type: str | None = None,
        exchange_number: int = 0,
    ) -> None:
        """Add one line, marked where strangers' texts led to it."""
        authority, now = self._acting(), self._clock()
        origin = authority.taint.origin if authority.taint else None
        activity = Activity(
            ts=time_of(now),
            summary=summary,
            session_id=session_id,
            session_title=session_title,
            agent_type=agent_type,
            exchange_number=exchange_number,
            origin=origin or ("imported" if self._is_strange else None),
        )
        await asyncio.to_thread(self._log.append, activity, now)

    async def read(self, day: str) -> list[Activity]:
        """What was logged that day; it marks the work where a stranger's text is in it."""
        authority = self._acting()
        if not self._reads_all or authority.is_limited:
            raise ActRefusedError(
                f"the module {self._name} may not read the activity log here: it quotes any "
                "note, so it is for trusted modules, those that may read the whole vault, and "
                "keys that are not limited to some paths"
            )
        found = await asyncio.to_thread(self._log.read, day)
        for one in found:
            for origin in UNTRUSTED:
                if origin == one.origin:
                    authority.taint.read(f"the activity of {day}", origin)
        return found

    def _acting(self) -> Authority:
        authority = self._authority()
        authority.check()
        return authority
