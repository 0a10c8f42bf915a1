"""The gateway that every model call passes: it adds credentials and counts cost."""

from parachuted.agents.gateway.gateway import Gateway
from parachuted.agents.gateway.grant import GatewayGrant
from parachuted.agents.gateway.limits import Endpoint, MoneyLimits, RunToken
from parachuted.agents.gateway.upstream import is_on_this_machine, is_passing
from parachuted.agents.gateway.usage_store import RequestUsage, UsageStore, UsageTotals

__all__ = [
    "Endpoint",
    "Gateway",
    "GatewayGrant",
    "MoneyLimits",
    "RequestUsage",
    "RunToken",
    "UsageStore",
    "UsageTotals",
    "is_on_this_machine",
    "is_passing",
]
