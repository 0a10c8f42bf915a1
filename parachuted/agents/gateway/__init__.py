"""The gateway that every model call passes: it adds credentials and counts cost."""

from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.limits import Endpoint, ExceededBudget, MoneyLimits, RunToken
from parachuted.agents.gateway.listeners import Grant
from parachuted.agents.gateway.usage_store import RequestUsage, UsageStore, UsageTotals

__all__ = [
    "Endpoint",
    "ExceededBudget",
    "Gateway",
    "Grant",
    "MoneyLimits",
    "RequestUsage",
    "RunToken",
    "UsageStore",
    "UsageTotals",
]
