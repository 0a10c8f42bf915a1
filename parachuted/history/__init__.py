"""History: versions with authors, why, restore, undo and retention."""

from parachuted.history.restore import RefuseText, Restore, RestoreResult
from parachuted.history.retention import (
    HistoryPruning,
    HistorySize,
    Retention,
    RetentionLimits,
)
from parachuted.history.run_account import is_bookkeeping
from parachuted.history.undo import Undo, UndoResult, runs_of_session
from parachuted.history.why import FileDiff, FileHistory, HistoryQueries, LineOrigin, Why

__all__ = [
    "FileDiff",
    "FileHistory",
    "HistoryPruning",
    "HistoryQueries",
    "HistorySize",
    "LineOrigin",
    "RefuseText",
    "Restore",
    "RestoreResult",
    "Retention",
    "RetentionLimits",
    "Undo",
    "UndoResult",
    "Why",
    "is_bookkeeping",
    "runs_of_session",
]
