"""What an agent may do in the vault."""

from parachuted.tools.context_files import ContextFiles, ContextGrant
from parachuted.tools.doctor import LintWarning, VaultDoctor
from parachuted.tools.migration import Migration, MigrationResult
from parachuted.tools.move import MovePlan, Mover, MoveResult, Writing, unwatched

__all__ = [
    "ContextFiles",
    "ContextGrant",
    "LintWarning",
    "Migration",
    "MigrationResult",
    "MovePlan",
    "MoveResult",
    "Mover",
    "VaultDoctor",
    "Writing",
    "unwatched",
]
