"""Module reports: tells listeners and the doctor which modules have changed or failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from parachuted.events import Bus
from parachuted.modules.hosting.hosted_module import HostedModule
from parachuted.modules.registry.approved import ModuleEntry

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
