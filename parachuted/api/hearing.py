"""Hearing: which events exist for a listener, and what of them.

Who may read everything is told everything, in bytes that all such listeners share. Who may read some paths is told of those alone: a file
that comes from elsewhere is new there, one that leaves is gone, and an event that names any other path does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from parachuted.access.paths import is_hidden
from parachuted.events import CATALOG, Event
from parachuted.keys import Grant, Identity, Scope, granted

_ROOMS = {"file": "vault", "watch": "curator", "task": "curator", "run": "curator", "budget": "curator", "tool": "curator"}
_ROOMS |= {"permission": "curator", "suggestion": "curator"}
_ROOMS |= {"session": "chat", "context": "chat", "chat": "chat", "daily": "daily", "brain": "brain"}
_OTHERS = "system"
_FREE_TEXT = {"reason": ""}  # what an agent says of a run may name any note


@dataclass(frozen=True, slots=True)
class Hearing:
    """What one listener may read. Equal for listeners who are told the same."""

    scopes: tuple[Scope, ...]

    def heard(self, event: Event) -> Event | None:
        """The event as it exists for the listener; the very same where nothing is left out; None: it does not."""
        grant = self._grant(event.event)
        if grant is None or any(map(is_hidden, _paths(event.data))):
            return None
        if grant.alternatives is None:
            return event
        if event.event == "file.moved":
            return _moved(event, grant)
        paths = list(_paths(event.data))
        if not paths or not all(map(grant.sees, paths)):
            return None
        left_out = {name: text for name, text in _FREE_TEXT.items() if name in event.data}
        return replace(event, data={**event.data, **left_out}) if left_out else event

    def _grant(self, name: str) -> Grant | None:
        first = name.partition(".")[0]
        module = _ROOMS.get(first, _OTHERS) if name in CATALOG else first  # what is not ours is the event of the module of that name
        return granted(self.scopes, module, "read")


def hearing_of(identity: Identity) -> Hearing:
    """What that caller may be told."""
    return Hearing(identity.scopes)


def _paths(data: Mapping[str, object]) -> Iterator[str]:
    """Every path that an event names."""
    for name in ("path", "from", "watcher"):
        if name in data:
            yield str(data[name])
    for name in ("paths", "kept"):
        found = data.get(name)
        if isinstance(found, list | tuple | Mapping):
            yield from map(str, found)


def _moved(event: Event, grant: Grant) -> Event | None:
    source, target = str(event.data.get("from", "")), str(event.data.get("path", ""))
    left, came = grant.sees(source), grant.sees(target)
    if left and came:
        return event
    rest = {name: value for name, value in event.data.items() if name != "from"}
    if came:
        return replace(event, event="file.created", data=rest)
    return replace(event, event="file.deleted", data={**rest, "path": source, "digest": None}) if left else None
