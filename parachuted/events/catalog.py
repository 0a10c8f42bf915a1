"""Catalogue: every event there is, by the one name it has in Python, settings, the event stream and the docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class EventKind:
    """A kind of event: its name, what it tells, and the fields of its `data`."""

    name: str
    tells: str
    fields: tuple[str, ...]


_CHANGE = ("path", "by", "run", "causes", "digest")
_KINDS = (
    EventKind(name="file.created", tells="A file is new in the vault.", fields=_CHANGE),
    EventKind(name="file.modified", tells="A file's content is another.", fields=_CHANGE),
    EventKind(name="file.moved", tells="A file has another path, perhaps with another content too.", fields=(*_CHANGE, "from")),
    EventKind(name="file.deleted", tells="A file is gone.", fields=_CHANGE),
    EventKind(
        name="watch.declared",
        tells="A note says what it watches, anew or otherwise than before.",
        fields=("watcher", "patterns", "problems"),
    ),
    EventKind(name="watch.removed", tells="A note watches nothing any more.", fields=("watcher",)),
    EventKind(name="task.queued", tells="A watcher has something to review.", fields=("task", "watcher", "paths", "causes", "due")),
    EventKind(name="task.started", tells="An agent has begun on a task.", fields=("task", "watcher", "run", "backend")),
    EventKind(name="task.finished", tells="A task is done with.", fields=("task", "watcher", "run", "outcome")),
    EventKind(name="run.finished", tells="An agent's run has ended.", fields=("run", "watcher", "outcome", "reason", "paths", "cost_usd")),
    EventKind(name="run.undone", tells="A run, and what followed from it, was taken back.", fields=("run", "runs", "paths", "kept")),
    EventKind(name="vault.problem", tells="Something about the vault needs a person, or no longer does.", fields=("subject", "problem")),
    EventKind(name="budget.exceeded", tells="A task waits, since a budget is used up.", fields=("task", "watcher", "budget", "limit")),
)

CATALOG: Mapping[str, EventKind] = MappingProxyType({kind.name: kind for kind in _KINDS})
