"""Bubbling: watch declarations, what a change means, and which notes it wakes."""

from parachuted.bubbling.baseline_texts import BaselineTexts
from parachuted.bubbling.meaning import Meaning, changed_units, meaning
from parachuted.bubbling.patterns import WatchDeclaration, WatchPattern, parse_declaration
from parachuted.bubbling.pending_changes import PendingChange, PendingChanges
from parachuted.bubbling.plan import ChangePlan, PlannedRun, plan_for
from parachuted.bubbling.reach import watched_beyond
from parachuted.bubbling.reconciler import Reconciler
from parachuted.bubbling.watches import WatchRegistry

__all__ = [
    "BaselineTexts",
    "ChangePlan",
    "Meaning",
    "PendingChange",
    "PendingChanges",
    "PlannedRun",
    "Reconciler",
    "WatchDeclaration",
    "WatchPattern",
    "WatchRegistry",
    "changed_units",
    "meaning",
    "parse_declaration",
    "plan_for",
    "watched_beyond",
]
