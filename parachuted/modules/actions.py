"""What a person does with modules, with documents as results: for the command, with or
without a daemon, and for the app.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from parachuted.errors import NotFoundError
from parachuted.modules.hosting.module_state import delete_module_data, has_module_data
from parachuted.modules.hosting.status import ModuleStatus, status_of
from parachuted.modules.registry.approvals import ModuleApprovals
from parachuted.modules.registry.approved import ApprovalRefusedError, ModuleEntry, TrustLevel
from parachuted.modules.registry.consent import Consent


class ModuleActions:
    """Every call reads or writes the disk: from a thread, where a loop must not wait.

    Raises what `ModuleApprovals` raises.
    """

    def __init__(self, trust: ModuleApprovals) -> None:
        self._trust = trust

    def listing(self) -> list[dict[str, Any]]:
        """Every module, installed or only present in the vault's `Modules/`, without running
        any.
        """
        return [_described(entry) for entry in self._trust.entries()]

    def consent(self, name: str, trust: TrustLevel | None = None) -> dict[str, Any]:
        """What approving its present folder with that trust would allow, and the difference from
        the approved version. Raises NotFoundError.
        """
        entry = self._trust.entry(name)
        if entry.state == "missing":
            raise NotFoundError(
                f"the folder of {name} is gone; what was approved still runs, if it is enabled"
            )
        # of one reading: what is shown is what the digest names
        consent, diff = self._trust.review(name, trust)
        return {
            "name": name,
            "hash": consent.digest,
            "state": entry.state,
            "diff": diff,
        } | _consent(consent)

    def install(
        self, source: str, *, dev: bool, path: str | None, trust: TrustLevel | None = None
    ) -> dict[str, Any]:
        """Copy it into the vault's `Modules/`, unless it is there, and return what approving it
        would allow with that trust. Nothing runs.
        """
        name = None if dev or path else self._lying(source)
        if name is None:
            entry, _ = self._trust.install(source, dev=dev, path=path, trust=trust)
        else:
            entry = self._trust.entry(name)
        consent = self._trust.consent(entry.name, trust)
        return {"module": _described(entry), "hash": consent.digest} | _consent(consent)

    def _lying(self, source: str) -> str | None:
        return next(
            (entry.name for entry in self._trust.entries() if Path(source) == entry.folder), None
        )

    def approve(self, name: str, digest: str, trust: TrustLevel | None) -> dict[str, Any]:
        """Approve the very bytes that were shown under that digest."""
        return _described(self._trust.approve(name, digest, trust=trust))

    def enable(self, name: str) -> dict[str, Any]:
        return _described(self._trust.enable(name))

    def disable(self, name: str) -> dict[str, Any]:
        """Let it run no more; its approval stays."""
        return _described(self._trust.disable(name))

    def remove(self, name: str) -> dict[str, Any]:
        """Forget it.

        Its folder goes too if it is what `install` put there, unchanged since: what a person wrote
        stays, and so does what the module keeps outside the vault, which `delete_data` deletes.
        """
        try:
            folder_removed = self._trust.remove(name)
        except NotFoundError:
            if not self._has_data(name):  # else it was removed earlier, without its data
                raise
            folder_removed = True
        return {
            "name": name,
            "removed": True,
            "folder_removed": folder_removed,
            "data_deleted": False,
            "has_data": self._has_data(name),
        }

    def delete_data(self, name: str) -> bool:
        """Delete what a module that is not approved any more keeps outside the vault; whether there
        was any. Raises ApprovalRefusedError and StorageFailedError.
        """
        if any(one.name == name and one.approved_digest for one in self._trust.entries()):
            raise ApprovalRefusedError(
                f"{name} is still approved, so its data stays; "
                f"`parachute modules remove {name} --data` removes both"
            )
        state = self._trust.state_folder
        return state is not None and delete_module_data(state, name)

    def _has_data(self, name: str) -> bool:
        state = self._trust.state_folder
        return state is not None and has_module_data(state, name)


def status_document(status: ModuleStatus) -> dict[str, Any]:
    """One module as JSON: `status` is how it runs, `state` how its folder compares with the
    approved version.
    """
    return {
        "name": status.name,
        "version": status.version,
        "description": status.description,
        "trust_level": status.trust,
        "status": status.state,
        "serving": status.is_serving,
        "where": status.where,
        "limits": status.limits,
        "state": status.folder_state,
        "source": status.source,
        "dev": status.is_dev,
        "hash": status.approved_digest,
        "found_hash": status.found_digest,
        "problem": status.problem,
        "notes": list(status.notes),
        "prefix": status.prefix,
        "pages": status.pages,
        "provides": sorted(choice.interface for choice in status.interfaces),
        "interfaces": [asdict(choice) for choice in status.interfaces],
        "routes": list(status.routes),
        "tools": list(status.tools),
        "events": list(status.events),
        "schedules": list(status.schedules),
        "agents": list(status.agents),
        "commands": [
            {"name": one.name, "help": one.help, "schema": dict(one.schema)}
            for one in status.commands
        ],
        "settings": [asdict(setting) for setting in status.settings],
    }


def _described(entry: ModuleEntry) -> dict[str, Any]:
    return status_document(status_of(entry, problem=entry.problem))


def _consent(consent: Consent) -> dict[str, Any]:
    return {"consent": asdict(consent) | {"text": consent.text()}}
