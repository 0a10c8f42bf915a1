"""What an approval covers: a module's files, the permissions that they declare, and its packages;
how it is kept, and loaded again.

The permissions are already part of the files; they count again as they were understood, so
that a later version that reads more into the same words asks again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from parachuted.errors import ParachuteError
from parachuted.modules.registry.approved import (
    ApprovalRefusedError,
    ApprovedModule,
    TrustLevel,
    reads_any_note,
)
from parachuted.modules.registry.approved_copies import (
    ApprovedCopies,
    EnvironmentFailedError,
    UnplacedCopy,
    build,
    lock_of,
    site_packages,
)
from parachuted.modules.registry.manifest import FILE, Manifest, manifest_document
from parachuted.modules.registry.module_folders import (
    ModuleFolders,
    ignored_in,
    is_released,
    manifest_in,
)
from parachuted.modules.registry.module_registry import ModuleRecord, ModuleRegistry, Plain
from parachuted.modules.registry.module_tree import KeepingSink, read_tree
from parachuted.modules.registry.prompts import FILE as PROMPT


def approval_digest(tree: str, manifest: Manifest, lock: Sequence[str]) -> str:
    """What modules.yaml records as `hash`."""
    said = {
        "approval": 1,
        "tree": tree,
        "permissions": _permissions(manifest),
        "lock": sorted(lock),
    }
    return f"sha256:{hashlib.sha256(_canonical(said)).hexdigest()}"


def _permissions(manifest: Manifest) -> object:
    """Those that came later count where they are asked for: what was approved before stays so."""
    found = manifest_document(manifest)["permissions"]
    asked = manifest.permissions
    later = [name for name in ("folders", "hooks", "people") if not getattr(asked, name)]
    return {name: one for name, one in found.items() if name not in later}  # type: ignore[attr-defined]


def is_no_wider(manifest: Manifest, approved: Manifest) -> bool:
    """Whether one asks for exactly what the other was given, apart from the code.

    A folder under development may change its code without asking.
    """
    mine, its = manifest_document(manifest), manifest_document(approved)
    return manifest.name == approved.name and all(
        _canonical(mine[part]) == _canonical(its[part])
        for part in ("permissions", "dependencies", "agents")
    )


def check_trust(manifest: Manifest, trust: TrustLevel) -> None:
    """Raises ApprovalRefusedError where it asks for what this trust never gives: to act for people,
    or to take part in hooks, whose words may quote any note, without reading any note.
    """
    name = manifest.name
    if manifest.permissions.people and trust == "untrusted":
        raise ApprovalRefusedError(
            f"{name} acts for people that it knows from elsewhere, which only a trusted module "
            f"may: `parachute modules approve {name} --trust trusted` shows what that allows, and "
            "asks"
        )
    if manifest.permissions.hooks and not reads_any_note(manifest, trust):
        raise ApprovalRefusedError(
            f"{name} takes part in hooks, whose prompts may quote any note: that is for "
            "trusted modules and for those whose permissions read `**`"
        )


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


class ApprovedVersions:
    """What was approved of the modules of one home, and how a copy becomes that.

    `env` is what pip is run with; the other arguments are those of `ModuleApprovals`.
    """

    def __init__(
        self,
        vault: Path,
        env: Mapping[str, str],
        keys: Collection[str],
        reserved: Collection[str],
        *,
        registry: ModuleRegistry,
        copies: ApprovedCopies,
        folders: ModuleFolders,
    ) -> None:
        self._vault, self._env, self._keys, self._reserved = vault, env, keys, reserved
        self._registry, self._copies, self._folders = registry, copies, folders

    def load(self, record: ModuleRecord) -> ApprovedModule:
        """The module as it was approved, verified just now.

        Raises ParachuteError: what was approved is not there, or is not what is there.
        """
        if record.tree is None or record.hash is None:
            raise ApprovalRefusedError(f"{record.name} was never approved")
        keeping = KeepingSink(is_manifest)
        tree = self._copies.read(record.name, record.tree, keeping)
        manifest = manifest_in(self._reserved, record, tree, keeping)
        environment = (
            self._copies.folder(record.name) / record.environment if record.environment else None
        )
        if manifest.dependencies and environment is None:
            raise ApprovalRefusedError(
                f"the packages of {record.name} are not installed; approve it again"
            )
        lock = lock_of(environment) if environment else ()
        if approval_digest(tree.digest, manifest, lock) != record.hash:
            raise ApprovalRefusedError(
                f"{record.name} is not what was approved (its files, permissions or packages); "
                "approve it again"
            )
        check_trust(manifest, record.trust)
        if record.trust == "verified" and not is_released(
            tree.digest, record.signature, self._keys
        ):
            raise ApprovalRefusedError(
                f"{record.name} is called verified, but no key of this version signed it; approve "
                "it again"
            )
        return ApprovedModule(
            name=record.name,
            copy=self._copies.place(record.name, tree.digest),
            digest=record.hash,
            tree=tree.digest,
            manifest=manifest,
            trust=record.trust,
            import_paths=(site_packages(environment),) if environment else (),
            overrides=record.agents,
            config=record.config,
            config_lines=self._registry.config_lines(record.name) if record.config else {},
            is_dev=record.is_dev,
        )

    @contextlib.contextmanager
    def taking(self, record: ModuleRecord) -> Iterator[UnplacedCopy]:
        """A copy of its folder as it is now, which `keep` gives its place."""
        folder, root = record.folder(self._vault), self._folders.root(record)
        with self._copies.taking(
            record.name, folder, root=root, ignored=ignored_in(record)
        ) as copy:
            yield copy

    def keep(
        self, record: ModuleRecord, copy: UnplacedCopy, level: TrustLevel, signature: str | None
    ) -> None:
        """Give the copy its place, install its packages, and write down both: in this order, so
        that a crash approves nothing.
        """
        keeping = KeepingSink(is_manifest)
        tree = read_tree(copy.folder, sink=keeping)
        if tree.digest != copy.tree.digest:
            raise ApprovalRefusedError(f"the copy of {record.name} was changed while it was made")
        manifest = manifest_in(self._reserved, record, tree, keeping)
        check_trust(manifest, level)
        environment, lock = self._packages(record, manifest)
        copy.keep()
        self._registry.change(
            record.name,
            {
                "enabled": record.enabled if record.is_approved else True,
                "source": record.source,
                "path": record.path,
                "version": manifest.version,
                "trust": level,
                "hash": approval_digest(tree.digest, manifest, lock),
                "tree": tree.digest,
                "environment": environment,
                "lock": [*lock] or None,
                "signature": signature,
                "problem": None,
            },
        )
        kept = [
            self._copies.place(record.name, digest).name
            for digest in (tree.digest, record.tree)
            if digest
        ]
        self._copies.prune(
            record.name,
            [*kept, *filter(None, (environment, record.environment)), copy.folder.name, PROMPT],
        )

    def _packages(
        self, record: ModuleRecord, manifest: Manifest
    ) -> tuple[str | None, tuple[str, ...]]:
        """Its environment and lock: what it has, if it asks for the same and has it still, else a
        new one.
        """
        if not manifest.dependencies:
            return None, ()
        with contextlib.suppress(ParachuteError):
            if (
                record.environment
                and self.load(record).manifest.dependencies == manifest.dependencies
            ):
                return record.environment, lock_of(
                    self._copies.folder(record.name) / record.environment
                )
        try:
            return build(self._copies.folder(record.name), manifest.dependencies, self._env)
        except EnvironmentFailedError as error:
            values: dict[str, Plain] = {
                "problem": error.message,
                "source": record.source,
                "path": record.path,
            }
            self._registry.change(
                record.name, values if record.is_approved else {**values, "enabled": False}
            )
            raise ApprovalRefusedError(
                f"{record.name} was not approved: {error.message}"
            ) from error


def is_manifest(path: str) -> bool:
    return path == FILE
