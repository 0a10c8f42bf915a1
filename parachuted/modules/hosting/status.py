"""A module's status, as a person is shown it, and what is reported of all modules as it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from parachuted.events import Bus
from parachuted.modules.hosting.host import ModuleHost, Where
from parachuted.modules.hosting.interfaces import InterfaceChoice
from parachuted.modules.registry.approved import FolderState, ModuleEntry, TrustLevel
from parachuted.modules.registry.declaration import CommandSpec
from parachuted.modules.settings import SettingSpec
from parachuted.visible import visible

Condition: TypeAlias = Literal["running", "starting", "failed", "disabled", "unapproved"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleStatus:
    """One module's status.

    `state` is `failed` where it could not start, and also where it runs but its last error is
    unresolved; `starting` before its first start. `folder_state` compares the folder with the
    approved version; `pages` is where its pages begin, and `interfaces` are those that it could
    provide, with their present providers.
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
    host: ModuleHost | None = None,
    problem: str | None = None,
    *,
    choices: Iterable[InterfaceChoice] = (),
    schedules: Sequence[str] = (),
    pages: str = "",
) -> ModuleStatus:
    """Combine the registry's entry with what runs: `host` is None while it does not, `schedules`
    are in words.
    """
    state = _condition(entry, host, problem)
    is_on = state in {"running", "starting"}
    notes = list(entry.notes)
    if entry.state == "changed":
        changed = "changed, runs as approved" if is_on else "changed since it was approved"
        notes.insert(0, changed)
    declared = None if host is None else host.declared
    offers: dict[str, object] = {}
    if host is not None and declared is not None:
        notes += [
            f"modules.yaml narrows {visible(name)[:80]}, and it has no such agent: it has "
            f"{', '.join(sorted(declared.agents)) or 'none'}"
            for name in entry.narrowed
            if name not in declared.agents
        ]
        heard = {one.event for one in declared.events} | {one.event for one in declared.hooks}
        offers = {
            "where": host.where,
            "limits": host.limits,
            "description": declared.description,
            "prefix": declared.prefix,
            "pages": pages,
            "routes": tuple(
                f"{spec.method} {declared.prefix_of(spec)}{spec.path.removesuffix('/')}"
                for spec in declared.routes
            ),
            "tools": tuple(spec.name for spec in declared.tools),
            "events": tuple(sorted(heard)),
            "schedules": tuple(schedules),
            "agents": tuple(sorted(declared.agents)),
            "settings": declared.settings,
            "commands": declared.commands,
        }
    return ModuleStatus(
        name=entry.name,
        version=entry.version,
        trust=entry.trust,
        state=state,
        is_serving=host is not None,
        problem=problem,
        folder=entry.folder,
        folder_state=entry.state,
        source=entry.source,
        approved_digest=entry.approved_digest,
        found_digest=entry.found_digest,
        is_dev=entry.is_dev,
        notes=tuple(notes),
        interfaces=tuple(one for one in choices if entry.name in (one.provider, *one.others)),
        **offers,  # type: ignore[arg-type]
    )


def _condition(entry: ModuleEntry, host: ModuleHost | None, problem: str | None) -> Condition:
    if host is not None:
        return "running" if problem is None else "failed"
    if entry.approved_digest is None:
        return "unapproved"
    if not entry.enabled:
        return "disabled"
    return "starting" if problem is None else "failed"


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
        self._failed: dict[str, str | None] = {}
        self._subjects: set[str] = set()

    def publish_changes(self, entries: Sequence[ModuleEntry]) -> None:
        """Publish which folders were edited since the last call."""
        changed = {entry.name: entry.found_digest for entry in entries if entry.state == "changed"}
        for name, digest in changed.items():
            if self._changed.get(name) != digest:
                self._bus.publish("module.changed", name=name, hash=digest)
        self._changed = changed

    def forget(self, name: str) -> None:
        """The module has ended: a failure after its next start is a new one."""
        self._failed.pop(name, None)

    def publish_failures(
        self, entries: Sequence[ModuleEntry], modules: Mapping[str, tuple[str, str | None]]
    ) -> None:
        """Publish which of the modules have failed since the last call, and set or clear the
        problem of each. `modules` are those that may run: the version and the failure of each.
        """
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
            failure = self._failed.get(entry.name) or (entry.problem if entry.enabled else None)
            changed = _CHANGED.format(entry.name) if entry.name in self._changed else None
            self._report(
                f"module:{entry.name}", changed if failure is None else _last_line(failure)
            )


def _last_line(problem: str) -> str:
    return problem.strip().splitlines()[-1][:300] if problem.strip() else "it failed"
