"""Caller: on whose behalf work is done: what it may reach, what caused it, and who asked.

It is a value that is passed as an argument. A module's code calls `self.vault.read(...)` with no
such argument, so there, and nowhere else, it is found in the one context variable of this file:
whatever the code begins (a task, a callback) carries it on for as long as it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from parachuted.access.grant import CallerGrant, Entry, Grant
from parachuted.access.run_watch import RunWatch
from parachuted.access.strangers import Taint
from parachuted.errors import ActRefusedError
from parachuted.keys import NOWHERE
from parachuted.vault import new_id

AskedBy: TypeAlias = Literal["person", "clock", "event", "module"]
"""What began the work: a person's request through a key or the page, a schedule, an event, or the
module itself when it was enabled.
"""

MOST_EVENTS = 16


class RunRestrictions(Protocol):
    """The agent's run that the work is part of, as far as other runs must know of it."""

    @property
    def asker(self) -> Caller:
        """On whose behalf the run was asked for; unlike the run, it does not end."""

    @property
    def module(self) -> str | None:
        """The module whose agent it is."""

    @property
    def watch(self) -> RunWatch | None:
        """What watches over the writes of the tool that it has called; None: this is no such
        call.
        """

    def narrowed(self, grant: Grant) -> Grant:
        """The rights of an agent that this one asks for help."""

    def may_write_by(self, module: str) -> bool:
        """Whether that module may write notes for it."""


class CallRecord(Protocol):
    """The record of one call of a module, whose writes are one run."""

    @property
    def run(self) -> str | None:
        """The run that is being written; None before the first write."""

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes of what is being written."""

    @property
    def is_over(self) -> bool:
        """Whether the call has ended, and only what it began goes on."""

    def writing(self, by: str, path: str, reason: str = "") -> AbstractContextManager[None]:
        """Around a write of that file by that author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """Who asked for a piece of work, and by which way.

    `key` is the id of the API key, `id` that of the request in the audit; empty where there is
    none. `is_valid` says whether who asked still may ask, `may_administer` whether they may give an
    agent more than its grant.
    """

    by: AskedBy = "module"
    entry: Entry = "module"
    who: str = ""
    key: str = ""
    id: str = ""
    may_administer: bool = False
    is_valid: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkChain:
    """What a piece of work follows from, and what it is part of.

    `runs` led to it; `events` counts those in a row that did, each published because of the one
    before. `within` is the run of an agent that it is part of, `depth` how many runs deep that is,
    and `call` the record of the module's call that goes on.
    """

    runs: tuple[str, ...] = ()
    events: int = 0
    within: RunRestrictions | None = None
    depth: int = 0
    call: CallRecord | None = None

    @property
    def led_by(self) -> tuple[str, ...]:
        """The runs that what is done now follows from."""
        run = self.call.run if self.call is not None else None
        return self.runs if run is None else (run,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One piece of work: who asked, what it may reach, what led to it, what it is part of."""

    request: WorkRequest = field(default_factory=WorkRequest)
    grant: CallerGrant = field(default_factory=CallerGrant)
    # what led here; without causes, each act begins one
    causes: tuple[str, ...] = ()
    chain: WorkChain = field(default_factory=WorkChain)
    # whether it has read strangers' text, shared by all that goes on with the same value
    taint: Taint = field(default_factory=Taint, compare=False)

    def check(self) -> None:
        """Raises ActRefusedError when the caller's rights ended: its key or its run is no more."""
        if not self.request.is_valid():
            raise ActRefusedError(
                "the caller's rights have ended (its key was revoked, or its run is over); "
                "ask again"
            )

    def checked(self) -> Caller:
        self.check()
        return self

    def check_circle(self, act: str) -> None:
        """Raises ActRefusedError when events in a row led here that must form a circle."""
        if self.chain.events > MOST_EVENTS:
            raise ActRefusedError(
                f"{act} follows from {MOST_EVENTS} events in a row; it seems to go round in a "
                "circle"
            )

    def causes_at(self, now: datetime) -> tuple[str, ...]:
        """The causes of an act; a new one where nothing else led here."""
        return self.causes or (new_id("c", now),)

    def narrowed(self, grant: CallerGrant) -> Caller:
        return replace(self, grant=self.grant.both(grant))

    def for_person(self, who: str, *, is_strangers: bool = False) -> Caller:
        """New work that a person asked for in words which reached a module from elsewhere."""
        taint = Taint(f"what {who} said" if is_strangers else "")
        return replace(
            self,
            causes=(),
            chain=replace(self.chain, runs=()),
            taint=taint,
            request=replace(
                self.request, by="person", entry="bot", who=who, may_administer=not is_strangers
            ),
        )

    def forked(self) -> Caller:
        """The same, with a copy of the taint, so that later reads do not affect this one."""
        taint = Taint()
        taint.read_by(self.taint, "by what led to this")
        return replace(self, taint=taint)


NO_CALLER = Caller(request=WorkRequest(is_valid=lambda: False), grant=CallerGrant(NOWHERE, NOWHERE))
"""On whose behalf code works that no call of the daemon led to: it reaches nothing."""

_CURRENT: ContextVar[Caller] = ContextVar("parachuted_authority", default=NO_CALLER)


def current() -> Caller:
    """That of the module's code which runs here.

    For the services that modules are given, and nothing else.
    """
    return _CURRENT.get()


@contextmanager
def acting(caller: Caller) -> Iterator[None]:
    """Inside, and in all that begins there, module code acts on that one's behalf."""
    token = _CURRENT.set(caller)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def act_for(caller: Caller) -> None:
    """Module code of this context acts on that one's behalf from now on."""
    _CURRENT.set(caller)
