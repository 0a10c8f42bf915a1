"""Hearing: which events exist for a module. One that names a file which the module may not read does not, or not as it is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from parachuted.events import Event
from parachuted.modules.bounds import Bounds

_UNBOUNDED = frozenset({"vault.problem", "tool.after", "permission.requested", "permission.answered"})
"""Words that may name any note, and what an agent read in any."""
_WORDS = "reason"


def heard(event: Event, bounds: Bounds) -> Event | None:
    """The event as it exists for who has these bounds; None: it does not."""
    if event.event in _UNBOUNDED:
        return None
    if event.event == "file.moved":
        return _moved(event, bounds)
    paths = list(paths_of(event.data))
    if not all(map(bounds.may_read, paths)):
        return None
    return replace(event, data={**event.data, _WORDS: ""}) if paths and _WORDS in event.data else event


def _moved(event: Event, bounds: Bounds) -> Event | None:
    """A file that comes from elsewhere is new, one that leaves is gone."""
    to, source = str(event.data["path"]), str(event.data["from"])
    if bounds.may_read(to):
        if bounds.may_read(source):
            return event
        return replace(event, event="file.created", data={name: value for name, value in event.data.items() if name != "from"})
    if bounds.may_read(source):
        data = {name: value for name, value in event.data.items() if name != "from"}
        return replace(event, event="file.deleted", data={**data, "path": source, "digest": None})
    return None


def paths_of(data: Mapping[str, object]) -> Iterator[str]:
    """The files that an event names."""
    for name in ("path", "from", "watcher"):
        if isinstance(found := data.get(name), str):
            yield found
    for name in ("paths", "kept"):
        found = data.get(name)
        if isinstance(found, list | tuple):
            yield from map(str, found)
