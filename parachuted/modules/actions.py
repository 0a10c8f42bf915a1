"""What a person does with modules: for the command, with or without a daemon, and for the app."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from parachuted.errors import NotFoundError, OutdatedError
from parachuted.modules.hosting.status import ModuleStatus, status_of
from parachuted.modules.module_state import delete_module_data, has_module_data
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import FolderState, TrustLevel
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


def review_module(
    approvals: ModuleApprovals, name: str, trust: TrustLevel | None = None
) -> ModuleReview:
    """What approving its present folder with that trust would allow. Raises NotFoundError."""
    entry = approvals.entry(name)
    if entry.state == "missing":
        raise NotFoundError(
            f"the folder of {name} is gone; what was approved still runs, if it is enabled"
        )
    consent, diff = approvals.review(name, trust)  # of one reading: what the digest names
    return ModuleReview(
        name=name, state=entry.state, hash=consent.digest, diff=diff, consent=consent
    )


def install_module(
    approvals: ModuleApprovals,
    source: str,
    *,
    dev: bool,
    path: str | None,
    trust: TrustLevel | None = None,
) -> InstalledModule:
    """Copy it into the vault's `Modules/`, unless it is there. Nothing of it runs."""
    module_entries = [entry for entry in approvals.entries() if Path(source) == entry.folder]
    is_there = bool(module_entries) and not (dev or path)
    entry = module_entries[0] if is_there else approvals.install(source, dev=dev, path=path)
    consent = approvals.consent(entry.name, trust)
    return InstalledModule(module=status_of(entry), hash=consent.digest, consent=consent)


def remove_module(approvals: ModuleApprovals, name: str) -> RemovedModule:
    """Forget it. What a person wrote stays, as does its data."""
    try:
        folder_removed = approvals.remove(name)
    except NotFoundError:
        if not _has_data(approvals, name):  # else it was removed earlier, without its data
            raise
        folder_removed = True
    has_data = _has_data(approvals, name)
    return RemovedModule(name=name, folder_removed=folder_removed, has_data=has_data)


def delete_data(approvals: ModuleApprovals, name: str) -> bool:
    """Whether a module that is not approved any more had any. Raises OutdatedError."""
    if any(entry.name == name and entry.approved_digest for entry in approvals.entries()):
        raise OutdatedError(
            f"{name} is still approved, so its data stays; "
            f"`parachute modules remove {name} --data` removes both"
        )
    state = approvals.state_folder
    return state is not None and delete_module_data(state, name)


def _has_data(approvals: ModuleApprovals, name: str) -> bool:
    state = approvals.state_folder
    return state is not None and has_module_data(state, name)


def as_document(value: object) -> dict[str, Any]:
    """What the API would answer of such a value, as JSON."""
    document: dict[str, Any] = TypeAdapter(type(value)).dump_python(value, mode="json")
    return document
