"""Gateway: the way of every model call, on which credentials are added and money is counted."""

from parachuted.agents.gateway.gateway import Gateway, Way
from parachuted.agents.gateway.judge import Judge
from parachuted.agents.gateway.ledger import Ledger, Spent, Usage
from parachuted.agents.gateway.limits import MoneyLimits, Over
from parachuted.agents.gateway.ticket import Ticket

__all__ = ["Gateway", "Judge", "Ledger", "MoneyLimits", "Over", "Spent", "Ticket", "Usage", "Way"]
