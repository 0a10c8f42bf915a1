"""Events: what happens in the vault, how it is detected, and who hears of it."""

from parachuted.events.bus import Bus, Event, Problems
from parachuted.events.catalog import CATALOG, CORE, FACTS, EventKind
from parachuted.events.changes import PERSON, Change, ChangeListeners
from parachuted.events.disk_scan import load_ignore

__all__ = [
    "CATALOG",
    "CORE",
    "FACTS",
    "PERSON",
    "Bus",
    "Change",
    "ChangeListeners",
    "Event",
    "EventKind",
    "Problems",
    "load_ignore",
]
