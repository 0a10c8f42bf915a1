"""Caller: on whose behalf work is done: what it may reach, what caused it, and who asked.

It is passed as an argument. A module's code calls `self.vault.read(...)` with no such argument, so
there alone it is found in this file's context variable, which its tasks and callbacks inherit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from parachuted.access.grant import CallerGrant, Entry, Grant
from parachuted.access.strangers import RunGuard, Taint
from parachuted.errors import ActRefusedError
from parachuted.keys import NOWHERE
from parachuted.vault import new_id

AskedBy: TypeAlias = Literal["person", "clock", "event", "module"]
"""A person through a key or the page, a schedule, an event, or the module when it was enabled."""

MOST_EVENTS = 16


class CallRecord(Protocol):
    """The record of one call of a module, whose writes are one run."""

    @property
    def run(self) -> str | None:
        """None before the first write."""

    @property
    def causes(self) -> tuple[str, ...]: ...

    @property
    def is_over(self) -> bool:
        """Whether the call has ended, and only what it began goes on."""

    def writing(self, by: str, path: str, reason: str = "") -> AbstractContextManager[None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRequest:
    """Who asked for a piece of work.

    `key` is the id of the API key, `id` that of the request in the audit, each or empty.
    `is_valid`: whether they still may ask; `may_administer`: whether they may give an agent more
    than its grant.
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

    `run` led to it; `events` counts those in a row that did, `within` is the agent's run that it is
    part of, `depth` how deep that is, and `call` the module's call that goes on.
    """

    run: str | None = None
    events: int = 0
    within: CurrentRun | None = None
    depth: int = 0
    call: CallRecord | None = None

    @property
    def led_by(self) -> str | None:
        """The run that what follows from here is led by."""
        return self.run if self.call is None else self.call.run or self.run


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

    def restricted_to(self, grant: CallerGrant) -> Caller:
        return replace(self, grant=self.grant.both(grant))

    def for_person(self, who: str, *, is_strangers: bool = False) -> Caller:
        """New work that a person asked for in words which reached a module from elsewhere."""
        taint = Taint(f"what {who} said" if is_strangers else "")
        return replace(
            self,
            causes=(),
            chain=replace(self.chain, run=None),
            taint=taint,
            request=replace(
                self.request, by="person", entry="bot", who=who, may_administer=not is_strangers
            ),
        )

    def fork(self) -> Caller:
        """The same, with a copy of the taint, so that later reads do not affect this one."""
        taint = Taint()
        taint.read_by(self.taint, "by what led to this")
        return replace(self, taint=taint)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentRun:
    """The agent's run that the work is part of. While it calls a tool there is a `watch`; another
    module's tools write only what it may. `asker`: on whose behalf it was asked for; unlike the
    run, that does not end.
    """

    grant: Grant
    asker: Caller = field(default_factory=Caller)
    module: str | None = None
    may_write: bool = True
    watch: RunGuard | None = None

    def may_write_by(self, module: str) -> bool:
        outer = self.asker.chain.within
        return self.watch is None or (
            (self.may_write or module == self.module)
            and (outer is None or outer.may_write_by(module))
        )


NO_CALLER = Caller(request=WorkRequest(is_valid=lambda: False), grant=CallerGrant(NOWHERE, NOWHERE))
"""For code that no call of the daemon led to: it reaches nothing."""

_CURRENT: ContextVar[Caller] = ContextVar("parachuted_caller", default=NO_CALLER)


def current() -> Caller:
    """The caller of the module code that runs here. For the services of modules alone."""
    return _CURRENT.get()


@contextmanager
def acting(caller: Caller) -> Iterator[None]:
    """Inside, and in all that begins there, module code acts for that caller."""
    token = _CURRENT.set(caller)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def act_for(caller: Caller) -> None:
    """Module code of this context acts for that caller from now on."""
    _CURRENT.set(caller)
