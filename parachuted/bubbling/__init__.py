"""Bubbling: watch declarations, what a change means, and whom it wakes."""

from parachuted.bubbling.meaning import Meaning, changed_units, meaning
from parachuted.bubbling.patterns import Declaration, Pattern, parse_declaration
from parachuted.bubbling.plan import Plan, PlannedRun, plan_for
from parachuted.bubbling.reach import watched_beyond
from parachuted.bubbling.reconciler import Reconciler
from parachuted.bubbling.reviews import Review, Reviews
from parachuted.bubbling.watches import Watches

__all__ = [
    "Declaration",
    "Meaning",
    "Pattern",
    "Plan",
    "PlannedRun",
    "Reconciler",
    "Review",
    "Reviews",
    "Watches",
    "changed_units",
    "meaning",
    "parse_declaration",
    "plan_for",
    "watched_beyond",
]
