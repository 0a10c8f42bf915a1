"""Events: what happens in the vault, noticed and told."""

from parachuted.events.bus import Bus, Event
from parachuted.events.catalog import CATALOG, CORE, FACTS, EventKind
from parachuted.events.changes import PERSON, Change
from parachuted.events.held import Pace
from parachuted.events.keeper import Keeper, Listeners
from parachuted.events.looker import Looker, load_ignore
from parachuted.events.noticer import Noticer
from parachuted.events.problems import Problems
from parachuted.events.watcher import Hints, Watcher, make_watcher

__all__ = [
    "CATALOG",
    "CORE",
    "FACTS",
    "PERSON",
    "Bus",
    "Change",
    "Event",
    "EventKind",
    "Hints",
    "Keeper",
    "Listeners",
    "Looker",
    "Noticer",
    "Pace",
    "Problems",
    "Watcher",
    "load_ignore",
    "make_watcher",
]
