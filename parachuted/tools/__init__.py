"""What an agent may do in the vault."""

from parachuted.tools.agent_hooks import AgentHooks, HookAsker, NoHooks
from parachuted.tools.context_files import ContextFiles, ContextGrant
from parachuted.tools.curator import Curator, CuratorParts
from parachuted.tools.doctor import LintWarning, VaultDoctor
from parachuted.tools.migration import Migration, MigrationResult
from parachuted.tools.move import Mover, MoveResult
from parachuted.tools.run_recovery import RunRecovery

__all__ = [
    "AgentHooks",
    "ContextFiles",
    "ContextGrant",
    "Curator",
    "CuratorParts",
    "HookAsker",
    "LintWarning",
    "Migration",
    "MigrationResult",
    "MoveResult",
    "Mover",
    "NoHooks",
    "RunRecovery",
    "VaultDoctor",
]
