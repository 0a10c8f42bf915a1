"""Activity: one line of the activity log. Apart, so that a module's process loads no vault for
it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One exchange, as the log has it.

    `ts` is in UTC; `origin` says that a stranger's text led to it, and of which kind.
    """

    ts: str
    summary: str
    session_id: str | None = None
    session_title: str | None = None
    agent_type: str | None = None
    exchange_number: int = 0
    origin: str | None = None
