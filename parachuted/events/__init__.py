"""Events: what happens in the vault, how it is detected, and who hears of it."""

from parachuted.events.bus import Bus, Event, Problems
from parachuted.events.catalog import CATALOG, CORE, FACTS, EventKind
from parachuted.events.change_detector import ChangeDetector
from parachuted.events.changes import PERSON, Change, ChangeCommitter, ChangeListeners
from parachuted.events.disk_scan import DiskScan, load_ignore
from parachuted.events.watcher import ChangeHints, DebounceTimes, FileWatcher, make_watcher

__all__ = [
    "CATALOG",
    "CORE",
    "FACTS",
    "PERSON",
    "Bus",
    "Change",
    "ChangeCommitter",
    "ChangeDetector",
    "ChangeHints",
    "ChangeListeners",
    "DebounceTimes",
    "DiskScan",
    "Event",
    "EventKind",
    "FileWatcher",
    "Problems",
    "load_ignore",
    "make_watcher",
]
