"""Bubbling: watch declarations, what a change means, and which notes it wakes."""

from parachuted.bubbling.patterns import WatchDeclaration, WatchPattern, parse_declaration
from parachuted.bubbling.pending_changes import (
    Meaning,
    PendingChange,
    PendingChanges,
    changed_units,
    meaning,
)
from parachuted.bubbling.plan import ChangePlan, PlannedRun, plan_for, watched_beyond
from parachuted.bubbling.reconciler import Reconciler
from parachuted.bubbling.watches import BaselineTexts, WatchRegistry

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
