"""Ways: what the backend needs of the gateway and of the sandboxes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from parachuted.agents.gateway import Spent, Ticket, Way
from parachuted.agents.sandbox.box_spec import BoxSpec
from parachuted.agents.sandbox.container import Container

__all__ = ["Gateway", "Sandboxes", "Ticket", "Way"]


class Gateway(Protocol):
    def open(self, ticket: Ticket, folder: Path | None = None) -> AbstractAsyncContextManager[Way]: ...

    def spent(self, run: str) -> Spent: ...


class Sandboxes(Protocol):
    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[Container]: ...
