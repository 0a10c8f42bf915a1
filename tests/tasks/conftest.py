"""Tasks: a state, an order by hand, and moments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from parachuted.state import StateStore, open_state
from parachuted.tasks import Causes, Queue, QuietWindow

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """So long after noon."""
    return NOON + timedelta(seconds=seconds)


@dataclass
class FixedOrder:
    """An order given as edges: whom each wakes. It has to be free of rings."""

    edges: dict[str, list[str]] = field(default_factory=dict)
    prepared: int = 0

    async def prepare(self) -> None:
        self.prepared += 1

    def downstream(self, path: str) -> Iterable[str]:
        return self.edges.get(path, [])

    def blockers(self, watchers: Collection[str]) -> Mapping[str, str]:
        found = {}
        for upper in watchers:
            waiting = list(self.downstream(upper))
            while waiting:
                lower = waiting.pop()
                waiting += self.downstream(lower)
                if lower in watchers:
                    found[lower] = upper
        return found


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def state(journal: Path) -> Iterator[StateStore]:
    state = open_state(journal)
    yield state
    state.close()


@pytest.fixture
def order() -> FixedOrder:
    return FixedOrder()


@pytest.fixture
def causes(state: StateStore) -> Causes:
    return Causes(state)


@pytest.fixture
def queue(state: StateStore, causes: Causes, order: FixedOrder) -> Queue:
    return Queue(state, causes, QuietWindow(quiet_s=2.0, longest_s=60.0), order)


@pytest.fixture
def reopened(state: StateStore, journal: Path, order: FixedOrder) -> Callable[[], Queue]:
    """The queue as the next daemon finds it."""

    def reopen() -> Queue:
        state.close()
        again = open_state(journal)
        return Queue(again, Causes(again), QuietWindow(quiet_s=2.0, longest_s=60.0), order)

    return reopen
