"""History: versions with authors, why, restore, undo and retention."""

from parachuted.history.restore import Restore
from parachuted.history.retention import (
    HistoryPruning,
    HistorySize,
    Pruned,
    Retention,
    RetentionLimits,
)
from parachuted.history.revert import RefuseText, RevertResult, refuse_nothing, revert, revert_move
from parachuted.history.run_account import is_without_effect
from parachuted.history.session_runs import runs_of_session
from parachuted.history.undo import Undo, UndoLimits, UndoResult
from parachuted.history.why import HistoryQueries, LineOrigin, Why

__all__ = [
    "HistoryPruning",
    "HistoryQueries",
    "HistorySize",
    "LineOrigin",
    "Pruned",
    "RefuseText",
    "Restore",
    "Retention",
    "RetentionLimits",
    "RevertResult",
    "Undo",
    "UndoLimits",
    "UndoResult",
    "Why",
    "is_without_effect",
    "refuse_nothing",
    "revert",
    "revert_move",
    "runs_of_session",
]
