"""A module that may run: whether hooks let it, its calls as runs that can be undone, and what it
reports.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Protocol, Unpack

from pydantic import TypeAdapter, ValidationError

from parachuted.access.authority import NO_AUTHORITY, Authority
from parachuted.errors import (
    ActRefusedError,
    ModuleFailedError,
    NotFoundError,
    ParachuteError,
)
from parachuted.events import Bus
from parachuted.history.run_account import CallRun
from parachuted.hooks import HookDecision, HookEvent, HookParticipant
from parachuted.modules.hosting.in_process import InProcessHost
from parachuted.modules.hosting.inbox import Inbox
from parachuted.modules.hosting.running_module import (
    CALL_LIMIT_S,
    COMMAND_LIMIT_S,
    RequestArguments,
    RunningModule,
)
from parachuted.modules.hosting.status import Where
from parachuted.modules.registry.approved import ApprovedModule, ModuleEntry
from parachuted.modules.registry.declaration import ModuleDeclaration, ToolSpec
from parachuted.modules.results import Finding
from parachuted.processes.uninterrupted import run_uninterrupted
from parachuted.visible import visible

MakeCallRun = Callable[[str, Authority], CallRun]


class RecordedModule:
    """A `RunningModule` around another one.

    Calls of its interfaces are part of the run of the call that led to them.
    """

    def __init__(self, name: str, inner: RunningModule, make_run: MakeCallRun) -> None:
        """`name` is the module's; `make_run` makes the record of a call, by the call's name and the
        authority it is made with.
        """
        self.inner, self._name, self._make_run = inner, name.capitalize(), make_run

    @property
    def declared(self) -> ModuleDeclaration:
        return self.inner.declared

    @property
    def problem(self) -> str | None:
        return self.inner.problem

    @property
    def limits(self) -> str | None:
        return self.inner.limits

    async def start(self, authority: Authority | None = None) -> None:
        async with self._recorded("on_enable", authority or Authority()) as recorded:
            await self.inner.start(recorded)

    async def stop(self) -> None:
        await self.inner.stop()

    async def call(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
        **sent: Unpack[RequestArguments],
    ) -> object:
        async with self._recorded(handler, authority) as recorded:
            return await self.inner.call(
                handler, arguments, timeout_s=timeout_s, authority=recorded, **sent
            )

    async def tell(
        self,
        handler: str,
        data: Mapping[str, object],
        *,
        timeout_s: float = CALL_LIMIT_S,
        authority: Authority = NO_AUTHORITY,
    ) -> None:
        async with self._recorded(handler, authority) as recorded:
            await self.inner.tell(handler, data, timeout_s=timeout_s, authority=recorded)

    async def stream(
        self,
        handler: str,
        arguments: Mapping[str, object],
        *,
        after: str | None = None,
        authority: Authority = NO_AUTHORITY,
        **sent: Unpack[RequestArguments],
    ) -> AsyncIterator[object]:
        async with self._recorded(handler, authority) as recorded:
            streamed = self.inner.stream(
                handler, arguments, after=after, authority=recorded, **sent
            )
            async with aclosing(streamed) as items:  # type: ignore[type-var]
                async for item in items:
                    yield item

    def interface(self, name: str, authority: Authority = NO_AUTHORITY) -> object | None:
        return self.inner.interface(name, authority)

    @asynccontextmanager
    async def _recorded(self, handler: str, authority: Authority) -> AsyncIterator[Authority]:
        what = handler.rpartition(":")[2].strip("_").replace("_", " ")
        call = self._make_run(f"{self._name}: {what}", authority)
        try:
            yield replace(authority, call=call)
        finally:
            if call.run is None:
                call.close()
            else:
                await run_uninterrupted(call.close)


_BEFORE = "module.load.before"


class LoadGuard(Protocol):
    """Who may object to a module's code being loaded: the hooks. Modules may take part in them."""

    def wants(self, event: str) -> bool: ...

    async def ask(self, occurrence: HookEvent) -> HookDecision: ...

    def set_participants(self, participants: Iterable[HookParticipant]) -> None: ...


async def ask_to_load(
    guard: LoadGuard, approved: ApprovedModule, at: datetime, vault: Path
) -> None:
    """Let hooks object. Raises ActRefusedError."""
    if not guard.wants(_BEFORE):
        return
    data = {
        "name": approved.name,
        "version": approved.manifest.version,
        "hash": approved.digest,
        "trust": approved.trust,
    }
    occurrence = HookEvent(event=_BEFORE, at=at, data=data, vault=vault, module=approved.name)
    decision = await guard.ask(occurrence)
    if not decision.allowed:
        raise ActRefusedError(f"a hook objects to the module {approved.name}: {decision.reason}")


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
    hooks: tuple[HookParticipant, ...] = ()

    @property
    def host(self) -> RunningModule | None:
        """What runs its code, without what records its calls."""
        return self.running.inner if isinstance(self.running, RecordedModule) else self.running

    @property
    def where(self) -> Where | None:
        """Where its code runs; None while it does not."""
        if self.running is None:
            return None
        return "in process" if isinstance(self.host, InProcessHost) else "container"

    @property
    def failure(self) -> str | None:
        found = self.problem if self.running is None else self.running.problem
        return _SLOW if found is None and self.inbox is not None and self.inbox.dropped else found

    async def call_tool(
        self, tool: str, arguments: Mapping[str, object], timeout_s: float, authority: Authority
    ) -> object:
        """Raises NotFoundError where it offers none of that name, and as `RunningModule.call`."""
        if self.running is None or tool not in self.tools:
            raise NotFoundError(f"the module {self.approved.name} has no tool {tool}")
        return await self.running.call(
            self.tools[tool].handler, arguments, timeout_s=timeout_s, authority=authority
        )

    async def call_command(
        self, command: str, arguments: Mapping[str, object], authority: Authority
    ) -> object:
        """Raises NotFoundError where it offers none of that name, and as `RunningModule.call`."""
        specs = () if self.running is None else self.running.declared.commands
        spec = next((one for one in specs if one.name == command), None)
        if self.running is None or spec is None:
            raise NotFoundError(f"the module {self.approved.name} has no command {command}")
        return await self.running.call(
            spec.handler, arguments, timeout_s=COMMAND_LIMIT_S, authority=authority
        )


_CHANGED = (
    "its folder is not what was approved; `parachute modules diff {0}` shows how, "
    "`parachute modules approve {0}` takes it"
)


class ModuleReports:
    """Publishes each change and each failure once.

    `report` sets a problem by subject, None clears it.
    """

    def __init__(self, bus: Bus, report: Callable[[str, str | None], None]) -> None:
        self._bus, self._report = bus, report
        self._changed: dict[str, str | None] = {}
        self._subjects: set[str] = set()

    def publish_changes(self, entries: Sequence[ModuleEntry]) -> None:
        """Publish which folders were edited since the last call."""
        changed = {entry.name: entry.found_digest for entry in entries if entry.state == "changed"}
        for name, digest in changed.items():
            if self._changed.get(name) != digest:
                self._bus.publish("module.changed", name=name, hash=digest)
        self._changed = changed

    def publish_failures(
        self, entries: Sequence[ModuleEntry], hosted: Mapping[str, HostedModule]
    ) -> None:
        """Publish which modules have failed since the last call, and set or clear the problem of
        each.
        """
        for name, one in hosted.items():
            failure = one.failure
            if failure is not None and failure != one.reported:
                version = one.approved.manifest.version
                self._bus.publish(
                    "module.failed", name=name, version=version, error=_last_line(failure)
                )
            one.reported = failure
        subjects = {f"module:{entry.name}" for entry in entries}
        for subject in self._subjects - subjects:
            self._report(subject, None)
        self._subjects = subjects
        for entry in entries:
            found = hosted.get(entry.name)
            failure = (found.failure if found is not None else None) or (
                entry.problem if entry.enabled else None
            )
            changed = _CHANGED.format(entry.name) if entry.name in self._changed else None
            self._report(
                f"module:{entry.name}", changed if failure is None else _last_line(failure)
            )


def _last_line(problem: str) -> str:
    return problem.strip().splitlines()[-1][:300] if problem.strip() else "it failed"


_LIMIT_S = 10.0
_MOST = 200
_LONGEST = 2_000
_SEE = "`parachute modules status {}` shows more"


_REPORTED: TypeAdapter[list[Finding]] = TypeAdapter(list[Finding])


async def findings_of(running: RunningModule, authority: Authority) -> list[Finding]:
    """What one module reports.

    Raises ModuleFailedError when it fails, takes too long or reports something else.
    """
    found = await running.call("doctor", {}, timeout_s=_LIMIT_S, authority=authority)
    try:
        reported = _REPORTED.validate_python(found)
    except ValidationError as error:
        raise ModuleFailedError(
            f"doctor of the module {running.declared.name} returned something else than a list of "
            f"Finding: {error.errors(include_url=False)[0]['msg']}"
        ) from error
    shown = [
        Finding(
            problem=_line(one.problem),
            advice=_line(one.advice),
            path=None if one.path is None else _line(one.path),
            line=one.line,
        )
        for one in reported[:_MOST]
    ]
    if len(reported) > _MOST:
        shown.append(Finding(problem=f"and {len(reported) - _MOST:,} more"))
    return shown


async def module_findings(
    modules: Iterable[RunningModule], authority: Authority
) -> list[tuple[str, Finding]]:
    """What all modules report, with the name of each; a doctor that fails is a finding itself."""

    async def ask(running: RunningModule) -> list[Finding]:
        try:
            return await findings_of(running, authority.forked())
        except ParachuteError as error:
            advice = _SEE.format(running.declared.name)
            return [Finding(problem=f"its doctor failed: {error.message}", advice=advice)]

    asked = [one for one in modules if one.declared.has_doctor]
    answers = await asyncio.gather(*(ask(one) for one in asked))
    return [
        (running.declared.name, finding)
        for running, found in zip(asked, answers, strict=True)
        for finding in found
    ]


def _line(text: str) -> str:
    return visible(text[:_LONGEST])
