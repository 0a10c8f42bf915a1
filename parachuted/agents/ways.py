"""Ways: what the backend needs of the gateway and of the sandboxes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from parachuted.agents.sandbox.box_spec import BoxSpec
from parachuted.agents.sandbox.container import Container


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    run: str
    agent: str
    causes: tuple[str, ...]
    session: str | None
    max_cost_usd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    url: str
    token: str
    socket: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpentHere:
    usd: float
    input: int
    output: int
    cached: int = 0


class Gateway(Protocol):
    def open(self, ticket: Ticket, folder: Path | None = None) -> AbstractAsyncContextManager[Way]: ...

    def spent(self, run: str) -> SpentHere: ...


class Sandboxes(Protocol):
    def open(self, spec: BoxSpec) -> AbstractAsyncContextManager[Container]: ...
