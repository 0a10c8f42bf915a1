"""A module's status, as a person is shown it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from parachuted.modules.hosting.interfaces import InterfaceChoice
from parachuted.modules.registry.approved import FolderState, ModuleEntry, TrustLevel
from parachuted.modules.registry.declaration import CommandSpec, ModuleDeclaration
from parachuted.modules.settings import SettingSpec
from parachuted.visible import visible

Condition: TypeAlias = Literal["running", "starting", "failed", "disabled", "unapproved"]
Where: TypeAlias = Literal["in process", "container"]
_ON = frozenset({"running", "starting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleStatus:
    """One module's status.

    `state` is `failed` where it could not start, and also where it runs but its last error is
    unresolved; `starting` before its first start. `folder_state` compares the folder with the
    approved version; `interfaces` are those that it could provide, and their present providers.
    """

    name: str
    version: str
    trust: TrustLevel
    state: Condition
    is_serving: bool
    problem: str | None
    folder: Path
    folder_state: FolderState
    source: str
    approved_digest: str | None
    found_digest: str | None
    is_dev: bool
    notes: tuple[str, ...] = ()
    where: Where | None = None
    limits: str | None = None
    description: str = ""
    prefix: str = ""
    pages: str = ""
    routes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    settings: tuple[SettingSpec, ...] = ()
    commands: tuple[CommandSpec, ...] = ()
    interfaces: tuple[InterfaceChoice, ...] = ()


def status_of(
    entry: ModuleEntry,
    *,
    where: Where | None,
    limits: str | None,
    declared: ModuleDeclaration | None,
    problem: str | None,
    choices: list[InterfaceChoice],
    schedules: Iterable[str] = (),
    pages: str = "",
) -> ModuleStatus:
    """Combine the registry's entry with what runs.

    `pages` is where its pages begin, empty where it has none.

    `declared` is None while it does not run; `schedules` are in words.
    """
    state = _condition(entry, declared, problem)
    changed = "changed, runs as approved" if state in _ON else "changed since it was approved"
    status = ModuleStatus(
        name=entry.name,
        version=entry.version,
        trust=entry.trust,
        state=state,
        is_serving=declared is not None,
        problem=problem,
        folder=entry.folder,
        folder_state=entry.state,
        source=entry.source,
        approved_digest=entry.approved_digest,
        found_digest=entry.found_digest,
        is_dev=entry.is_dev,
        notes=(*([changed] if entry.state == "changed" else []), *entry.notes),
        where=where,
        limits=limits,
        interfaces=tuple(one for one in choices if entry.name in (one.provider, *one.others)),
    )
    if declared is None:
        return status
    return replace(
        status,
        description=declared.description,
        prefix=declared.prefix,
        pages=pages,
        notes=(*status.notes, *_unknown(entry.narrowed, declared)),
        routes=tuple(
            f"{spec.method} {declared.prefix_of(spec)}{spec.path.removesuffix('/')}"
            for spec in declared.routes
        ),
        tools=tuple(spec.name for spec in declared.tools),
        events=tuple(
            sorted({one.event for one in declared.events} | {one.event for one in declared.hooks})
        ),
        schedules=tuple(schedules),
        agents=tuple(sorted(declared.agents)),
        settings=declared.settings,
        commands=declared.commands,
    )


def _unknown(narrowed: Iterable[str], declared: ModuleDeclaration) -> Iterator[str]:
    for name in narrowed:
        if name not in declared.agents:
            yield (
                f"modules.yaml narrows {visible(name)[:80]}, and it has no such agent: it has "
                f"{', '.join(sorted(declared.agents)) or 'none'}"
            )


def _condition(
    entry: ModuleEntry, declared: ModuleDeclaration | None, problem: str | None
) -> Condition:
    if declared is not None:
        return "running" if problem is None else "failed"
    if entry.approved_digest is None:
        return "unapproved"
    if not entry.enabled:
        return "disabled"
    return "starting" if problem is None else "failed"
