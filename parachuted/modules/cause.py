"""Cause: what led to what a module does just now, so that all that follows from one change halts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from datetime import datetime

from parachuted.grants.agent_grant import Entry
from parachuted.vault import new_id

_CAUSES: ContextVar[tuple[str, ...]] = ContextVar("parachuted_causes", default=())
_RUNS: ContextVar[tuple[str, ...]] = ContextVar("parachuted_runs", default=())
_ENTRY: ContextVar[Entry] = ContextVar("parachuted_entry", default="module")


@contextlib.contextmanager
def entering(way: Entry) -> Iterator[None]:
    """Inside, agents are asked for by that way."""
    token = _ENTRY.set(way)
    try:
        yield
    finally:
        _ENTRY.reset(token)


def entry() -> Entry:
    """By which way an agent is asked for here: by a module, where nothing else is known."""
    return _ENTRY.get()


@contextlib.contextmanager
def carrying(causes: Sequence[str], runs: Sequence[str] = ()) -> Iterator[None]:
    """Inside, what the module does carries on these: around a handler of an event, the event's. `runs` are those that led there last."""
    token, before = _CAUSES.set(tuple(causes)), _RUNS.set(tuple(runs))
    try:
        yield
    finally:
        _RUNS.reset(before)
        _CAUSES.reset(token)


def runs_before() -> tuple[str, ...]:
    """The runs that led to this, which an undo of theirs takes it back with."""
    return _RUNS.get()


def carried() -> tuple[str, ...]:
    """The causes that are carried on; empty where nothing led here but a request or the clock."""
    return _CAUSES.get()


def causes_at(now: datetime) -> tuple[str, ...]:
    """The same, or a new one where there is none."""
    return _CAUSES.get() or (new_id("c", now),)
