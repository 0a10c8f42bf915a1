"""A module's status, as a person is shown it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from parachuted.modules.hosting.host import ModuleHost, Where
from parachuted.modules.registry.approved import FolderState, ModuleEntry, TrustLevel
from parachuted.modules.registry.declaration import CommandSpec, ModuleDeclaration
from parachuted.modules.results import Finding
from parachuted.modules.settings import SettingSpec
from parachuted.texts.visible import visible

Condition: TypeAlias = Literal["running", "starting", "failed", "disabled", "unapproved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleStatus:
    """`status` is `failed` where it could not start, and where its last error is unresolved;
    `starting` before its first start; `where` is null unless it serves. `state` compares its folder
    with what was approved, whose digest is `hash`. `notes`: facts that are not problems.
    """

    name: str
    version: str
    description: str
    trust_level: TrustLevel
    status: Condition
    where: Where | None
    limits: str | None
    state: FolderState
    source: str
    dev: bool
    hash: str | None
    problem: str | None
    notes: tuple[str, ...]
    provides: tuple[str, ...]
    routes: tuple[str, ...]
    tools: tuple[str, ...]
    events: tuple[str, ...]
    schedules: tuple[str, ...]
    agents: tuple[str, ...]
    commands: tuple[CommandSpec, ...]
    settings: tuple[SettingSpec, ...]


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
    nothing = ModuleDeclaration(name=entry.name, version=entry.record.version, prefix="")
    declared = nothing if host is None else host.declared
    agents, notes = tuple(sorted(declared.agents)), list[str]()
    condition: Condition = "running" if host is not None else "starting"
    if problem is not None:
        condition = "failed"
    if host is None and not entry.record.enabled:
        condition = "disabled"
    if host is None and entry.approved_digest is None:
        condition = "unapproved"
    if entry.state == "changed":
        is_on = condition in {"running", "starting"}
        notes.append("changed, runs as approved" if is_on else "changed since it was approved")
    if host is not None:
        notes += [
            f"modules.yaml narrows {visible(name)[:80]}, and it has no such agent: it has "
            f"{', '.join(agents) or 'none'}"
            for name in entry.record.agents
            if name not in agents
        ]
    return ModuleStatus(
        name=entry.name,
        version=entry.record.version,
        description=declared.description,
        trust_level=entry.record.trust,
        status=condition,
        where=None if host is None else host.where,
        limits=None if host is None else host.limits,
        state=entry.state,
        source=entry.record.source,
        dev=entry.record.is_dev,
        hash=entry.approved_digest,
        problem=problem,
        notes=tuple(notes),
        provides=tuple(sorted(declared.provides)),
        routes=tuple(
            f"{spec.method} {declared.prefix_of(spec)}{spec.path.removesuffix('/')}"
            for spec in declared.routes
        ),
        tools=tuple(spec.name for spec in declared.tools),
        events=tuple(sorted({spec.event for spec in declared.events})),
        schedules=tuple(schedules),
        agents=agents,
        commands=declared.commands,
        settings=declared.settings,
    )
