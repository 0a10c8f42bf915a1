"""Cause: what led to what a module does just now, so that all that follows from one change halts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from datetime import datetime

from parachuted.vault import new_id

_CAUSES: ContextVar[tuple[str, ...]] = ContextVar("parachuted_causes", default=())


@contextlib.contextmanager
def carrying(causes: Sequence[str]) -> Iterator[None]:
    """Inside, what the module does carries on these: around a handler of an event, those of the event."""
    token = _CAUSES.set(tuple(causes))
    try:
        yield
    finally:
        _CAUSES.reset(token)


def carried() -> tuple[str, ...]:
    """The causes that are carried on; empty where nothing led here but a request or the clock."""
    return _CAUSES.get()


def causes_at(now: datetime) -> tuple[str, ...]:
    """The same, or a new one where there is none."""
    return _CAUSES.get() or (new_id("c", now),)
