"""The current call: which run of an agent a module's code works for, and whose words led to it.

Apart, so that a module's process loads nothing for it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentCall:
    """On whose behalf the code works now.

    `run` is the id of the agent's run that called a tool, or None: a person, the clock or another
    module called. `origin` is whose words what it writes counts as: `you`, `agent`, or a stranger's
    (`bot`, `imported`, `web`), where `is_strangers` is true. `key` is the id of the API key that
    asked; empty for a person at the machine, a schedule and the module itself. `is_limited`: it
    reaches only some paths of the vault.
    """

    run: str | None
    origin: str
    is_strangers: bool = False
    key: str = ""
    is_limited: bool = False
