"""Modules: how long a hundred take to begin, what a call and an event cost, in this process, over
real approvals.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.report import Figure
from parachuted.audit.chain import NullAuditRecorder
from parachuted.events import Bus, Problems
from parachuted.hooks import HookDecision, HookEvent
from parachuted.modules.hosting.audited import ModuleAudit
from parachuted.modules.hosting.event_publisher import EventPublisher
from parachuted.modules.hosting.exchange import Interfaces, ModuleExchange
from parachuted.modules.hosting.host import HandlerCall
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.manager import ModuleManager, ask_to_load
from parachuted.modules.hosting.schedules import ModuleScheduler
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovedModule
from parachuted.modules.registry.skeleton import new_module

_MODULES = 100
_HEARING = 10
_CALLS = 3000
_EVENTS = 2000
_AT_ONCE = 200
_TOO_LONG_S = 60
_HEARS = """
    @event("file.deleted")
    async def on_file_deleted(self, path: str):
        self.log.count()

    @route("GET", "/empty")
    async def empty(self):
        return {}
"""


def modules(folder: Path) -> Iterator[Figure]:
    """Begin, find, call, tell."""
    vault, home = folder / "vault", folder / "home"
    home.mkdir(parents=True, mode=0o700)
    (vault / "Modules").mkdir(parents=True)
    trust = ModuleApprovals(home, vault, env=dict(os.environ))
    for number in range(_MODULES):
        _approve(trust, vault, f"module-{number:03d}", hears=number < _HEARING)
    yield from asyncio.run(_measured(vault, trust))
    shutil.rmtree(vault)


async def _measured(vault: Path, trust: ModuleApprovals) -> list[Figure]:
    def clock() -> datetime:
        return datetime.now(UTC)

    bus, audit = Bus(clock), ModuleAudit(NullAuditRecorder(), clock)
    found = ModuleManager(
        trust,
        lambda approved: InProcessHost(approved, _Services(approved)),  # type: ignore[arg-type]
        partial(ask_to_load, _Nobody(), vault, clock),  # type: ignore[arg-type]
        ModuleExchange(
            EventPublisher(bus, audit),
            Interfaces(audit),
            ModuleScheduler(clock, None, audit),
        ),
        audit,
        bus,
        Problems(bus),
    )
    began = time.perf_counter()
    await found.sync()
    started = time.perf_counter() - began
    running = sum(status.where is not None for status in found.status())
    if running < _MODULES:
        raise RuntimeError(
            f"only {running} of {_MODULES} modules began: "
            f"{[one.problem for one in found.status() if one.problem][:1]}"
        )
    figures = [
        Figure(
            name=f"{_MODULES} modules verified, loaded and enabled",
            value=started,
            unit="s",
            bound=1.5,
        )
    ]
    figures += [_finding(found), await _calling(found)]
    async with asyncio.TaskGroup() as group:
        task = group.create_task(found.run())
        await asyncio.sleep(0)
        figures += [_unheard(bus), await _telling(found, bus)]
        task.cancel()
    began = time.perf_counter()
    await found.stop()
    figures.append(
        Figure(
            name=f"{_MODULES} modules stopped", value=time.perf_counter() - began, unit="s", bound=1
        )
    )
    return figures


def _finding(found: ModuleManager) -> Figure:
    began = time.perf_counter()
    for _ in range(_CALLS):
        found.routes.find("GET", "/api/module-077/items")
    return Figure(
        name=f"finding a route among {_MODULES} modules",
        value=_micro(began, _CALLS),
        unit="us",
        bound=20,
    )


async def _calling(found: ModuleManager) -> Figure:
    """What the wall adds to a handler: its limit of time, its own task, its arguments and its
    answer checked.
    """
    there = found.routes.find("GET", "/api/module-003/empty")
    if there is None:
        raise RuntimeError("there is no such route")
    spans = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(_CALLS):
            await there.host.call(HandlerCall(there.spec.handler))
        spans.append(_micro(began, _CALLS))
    return Figure(
        name="a handler that does nothing, called through the wall",
        value=statistics.median(spans),
        unit="us",
        bound=60,
    )


def _unheard(bus: Bus) -> Figure:
    began = time.perf_counter()
    for _ in range(_EVENTS):
        bus.publish("file.created", path="a.md", by="person", run=None, causes=[], digest="d")
    return Figure(
        name="an event that no module hears, published",
        value=_micro(began, _EVENTS),
        unit="us",
        bound=20,
    )


async def _telling(found: ModuleManager, bus: Bus) -> Figure:
    """From publishing until the last of ten modules has handled the last event; a few at a time,
    since an inbox is bounded.
    """
    counting = _Services.counting
    began = time.perf_counter()
    for first in range(0, _EVENTS, _AT_ONCE):
        for number in range(first, first + _AT_ONCE):
            bus.publish(
                "file.deleted",
                path=f"Module{number % 100:03d}/a.md",
                by="person",
                run=None,
                causes=["c"],
                digest=None,
            )
        await counting.until((first + _AT_ONCE) * _HEARING)
    if found.status()[0].problem:
        raise RuntimeError(found.status()[0].problem)
    return Figure(
        name=f"an event told to {_HEARING} modules, a module",
        value=_micro(began, _EVENTS * _HEARING),
        unit="us",
        bound=150,
    )


def _approve(trust: ModuleApprovals, vault: Path, name: str, *, hears: bool) -> None:
    folder = vault / "Modules" / name
    new_module(folder, name)
    code, manifest = folder / "module.py", folder / "manifest.yaml"
    if hears:
        code.write_text(code.read_text() + _HEARS)
        text = manifest.read_text().replace("read: [", "read: ['**', ")
        manifest.write_text(text.replace("hooks: [", "hooks: [file.deleted, "))
    digest = trust.entry(name).found_digest
    if digest is None:
        raise RuntimeError(f"{name} cannot be read")
    trust.approve(name, digest, trust="trusted")


def _micro(began: float, times: int) -> float:
    return (time.perf_counter() - began) / times * 1e6


class _Counting:
    """Stands where the log would: the modules of this measure count there what they hear."""

    def __init__(self) -> None:
        self._heard, self._wanted = 0, 0
        self._enough = asyncio.Event()

    def count(self) -> None:
        self._heard += 1
        if self._heard >= self._wanted:
            self._enough.set()

    async def until(self, heard: int) -> None:
        self._wanted = heard
        self._enough.clear()
        if self._heard < heard:
            await asyncio.wait_for(self._enough.wait(), _TOO_LONG_S)


class _Services:
    """Services of which the measured handlers use nothing but the count."""

    counting = _Counting()

    def __init__(self, approved: ApprovedModule) -> None:
        self.name = approved.name
        self.config: Mapping[str, object] = {}
        self.log = self.counting

    def __getattr__(self, _name: str) -> object:
        return None

    def publish(self, event: str, data: Mapping[str, object]) -> None: ...

    def get_interface(self, name: str) -> object | None: ...


class _Nobody:
    def wants(self, _event: str) -> bool:
        return False

    async def ask(self, _occurrence: HookEvent) -> HookDecision:
        return HookDecision()
