"""Tracks what an agent's run has read, and turns writes that it may no longer make into
suggestions.

The rule is in access/origin.py: a run that read untrusted text writes only to its trusted paths
until it ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from parachuted.access.grant import Grant
from parachuted.access.origin import UNTRUSTED, Origin, SessionTaints, Taint
from parachuted.access.origins import Origins
from parachuted.access.run_records import ProposedChange
from parachuted.agents.permission import (
    Answer,
    PendingPermission,
    PermissionRequest,
    PermissionRequests,
)
from parachuted.errors import ActRefusedError, EditRefusedError
from parachuted.suggestions import Proposal
from parachuted.suggestions.payload import ProposalSink
from parachuted.vault import printable

PutForward: TypeAlias = Callable[
    [Literal["create", "update", "delete"], str, str | None, bytes | None, str], Awaitable[str]
]
_LONGEST_TOLD = 300


def _not_told(question: PendingPermission) -> None:
    del question


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGuard:
    """`RunWatch` for one run.

    `put_forward` takes a change as a suggestion and answers its id; None: no suggestions
    are accepted. A request of a conversation waits `wait_s` seconds, and `opened` hears of it.
    """

    run: str
    session: str | None
    grant: Grant
    taint: Taint
    origins: Origins | None
    permissions: PermissionRequests | None
    put_forward: PutForward | None
    wait_s: float | None = None
    opened: Callable[[PendingPermission], None] = _not_told

    @property
    def is_tainted(self) -> bool:
        return bool(self.taint)

    @property
    def origin(self) -> Origin:
        return self.taint.origin

    def is_stranger(self, path: str, digest: str | None, data: bytes | None) -> bool:
        return self._origin(path, digest, data) in UNTRUSTED

    def has_read(self, path: str, digest: str | None, data: bytes | None) -> None:
        """Taint the run, before it gets that text or name."""
        self.taint.read(path, self._origin(path, digest, data))

    def objection(self, path: str) -> str | None:
        """Why the run may not write that file now, though its grant names it."""
        if not self.taint or self.grant.lane.sees(path):
            return None
        return (
            f"{self.taint.why(self.grant.may_read)}, so it may not write {printable(path)} any more"
        )

    async def instead(self, change: ProposedChange, why: str) -> str:
        """File the change as a suggestion, or say that this is not possible."""
        if self.put_forward is None:
            return why
        name = await self.put_forward(change.action, change.path, change.base, change.data, why)
        return (
            f"{why}; instead it is suggested to a person as {name}, who decides on it. Nothing "
            "has changed yet, and you can go on"
        )

    async def beyond(self, what: Literal["read", "write"], path: str) -> bool:
        return await self._asked(PermissionRequest(kind=what, what=path))

    async def host(self, host: str) -> bool:
        """Whether a person allows it that host and port now."""
        return await self._asked(PermissionRequest(kind="network", what=host))

    async def command(self, command: str) -> bool:
        return await self._asked(PermissionRequest(kind="bash", what=command))

    async def _asked(self, request: PermissionRequest) -> bool:
        """A run without a waiting caller asks no person."""
        return self.grant.asks and await self._ask(request)

    async def may_begin(self, who: str) -> bool:
        """Whether a person allows an agent to begin that is asked about for each session."""
        what = self.grant.agent
        return await self._ask(
            PermissionRequest(kind="trusted", what=what, why=f"{who} asks to begin")
        )

    async def _ask(self, request: PermissionRequest) -> bool:
        return self.permissions is not None and await self.permissions.ask(
            run=self.run,
            session=self.session,
            agent=self.grant.agent,
            request=request,
            wait_s=self.wait_s,
            opened=self.opened,
        )

    def writing(self, path: str) -> AbstractContextManager[Callable[[str | None], None]]:
        """What a run that has read strangers' texts writes is not trusted by the next one."""
        if self.origins is None:
            return nullcontext(lambda _digest: None)
        return self.origins.writing(path, self.taint.origin)

    def _origin(self, path: str, digest: str | None, data: bytes | None) -> Origin:
        if self.origins is None:
            return "you"
        return (
            self.origins.of(path, digest)
            if data is None
            else self.origins.of_text(path, data, digest)
        )


class RunGuards:
    """Makes the guard of each run, and remembers what was read in each session.

    `origins` says whose texts are a stranger's, `taints` which sessions have read one,
    `suggestions` takes what may not be written at once, and `permissions` asks a person.
    """

    def __init__(
        self,
        *,
        origins: Origins | None = None,
        taints: SessionTaints | None = None,
        suggestions: ProposalSink | None = None,
        permissions: PermissionRequests | None = None,
        answer_s: float = 1500.0,
    ) -> None:
        """`answer_s`: how many seconds a question of a conversation waits for the person."""
        self.answer_s = answer_s
        self.origins, self.suggestions = origins, suggestions
        self._taints, self._permissions = taints, permissions

    def of_run(
        self,
        run: str,
        *,
        session: str | None,
        grant: Grant,
        taint: Taint,
        causes: tuple[str, ...],
        suggested: Callable[[str], None],
        opened: Callable[[PendingPermission], None] | None = None,
    ) -> RunGuard:
        """The guard of that run; `suggested` hears the id of each suggestion, `opened` of each
        permission request, where the run is a conversation's.
        """
        sink = self.suggestions
        source = Proposal(
            source_agent=grant.agent,
            source_session=session or "",
            action="update",
            path="",
            payload={},
            reasoning="",
            run=run,
            causes=causes,
        )
        put_forward = None if sink is None else _forward_to(sink, source, taint, suggested)
        return RunGuard(
            run=run,
            session=session,
            grant=grant,
            taint=taint,
            origins=self.origins,
            permissions=self._permissions,
            put_forward=put_forward,
            wait_s=None if opened is None else self.answer_s,
            opened=opened or _not_told,
        )

    def answer(self, question: PendingPermission, value: object) -> bool:
        """Answer a permission request as a conversation does: `allow`, `deny` or a pattern.

        An agent that asks to begin is allowed for the session.
        Raises ActRefusedError for anything else.
        """
        if self._permissions is None:
            return False
        if value in ("allow", "deny"):
            allowed: Answer = "session" if question.request.kind == "trusted" else "once"
            self._permissions.answer(question.id, allowed if value == "allow" else "deny")
        elif isinstance(value, Mapping) and isinstance(value.get("pattern"), str):
            self._permissions.answer(question.id, "session", pattern=str(value["pattern"]))
        else:
            raise ActRefusedError('a permission request takes "allow", "deny" or {"pattern": ...}')
        return True

    def owner(self, session: str) -> str | None:
        """The agent whose session that is, as far as it is known."""
        return None if self._taints is None else self._taints.owner(session)

    def recall(self, session: str, taint: Taint) -> None:
        """Mark a run with all that was read in the session that it goes on with."""
        if self._taints is not None:
            self._taints.recall(session, taint)

    def end(self, run: str, sessions: Sequence[str], taint: Taint, agent: str) -> None:
        """A run has ended: what it read was read in these sessions, and it asks for nothing more.

        Raises StorageFailedError.
        """
        if self._permissions is not None:
            self._permissions.end_run(run, next(iter(sessions), None))
        if self._taints is not None:
            for session in sessions:
                self._taints.keep(session, taint, agent=agent)


def _forward_to(
    sink: ProposalSink, source: Proposal, taint: Taint, suggested: Callable[[str], None]
) -> PutForward:
    """Takes what a run would have done to where a person decides. `source` says which run.

    Raises EditRefusedError for what is not text, and what `propose` raises.
    """

    async def put_forward(
        action: Literal["create", "update", "delete"],
        path: str,
        base: str | None,
        data: bytes | None,
        why: str,
    ) -> str:
        proposal = replace(
            source,
            action=action,
            path=path,
            payload={} if data is None else {"text": _text(path, data)},
            reasoning=f"The agent would have done this at once, but {why[:_LONGEST_TOLD]}.",
            base=base,
            origin=taint.origin,
        )
        suggestion = await sink.propose(proposal)
        suggested(suggestion.id)
        return suggestion.id

    return put_forward


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise EditRefusedError(
            f"{printable(path)} would not be text, which a person could not review"
        ) from error
