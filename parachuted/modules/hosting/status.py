"""A module's status, as a person is shown it, and what is reported of all modules as it changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from parachuted.events import Bus
from parachuted.modules.hosting.host import ModuleHost, Where
from parachuted.modules.registry.approved import (
    ApprovedModule,
    FolderState,
    ModuleEntry,
    TrustLevel,
)
from parachuted.modules.registry.declaration import CommandSpec
from parachuted.modules.results import Finding
from parachuted.modules.settings import SettingSpec
from parachuted.texts.visible import visible

Condition: TypeAlias = Literal["running", "starting", "failed", "disabled", "unapproved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleStatus:
    """`status` is `failed` where it could not start, and where its last error is unresolved;
    `starting` before its first start. `state` compares its folder with what was approved, whose
    digest is `hash`. `notes`: facts that are not problems, such as `changed, runs as
    approved`.
    """

    name: str
    version: str
    description: str = ""
    trust_level: TrustLevel
    status: Condition
    serving: bool
    where: Where | None = None
    limits: str | None = None
    state: FolderState
    source: str
    dev: bool
    hash: str | None
    found_hash: str | None
    problem: str | None
    notes: tuple[str, ...] = ()
    prefix: str = ""
    provides: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    commands: tuple[CommandSpec, ...] = ()
    settings: tuple[SettingSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFinding(Finding):
    """What a module reports to the doctor."""

    module: str


def status_of(
    entry: ModuleEntry,
    host: ModuleHost | None = None,
    problem: str | None = None,
    *,
    schedules: Sequence[str] = (),
) -> ModuleStatus:
    """Combine the registry's entry with what runs: `host` is None while it does not."""
    problem = problem or entry.problem
    condition = _condition(entry, host, problem)
    notes = list[str]()
    if entry.state == "changed":
        is_on = condition in {"running", "starting"}
        notes.append("changed, runs as approved" if is_on else "changed since it was approved")
    offers = {} if host is None else _offers(host)
    if host is not None:
        agents = sorted(host.declared.agents)
        notes += [
            f"modules.yaml narrows {visible(name)[:80]}, and it has no such agent: it has "
            f"{', '.join(agents) or 'none'}"
            for name in entry.record.agents
            if name not in agents
        ]
        offers["schedules"] = tuple(schedules)
    return ModuleStatus(
        name=entry.name,
        version=entry.record.version,
        trust_level=entry.record.trust,
        status=condition,
        serving=host is not None,
        state=entry.state,
        source=entry.record.source,
        dev=entry.record.is_dev,
        hash=entry.approved_digest,
        found_hash=entry.found_digest,
        problem=problem,
        notes=tuple(notes),
        **offers,
    )


def _offers(host: ModuleHost) -> dict[str, Any]:
    declared = host.declared
    return {
        "where": host.where,
        "limits": host.limits,
        "description": declared.description,
        "prefix": declared.prefix,
        "provides": tuple(sorted(declared.provides)),
        "routes": tuple(
            f"{spec.method} {declared.prefix_of(spec)}{spec.path.removesuffix('/')}"
            for spec in declared.routes
        ),
        "tools": tuple(spec.name for spec in declared.tools),
        "events": tuple(sorted({spec.event for spec in declared.events})),
        "agents": tuple(sorted(declared.agents)),
        "settings": declared.settings,
        "commands": declared.commands,
    }


def _condition(entry: ModuleEntry, host: ModuleHost | None, problem: str | None) -> Condition:
    if host is not None:
        return "running" if problem is None else "failed"
    if entry.approved_digest is None:
        return "unapproved"
    if not entry.record.enabled:
        return "disabled"
    return "starting" if problem is None else "failed"


_CHANGED = (
    "its folder is not what was approved; `parachute modules diff {0}` shows how, "
    "`parachute modules approve {0}` takes it"
)


class ModuleReports:
    """Publishes each change and each failure once, and reports each problem until it is gone."""

    def __init__(self, bus: Bus, report: Callable[[str, str | None], None]) -> None:
        self._bus, self._report = bus, report
        self._changed: dict[str, str | None] = {}
        self._failed: dict[str, str | None] = {}
        self._subjects: set[str] = set()

    def publish_changes(self, entries: Sequence[ModuleEntry]) -> None:
        changed = {entry.name: entry.found_digest for entry in entries if entry.state == "changed"}
        for name, digest in changed.items():
            if self._changed.get(name) != digest:
                self._bus.publish("module.changed", name=name, hash=digest)
        self._changed = changed

    def began(self, approved: ApprovedModule) -> None:
        name, version = approved.name, approved.manifest.version
        self._bus.publish("module.enabled", name=name, version=version, hash=approved.digest)

    def ended(self, approved: ApprovedModule) -> None:
        version = approved.manifest.version
        self._bus.publish("module.disabled", name=approved.name, version=version)

    def forget(self, name: str) -> None:
        """A failure after its next start is a new one."""
        self._failed.pop(name, None)

    def say(self, problem: str | None) -> None:
        """What is wrong with modules as a whole."""
        self._report("modules", problem)

    def publish_failures(
        self, entries: Sequence[ModuleEntry], modules: Mapping[str, tuple[str, str | None]]
    ) -> None:
        """`modules` are those that may run: the version and the failure of each."""
        for name, (version, failure) in modules.items():
            if failure is not None and failure != self._failed.get(name):
                self._bus.publish(
                    "module.failed", name=name, version=version, error=_last_line(failure)
                )
        self._failed = {name: failure for name, (_version, failure) in modules.items()}
        subjects = {f"module:{entry.name}" for entry in entries}
        for subject in self._subjects - subjects:
            self._report(subject, None)
        self._subjects = subjects
        for entry in entries:
            failure = self._failed.get(entry.name) or (
                entry.problem if entry.record.enabled else None
            )
            changed = _CHANGED.format(entry.name) if entry.name in self._changed else None
            self._report(
                f"module:{entry.name}", changed if failure is None else _last_line(failure)
            )


def _last_line(problem: str) -> str:
    return problem.strip().splitlines()[-1][:300] if problem.strip() else "it failed"
