"""Hosted module: a module that may run, with what of it runs or why it does not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.inbox import Inbox
from parachuted.modules.hosting.recorded_module import RecordedModule
from parachuted.modules.hosting.running_module import RunningModule
from parachuted.modules.hosting.status import Where
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.declaration import ToolSpec

_SLOW = (
    "it handles events more slowly than they come, so some were dropped; restart it "
    "when that is mended"
)


@dataclass(slots=True, kw_only=True, eq=False)
class HostedModule:
    """One module that may run. `reported` is the failure that was last published."""

    approved: ApprovedModule
    running: RunningModule | None = None
    inbox: Inbox | None = None
    delivery: asyncio.Task[None] | None = None
    problem: str | None = None
    reported: str | None = None
    tools: dict[str, ToolSpec] = field(default_factory=dict)

    @property
    def host(self) -> RunningModule | None:
        """What runs its code, without what records its calls."""
        return self.running.inner if isinstance(self.running, RecordedModule) else self.running

    @property
    def where(self) -> Where | None:
        """Where its code runs; None while it does not."""
        if self.running is None:
            return None
        return "in process" if isinstance(self.host, InProcessHost) else "worker"

    @property
    def failure(self) -> str | None:
        """What is wrong with it just now."""
        found = self.problem if self.running is None else self.running.problem
        return _SLOW if found is None and self.inbox is not None and self.inbox.dropped else found
