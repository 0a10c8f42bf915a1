"""History: versions with authors, why, restore, undo and retention."""

from parachuted.history.restore import RefuseText as RefuseText
from parachuted.history.restore import Restore as Restore
from parachuted.history.restore import RestoreResult as RestoreResult
from parachuted.history.retention import HistoryPruning as HistoryPruning
from parachuted.history.retention import HistorySize as HistorySize
from parachuted.history.retention import Retention as Retention
from parachuted.history.retention import RetentionLimits as RetentionLimits
from parachuted.history.run_account import is_bookkeeping as is_bookkeeping
from parachuted.history.undo import Undo as Undo
from parachuted.history.undo import UndoResult as UndoResult
from parachuted.history.undo import runs_of_session as runs_of_session
from parachuted.history.why import FileDiff as FileDiff
from parachuted.history.why import FileHistory as FileHistory
from parachuted.history.why import HistoryQueries as HistoryQueries
from parachuted.history.why import LineOrigin as LineOrigin
from parachuted.history.why import Why as Why
