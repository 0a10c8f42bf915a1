"""The activity log for one module: with its rights, in the daemon and over the pipe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from parachuted.access.activity import Activity
from parachuted.access.authority import Authority
from parachuted.access.origin import UNTRUSTED
from parachuted.audit.activity import ActivityLog
from parachuted.errors import ActRefusedError, ModuleFailedError
from parachuted.modules.activity import ActivityAccess
from parachuted.modules.hosting.remote_vault import PipeCaller
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.results import to_json
from parachuted.times import time_of

_EVERYTHING = frozenset({"**", "**/*"})
_FOUND: TypeAdapter[list[Activity]] = TypeAdapter(list[Activity])


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


class RemoteActivity:
    """`ActivityAccess` in the module's process."""

    def __init__(self, asker: PipeCaller) -> None:
        self._asker = asker

    async def log(
        self,
        summary: str,
        *,
        session_id: str | None = None,
        session_title: str | None = None,
        agent_type: str | None = None,
        exchange_number: int = 0,
    ) -> None:
        body = {
            "summary": summary,
            "session_id": session_id,
            "session_title": session_title,
            "agent_type": agent_type,
            "exchange_number": exchange_number,
        }
        await self._asker.ask("activity.log", body)

    async def read(self, day: str) -> list[Activity]:
        return _FOUND.validate_python(await self._asker.ask("activity.read", {"day": day}))


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Log(_Body):
    summary: str
    session_id: str | None
    session_title: str | None
    agent_type: str | None
    exchange_number: int


class _Day(_Body):
    day: str


async def serve_activity(access: ActivityAccess, verb: str, body: Mapping[str, object]) -> object:
    """Do what the module's process asks.

    Raises what the access raises, and ModuleFailedError for what is no request.
    """
    try:
        if verb == "log":
            asked = _Log.model_validate(body)
            await access.log(**dict(asked))
            return None
        if verb == "read":
            return to_json(await access.read(_Day.model_validate(body).day))
    except ValidationError as error:
        raise ModuleFailedError(
            "what the module asks is not as it should be: "
            f"{error.errors(include_url=False)[0]['msg']}"
        ) from error
    raise ModuleFailedError(f"a module cannot ask for activity.{verb[:80]}")
