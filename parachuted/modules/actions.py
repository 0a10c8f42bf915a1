"""What a person does with modules: for the command, with or without a daemon, and for the app."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from parachuted.errors import NotFoundError, OutdatedError
from parachuted.modules.hosting.module_state import delete_module_data, has_module_data
from parachuted.modules.hosting.status import ModuleStatus, status_of
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import FolderState, ModuleEntry, TrustLevel
from parachuted.modules.registry.consent import Consent


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledModule:
    """A module that lies in the vault now, and what approving it would allow; `hash` is what an
    approval names. Nothing of it has run.
    """

    module: ModuleStatus
    hash: str
    consent: Consent


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleReview:
    """What approving a module's folder would allow, and how it differs from what was approved;
    `hash` is what an approval names.
    """

    name: str
    state: FolderState
    hash: str
    diff: str
    consent: Consent


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedModule:
    """A module that is gone.

    Its folder stays in the vault where a person has changed it, or put it there; `has_data` says
    whether it still has files of its own outside the vault.
    """

    name: str
    removed: bool = True
    folder_removed: bool
    data_deleted: bool = False
    has_data: bool


class ModuleActions:
    """Every call reads or writes the disk, and raises what `ModuleApprovals` raises."""

    def __init__(self, trust: ModuleApprovals) -> None:
        self._trust = trust

    def listing(self) -> list[ModuleStatus]:
        return [_status(entry) for entry in self._trust.entries()]

    def consent(self, name: str, trust: TrustLevel | None = None) -> ModuleReview:
        """What approving its present folder with that trust would allow. Raises NotFoundError."""
        entry = self._trust.entry(name)
        if entry.state == "missing":
            raise NotFoundError(
                f"the folder of {name} is gone; what was approved still runs, if it is enabled"
            )
        # of one reading: what is shown is what the digest names
        consent, diff = self._trust.review(name, trust)
        return ModuleReview(
            name=name, state=entry.state, hash=consent.digest, diff=diff, consent=consent
        )

    def install(
        self, source: str, *, dev: bool, path: str | None, trust: TrustLevel | None = None
    ) -> InstalledModule:
        """Copy it into the vault's `Modules/`, unless it is there. Nothing of it runs."""
        found = [entry for entry in self._trust.entries() if Path(source) == entry.folder]
        if found and not (dev or path):
            entry = self._trust.entry(found[0].name)
        else:
            entry = self._trust.install(source, dev=dev, path=path)
        consent = self._trust.consent(entry.name, trust)
        return InstalledModule(module=_status(entry), hash=consent.digest, consent=consent)

    def approve(self, name: str, digest: str, trust: TrustLevel | None) -> ModuleStatus:
        return _status(self._trust.approve(name, digest, trust=trust))

    def enable(self, name: str) -> ModuleStatus:
        return _status(self._trust.enable(name))

    def disable(self, name: str) -> ModuleStatus:
        return _status(self._trust.disable(name))

    def remove(self, name: str) -> RemovedModule:
        """Forget it. What a person wrote stays, as does its data, which `delete_data` deletes."""
        try:
            folder_removed = self._trust.remove(name)
        except NotFoundError:
            if not self._has_data(name):  # else it was removed earlier, without its data
                raise
            folder_removed = True
        has_data = self._has_data(name)
        return RemovedModule(name=name, folder_removed=folder_removed, has_data=has_data)

    def delete_data(self, name: str) -> bool:
        """Whether a module that is no longer approved had any. Raises OutdatedError."""
        if any(entry.name == name and entry.approved_digest for entry in self._trust.entries()):
            raise OutdatedError(
                f"{name} is still approved, so its data stays; "
                f"`parachute modules remove {name} --data` removes both"
            )
        state = self._trust.state_folder
        return state is not None and delete_module_data(state, name)

    def _has_data(self, name: str) -> bool:
        state = self._trust.state_folder
        return state is not None and has_module_data(state, name)


def as_document(value: object) -> dict[str, Any]:
    """What the API would answer of such a value, as JSON."""
    document: dict[str, Any] = TypeAdapter(type(value)).dump_python(value, mode="json")
    return document


def _status(entry: ModuleEntry) -> ModuleStatus:
    return status_of(entry, problem=entry.problem)
