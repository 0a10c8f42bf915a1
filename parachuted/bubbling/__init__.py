"""Bubbling: watch declarations, what a change means, and which notes it wakes."""

from parachuted.bubbling.patterns import WatchDeclaration
from parachuted.bubbling.pending_changes import (
    PendingChange,
    PendingChanges,
)
from parachuted.bubbling.plan import ChangePlan, StartedPlan, plan_for, watched_beyond
from parachuted.bubbling.reconciler import Reconciler
from parachuted.bubbling.watches import WatchedTexts, WatchRegistry

__all__ = [
    "ChangePlan",
    "PendingChange",
    "PendingChanges",
    "Reconciler",
    "StartedPlan",
    "WatchDeclaration",
    "WatchRegistry",
    "WatchedTexts",
    "plan_for",
    "watched_beyond",
]
