"""Strangers' text: which files hold some, whether a piece of work has read some, and what holds an
agent's run that has.

A folder of the setting `agent.untrusted` or a file's `origin` says so. Work that has read such text
is tainted from then on: no shell, no network, elsewhere only suggestions, and what it writes says
`origin: stranger`, as its copies and moves then do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Literal, TypeAlias

from parachuted.access.grant import Grant
from parachuted.keys import PathGlob
from parachuted.state import StateStore
from parachuted.vault import (
    NOTE_SUFFIXES,
    SetFrontmatterKey,
    apply_edit,
    declared_origin,
    fold_name,
    printable,
)

DEFAULT_UNTRUSTED = ("Inbox/**", "Clippings/**", "Imports/**")
STRANGER = "stranger"
ORIGINS = frozenset({STRANGER, "bot", "imported", "web"})
"""All but the first are those of imports and of earlier versions."""
MARK = SetFrontmatterKey(key="origin", value=STRANGER)


class Taint:
    """Whether a piece of work has read strangers' text, shared by all that goes on with it."""

    __slots__ = ("_at_first", "_source")

    def __init__(self, source: str = "") -> None:
        self._source = source
        self._at_first: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return bool(self._source)

    def read(self, source: str) -> None:
        """`source` says what was read; of several, the first is named."""
        if not self._source:
            self._source = source
            for act in self._at_first:
                act()

    def read_by(self, other: Taint, source: str) -> None:
        """`source` names nothing that the other read: this one may have no right to read it."""
        if other:
            self.read(source)

    def at_first(self, act: Callable[[], object]) -> None:
        """Call it before the work sees its first such text, in the reading thread: it must not
        block.
        """
        self._at_first.append(act)

    def why(self) -> str:
        """For the agent and the person."""
        return f"this run has read text of strangers ({printable(self._source)})"


class Strangers:
    def __init__(self, untrusted: Iterable[str] = DEFAULT_UNTRUSTED) -> None:
        """`untrusted` are patterns of paths. Raises ValueError for what is not a pattern."""
        globs = tuple((PathGlob(pattern), _folded_glob(pattern)) for pattern in untrusted)

        def entering(folder: str) -> tuple[tuple[PathGlob, PathGlob], ...]:
            folded = _folded(folder)
            return tuple(
                (glob, fold) for glob, fold in globs if glob.enters(folder) or fold.enters(folded)
            )

        self._entering = lru_cache(1_000)(entering)  # many files of one folder are asked about

    def is_place(self, path: str) -> bool:
        """Whether it lies in an untrusted folder, however the file system compares names."""
        globs = self._entering(path.rpartition("/")[0])
        folded = _folded(path) if globs else ""
        return any(glob.matches(path) or fold.matches(folded) for glob, fold in globs)

    def is_text(self, path: str, data: bytes) -> bool:
        return self.is_place(path) or says_stranger(data)


def says_stranger(data: bytes) -> bool:
    """The beginning of the note is enough."""
    return is_origin(declared_origin(data))


def is_origin(value: object) -> bool:
    words = [value] if isinstance(value, str) else value if isinstance(value, Sequence) else ()
    said = (word.strip().casefold() for word in words if isinstance(word, str))
    return not ORIGINS.isdisjoint(said)


def marked(path: str, data: bytes) -> bytes:
    """What tainted work may write there. Raises EditRefusedError where no key can be set."""
    is_marked = not path.endswith(NOTE_SUFFIXES) or says_stranger(data)
    return data if is_marked else apply_edit(MARK, data)


_TABLE = "session_taint"
_FEW = 1_000
_KEPT = timedelta(days=90)  # the CLI clears away a session that was not continued for 30


class SessionTaints:
    """Whose each session is, and whether it is tainted, until long after it can be resumed."""

    def __init__(self, state: StateStore, clock: Callable[[], datetime]) -> None:
        self._state, self._table, self._clock = state, state.table(_TABLE), clock

    def recall(self, session: str, taint: Taint) -> None:
        row = self._table.get_record(session)
        if row is not None and (row.get("tainted") or row.get("sources")):
            taint.read("earlier in this session")

    def owner(self, session: str) -> str | None:
        """The agent of the session; another would learn from it what it may not read. None:
        unknown.
        """
        row = self._table.get_record(session)
        return str(row["agent"]) if row is not None else None

    def keep(self, session: str, taint: Taint, *, agent: str) -> None:
        """The agent's run has ended, and its session can be resumed. Raises StorageFailedError."""
        today = self._clock().date()
        row = {
            "agent": self.owner(session) or agent,
            "tainted": bool(taint),
            "used": today.isoformat(),
        }
        if self._table.get_record(session) == row:
            return
        with self._state.batch():
            self._table.put(session, row)
            rows = self._table.items()
            for name, one in rows if len(rows) > _FEW else ():
                used = date.fromisoformat(str(one.get("used", today)))
                if today - used > _KEPT:
                    self._table.drop(name)


def _folded(path: str) -> str:
    return "/".join(map(fold_name, path.split("/")))


def _folded_glob(pattern: str) -> PathGlob:
    """The pattern for folded paths; as it is where folding makes no pattern of it, as of `../a`."""
    try:
        return PathGlob(_folded(pattern))
    except ValueError:
        return PathGlob(pattern)


WishKind: TypeAlias = Literal["read", "write", "bash", "network", "trusted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """A change that a run may not make itself.

    `base` is the digest of the text it is based on; `data` the whole new text, None: removed.
    """

    path: str
    action: Literal["create", "update", "delete"]
    base: str | None
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGuard:
    """`ask` asks a person for more (what kind, for what, why), `put_forward` files a suggestion and
    answers its id; None: that cannot be done.
    """

    grant: Grant
    taint: Taint
    ask: Callable[[WishKind, str, str], Awaitable[bool]] | None = None
    put_forward: Callable[[ProposedChange, str], Awaitable[str]] | None = None

    def objection(self, path: str) -> str | None:
        """Why the run may not write that file now, though its grant names it; None: it may."""
        may = self.grant.may_write(path, tainted=True) and path.endswith(NOTE_SUFFIXES)
        if may or not self.taint:
            return None
        return f"{self.taint.why()}, so it may not write {printable(path)} any more"

    async def instead(self, change: ProposedChange, why: str) -> str:
        """File the change as a suggestion, or say that this is not possible."""
        if self.put_forward is None:
            return why
        name = await self.put_forward(change, why)
        return (
            f"{why}; instead it is suggested to a person as {name}, who decides on it. Nothing "
            "has changed yet, and you can go on"
        )

    async def beyond(self, kind: WishKind, what: str) -> bool:
        """Whether a person, asked now, allows it; a run without a waiting caller asks no one."""
        return self.grant.asks and self.ask is not None and await self.ask(kind, what, "")

    async def may_begin(self, who: str) -> bool:
        why = f"{who} asks to begin"
        return self.ask is not None and await self.ask("trusted", self.grant.agent, why)
