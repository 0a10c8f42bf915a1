"""Authority: on whose behalf work is done: what it may reach, what caused it, and who asked.

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

from parachuted.access.grant import Entry, Grant
from parachuted.access.origin import UNTRUSTED, Origin, Taint
from parachuted.access.run_records import RunWatch
from parachuted.errors import ActRefusedError
from parachuted.keys import EVERYWHERE, NOWHERE, AccessGrant
from parachuted.vault import new_id

AskedBy: TypeAlias = Literal["person", "clock", "event", "module"]
"""What began the work: a person's request through a key or the page, a schedule, an event, or the
module itself when it was enabled.
"""

MOST_EVENTS = 16

_TRUST: tuple[Origin, ...] = ("you", "agent")


class RunRestrictions(Protocol):
    """The agent's run that the work is part of, as far as other runs must know of it."""

    @property
    def asker(self) -> Authority:
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
class Authority:
    """One piece of work: what it may reach, who asked, what led to it, what it is part of."""

    # the paths that the caller may reach: a key's, an untrusted module's, the lane of a run
    reads: AccessGrant = EVERYWHERE
    writes: AccessGrant = EVERYWHERE
    # whether who asked still may ask, and may also give an agent more than its grant
    holds: Callable[[], bool] = lambda: True
    may_administer: bool = False
    # by which way, and by what, it was asked for
    entry: Entry = "module"
    asked_by: AskedBy = "module"
    # the id of the API key that asked, or empty; the name of who asked; the id of the audit
    caller: str = ""
    who: str = ""
    request_id: str = ""
    # what led here; without causes, each act begins one
    causes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    # how many events in a row led here, each published because of the one before
    events: int = 0

    # the run of an agent that this is part of, if any, and how many runs deep that is
    within: RunRestrictions | None = None
    depth: int = 0
    # the record of the module's call that goes on
    call: CallRecord | None = None
    # what it has read of strangers' texts, shared by all that goes on with the same value
    taint: Taint = field(default_factory=Taint, compare=False)

    @property
    def led_by(self) -> tuple[str, ...]:
        """The runs that what is done now follows from."""
        run = self.call.run if self.call is not None else None
        return self.runs if run is None else (run,)

    @property
    def is_limited(self) -> bool:
        """Whether the caller is limited to some paths of the vault."""
        return self.reads.alternatives is not None or self.writes.alternatives is not None

    def check(self) -> None:
        """Raises ActRefusedError when the caller's rights ended: the key was revoked, or the run is
        over.
        """
        if not self.holds():
            raise ActRefusedError(
                "the caller's rights have ended (its key was revoked, or its run is over); "
                "ask again"
            )

    def check_circle(self, act: str) -> None:
        """Raises ActRefusedError when so many events in a row led here that they must form a
        circle.
        """
        if self.events > MOST_EVENTS:
            raise ActRefusedError(
                f"{act} follows from {MOST_EVENTS} events in a row; it seems to go round in a "
                "circle"
            )

    def causes_at(self, now: datetime) -> tuple[str, ...]:
        """The causes of an act; a new one where nothing else led here."""
        return self.causes or (new_id("c", now),)

    def words(self, own: Origin, said: Origin = "you") -> Origin:
        """Whose words a prompt counts as: a person's only where a person's request began this and
        no stranger's text was read since.

        `own` is what the words of the module itself count as; `said` what the module says of them,
        which can only take trust away.
        """
        found = self.taint.origin if self.taint else "you" if self.asked_by == "person" else own
        if found in UNTRUSTED or said in UNTRUSTED:
            return found if found in UNTRUSTED else said
        return max(found, said, key=_TRUST.index)

    def narrowed(self, reads: AccessGrant, writes: AccessGrant) -> Authority:
        return replace(self, reads=self.reads.both(reads), writes=self.writes.both(writes))

    def for_person(self, who: str, *, is_strangers: bool = False) -> Authority:
        """New work that a person asked for in words which reached a module from elsewhere."""
        taint = Taint()
        if is_strangers:
            taint.read_words(f"what {who} said", "bot")
        return replace(
            self,
            causes=(),
            runs=(),
            entry="bot",
            asked_by="person",
            who=who,
            taint=taint,
            may_administer=not is_strangers,
        )

    def forked(self) -> Authority:
        """The same, with a copy of the taint, so that later reads do not affect this one."""
        taint = Taint()
        pass_on(self.taint, taint)
        return replace(self, taint=taint)


NO_AUTHORITY = Authority(reads=NOWHERE, writes=NOWHERE, holds=lambda: False)
"""On whose behalf code works that no call of the daemon led to: it reaches nothing."""

_CURRENT: ContextVar[Authority] = ContextVar("parachuted_authority", default=NO_AUTHORITY)


def current() -> Authority:
    """That of the module's code which runs here.

    For the services that modules are given, and nothing else.
    """
    return _CURRENT.get()


@contextmanager
def acting(authority: Authority) -> Iterator[None]:
    """Inside, and in all that begins there, module code acts on that one's behalf."""
    token = _CURRENT.set(authority)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def act_for(authority: Authority) -> None:
    """Module code of this context acts on that one's behalf from now on."""
    _CURRENT.set(authority)


def pass_on(source: Taint, target: Taint) -> None:
    for name, origin in source.sources.items():
        target.read(name, origin)
