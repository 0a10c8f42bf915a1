"""Tools: what an agent may do in the vault."""

from parachuted.tools.aftermath import Aftermath
from parachuted.tools.context_files import ContextFiles, Grant, finished
from parachuted.tools.curator import Curator, Parts
from parachuted.tools.doctor import Doctor, Oddity
from parachuted.tools.hooked import AgentHooks, Asker, Unasked
from parachuted.tools.migration import Migrated, Migration
from parachuted.tools.move import Moved, Mover
from parachuted.tools.past import Past
from parachuted.tools.pruning import Pruning
from parachuted.tools.restore import Restore
from parachuted.tools.undo import Undo, Undone
from parachuted.tools.why import LineOrigin, Why

__all__ = [
    "Aftermath",
    "AgentHooks",
    "Asker",
    "ContextFiles",
    "Curator",
    "Doctor",
    "Grant",
    "LineOrigin",
    "Migrated",
    "Migration",
    "Moved",
    "Mover",
    "Oddity",
    "Parts",
    "Past",
    "Pruning",
    "Restore",
    "Unasked",
    "Undo",
    "Undone",
    "Why",
    "finished",
]
