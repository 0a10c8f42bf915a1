"""Which modules exist, which are approved, and which may run.

The vault proposes; modules.yaml in the home decides. A module's folder is copied into the home,
and what a person sees and approves is that copy, by the digest of its bytes. What runs is the copy,
which `ready` checks again against the recorded digest, permissions and locked packages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.home_files.private import locked
from parachuted.home_files.vault_state import known_state_folder
from parachuted.modules.registry.approved import (
    ApprovalRefusedError,
    ApprovedModule,
    FolderState,
    ModuleEntry,
    TrustLevel,
)
from parachuted.modules.registry.consent import Consent, consent_for, tree_difference
from parachuted.modules.registry.copies import ApprovedCopies, ModuleTree, read_tree
from parachuted.modules.registry.environment import (
    EnvironmentFailedError,
    build,
    lock_of,
    site_packages,
)
from parachuted.modules.registry.install import FOLDER, fetched, manifest_of, place, unplace
from parachuted.modules.registry.manifest import FILE, Manifest, read_manifest
from parachuted.modules.registry.module_folders import ModuleFolders, ignored_in
from parachuted.modules.registry.module_registry import (
    ModuleRecord,
    ModuleRegistry,
    ModuleRegistryError,
    Plain,
    is_module,
    parse_record,
    without_module,
)
from parachuted.modules.registry.prompts import FILE as PROMPT
from parachuted.modules.registry.trust import (
    LISTED,
    SHOWN,
    approval_digest,
    check_trust,
    is_no_wider,
    is_released,
    release_keys,
    trust_level,
    unverified,
)
from parachuted.modules.settings import SettingValue

_LOCK = "modules.lock"


class ModuleApprovals:
    """The modules of one home and one vault.

    Calls read or write the disk: from a thread, where the loop must not wait.

    `env` is what git and pip are run with. `keys` are those whose signature makes a module
    `verified`. `reserved` are the core's own nouns below `/api`, which no module may take.
    """

    def __init__(
        self,
        home: Path,
        vault: Path,
        *,
        env: Mapping[str, str],
        keys: Sequence[str] | None = None,
        reserved: Collection[str] = (),
    ) -> None:
        self._home, self._vault, self._env = home, vault.resolve(), env
        self._keys = release_keys() if keys is None else tuple(keys)
        self._reserved = reserved
        self._registry, self._copies = ModuleRegistry(home), ApprovedCopies(home)
        self._unready: dict[str, str] = {}
        self._folders = ModuleFolders(home, self._vault, self._registry)

    @property
    def problem(self) -> str | None:
        try:
            self._registry.load()
        except ModuleRegistryError as error:
            return error.message
        return None

    @property
    def state_folder(self) -> Path | None:
        """The vault's state folder, in which modules keep what is their own, if there is one."""
        return known_state_folder(self._home, self._vault)

    def entries(self) -> list[ModuleEntry]:
        """Every module of modules.yaml and every folder in the vault's `Modules/`, by name."""
        try:
            entries = self._registry.load()
        except ModuleRegistryError as error:
            return [self._broken(name, error.message) for name in sorted(self._folders.names())]
        known = {name for name, entry in entries.items() if is_module(entry)}
        return [
            self._entry(name, entries.get(name, {}))
            for name in sorted({*known, *self._folders.names()})
        ]

    def entry(self, name: str) -> ModuleEntry:
        """That one. Raises NotFoundError, ModuleRegistryError."""
        return self._entry(name, self._written(name))

    def review(self, name: str, trust: TrustLevel | None = None) -> tuple[Consent, str]:
        """What approving the folder as it is now would allow, and its difference from what was
        approved, both of one copy, whose digest is what `approve` wants.

        `trust`: what the person is about to choose; None: as it is. Raises ParachuteError.
        """
        record = self._record(name)
        with locked(self._home, _LOCK), self._copied(record) as (copy, tree):
            manifest = self._manifest(record, tree)
            level = trust_level(self._keys, record, tree, trust)
            check_trust(manifest, level)
            consent = consent_for(
                manifest, tree, source=record.source, commit=record.commit, trust=level
            )
            if record.tree is None:
                before = None
            else:
                approved = self._copies.read(name, record.tree, keep=FILE.__eq__)
                before = self._copies.place(name, record.tree)
                old = consent_for(
                    self._manifest(record, approved),
                    approved,
                    source="",
                    commit=None,
                    trust=record.trust,
                )
                consent = replace(consent, added=consent.since(old))
            notes = (*consent.notes, *unverified(self._keys, record, tree))
            return replace(consent, notes=notes), tree_difference(before, copy, self._env)

    def consent(self, name: str, trust: TrustLevel | None = None) -> Consent:
        return self.review(name, trust)[0]

    def approve(
        self, name: str, expected_digest: str, *, trust: TrustLevel | None = None
    ) -> ModuleEntry:
        """Approve exactly the bytes that were shown; the first time, enable it too.

        Raises ParachuteError, having approved nothing.
        """
        with locked(self._home, _LOCK):
            record = self._record(name)
            with self._copied(record) as (copy, tree):
                if tree.digest != expected_digest:
                    raise ApprovalRefusedError(
                        f"{name} changed since it was shown, so it was not approved; look at it "
                        "again"
                    )
                self._keep(record, copy, tree, trust_level(self._keys, record, tree, trust))
        return self.entry(name)

    def enable(self, name: str) -> ModuleEntry:
        """Let it run. Raises ApprovalRefusedError for what was never approved."""
        if not self._record(name).is_approved:
            raise ApprovalRefusedError(
                f"{name} was never approved; `parachute modules approve {name}` shows what it "
                "asks for"
            )
        self._registry.change(name, {"enabled": True, "problem": None})
        return self.entry(name)

    def disable(self, name: str) -> ModuleEntry:
        """Let it run no more; what was approved stays so."""
        self._record(name)
        self._registry.change(name, {"enabled": False})
        return self.entry(name)

    def remove(self, name: str) -> bool:
        """Forget it, with its copies.

        Whether its folder went too: only what `install` put there, unchanged since.

        What a person wrote for it in modules.yaml, `config` and `agents`, stays.
        """
        with locked(self._home, _LOCK):
            record = self._record(name)
            is_ours = record.path == f"{FOLDER}/{name}" and self._folders.is_as_installed(record)
            entry = self._registry.load().get(name, {})
            if changes := without_module(entry):
                self._registry.change(name, changes)
            elif entry:
                self._registry.remove(name)
            self._copies.prune(name, ())
            if is_ours:
                unplace(self._vault, name)
            return is_ours

    def set_config(self, name: str, key: str, value: SettingValue) -> Callable[[], None]:
        """Write one setting of a module into modules.yaml, as `ModuleRegistry.set_config`.

        Raises NotFoundError, ModuleRegistryError, StorageFailedError.
        """
        self._record(name)
        return self._registry.set_config(name, key, value)

    def config(self, name: str) -> Mapping[str, object]:
        """What the person wrote for that module. Raises NotFoundError, ModuleRegistryError."""
        return self._record(name).config

    def ready(self, names: Collection[str] | None = None) -> list[ApprovedModule]:
        """What may run now, verified just now, by name.

        Why another may not is in its `ModuleEntry.problem`.

        A module under development (`--dev`) is taken as its folder is now, as long as it asks for
        no more than was approved.
        """
        try:
            entries = self._registry.load()
        except ModuleRegistryError:
            return []
        found: list[ApprovedModule] = []
        for name in sorted(entries if names is None else entries.keys() & set(names)):
            self._unready.pop(name, None)
            try:
                record = parse_record(name, entries[name])
                if record.enabled and record.is_approved:
                    found.append(self._load(self._refreshed(record) if record.is_dev else record))
            except (ParachuteError, ValueError) as error:
                self._unready[name] = str(error)
        return found

    def install(
        self,
        source: str,
        *,
        dev: bool = False,
        path: str | None = None,
        trust: TrustLevel | None = None,
    ) -> tuple[ModuleEntry, Consent]:
        """Put the source's module into the vault's `Modules/` (with `dev`: link to its folder).

        Approves nothing; `trust` is what the person is about to choose. Raises ParachuteError.
        """
        if trust == "verified":
            raise ApprovalRefusedError("only a signature makes a module verified")
        with locked(self._home, _LOCK), fetched(source, self._env, path=path) as found:
            manifest = manifest_of(found, self._reserved)
            name = manifest.name
            entry = self._registry.load().get(name, {})
            record = parse_record(name, entry) if is_module(entry) else None
            values: dict[str, Plain] = {
                "source": found.source,
                "path": f"{FOLDER}/{name}",
                "commit": found.commit,
            }
            if dev:
                self._folders.check_dev(found.folder, name, record)
                values = {"source": "local", "path": str(found.folder), "dev": True}
            else:
                may_replace = self._folders.may_replace(found, record, name)
                values["installed"] = place(found, self._vault, name, may_replace=may_replace)
            if record is None:
                values |= {
                    "enabled": False,
                    "version": manifest.version,
                    "trust": "trusted" if dev else "untrusted",
                }
            self._registry.change(name, values)
        return self.entry(name), self.consent(name, trust)

    def look(self) -> frozenset[str]:
        """As `ModuleFolders.look`."""
        return self._folders.look()

    def _written(self, name: str) -> Mapping[str, object]:
        """Its entry in modules.yaml. Raises NotFoundError, ModuleRegistryError."""
        entry = self._registry.load().get(name, {})
        if not is_module(entry) and name not in self._folders.names():
            raise NotFoundError(
                f"there is no module {name[:80]!r}; `parachute modules list` shows them"
            )
        return entry

    def _record(self, name: str) -> ModuleRecord:
        """As `_written`, and raises ApprovalRefusedError for an invalid entry."""
        entry = self._written(name)
        try:
            return parse_record(name, entry)
        except ValueError as error:
            raise ApprovalRefusedError(
                f"the entry of {name[:80]!r} in modules.yaml is wrong: {error}"
            ) from error

    @contextlib.contextmanager
    def _copied(self, record: ModuleRecord) -> Iterator[tuple[Path, ModuleTree]]:
        """A private copy of its folder as it is now, and what that holds."""
        self._folders.check_place(record)
        folder = record.folder(self._vault)
        with self._copies.copied(record.name, folder, ignored_in(record)) as copy:
            yield copy, read_tree(copy, keep=FILE.__eq__)

    def _manifest(self, record: ModuleRecord, tree: ModuleTree) -> Manifest:
        """Raises ApprovalRefusedError, and what `read_manifest` raises."""
        data = tree.kept.get(FILE)
        if data is None:
            raise ApprovalRefusedError(f"{record.name} has no {FILE}, so it is not a module")
        files = [file.path for file in tree.files]
        manifest = read_manifest(data, reserved=self._reserved, files=files)
        if manifest.name != record.name:
            raise ApprovalRefusedError(
                f"the folder {record.name} says that it is the module {manifest.name}; the two "
                "must agree"
            )
        return manifest

    def _keep(self, record: ModuleRecord, copy: Path, tree: ModuleTree, level: TrustLevel) -> None:
        """Give the copy its place, install its packages, and write down both: in this order, so
        that a crash approves nothing.
        """
        manifest = self._manifest(record, tree)
        check_trust(manifest, level)
        environment, lock = self._packages(record, manifest)
        self._copies.keep(record.name, copy, tree.digest)
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
                "signature": tree.signature if level == "verified" else None,
                "problem": None,
            },
        )
        places = [
            self._copies.place(record.name, digest).name
            for digest in (tree.digest, record.tree)
            if digest
        ]
        environments = filter(None, (environment, record.environment))
        self._copies.prune(record.name, [*places, *environments, copy.name, PROMPT])

    def _packages(
        self, record: ModuleRecord, manifest: Manifest
    ) -> tuple[str | None, tuple[str, ...]]:
        """Its environment and lock: what it has, if it asks for the same and has it still, else a
        new one.
        """
        if not manifest.dependencies:
            return None, ()
        folder = self._copies.folder(record.name)
        with contextlib.suppress(ParachuteError):
            if (
                record.environment
                and self._load(record).manifest.dependencies == manifest.dependencies
            ):
                return record.environment, lock_of(folder / record.environment)
        try:
            return build(folder, manifest.dependencies, self._env)
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

    def _load(self, record: ModuleRecord) -> ApprovedModule:
        """The module as it was approved, verified just now.

        Raises ParachuteError: the approved copy is gone, or differs from what was approved.
        """
        name = record.name
        if record.tree is None or record.hash is None:
            raise ApprovalRefusedError(f"{name} was never approved")
        tree = self._copies.read(name, record.tree, keep=FILE.__eq__)
        manifest = self._manifest(record, tree)
        folder = self._copies.folder(name)
        environment = folder / record.environment if record.environment else None
        if manifest.dependencies and environment is None:
            raise ApprovalRefusedError(
                f"the packages of {name} are not installed; approve it again"
            )
        lock = lock_of(environment) if environment else ()
        versions = [
            version
            for version in (LISTED, SHOWN)
            if approval_digest(tree.digest, manifest, lock, version) == record.hash
        ]
        if not versions:
            raise ApprovalRefusedError(
                f"{name} is not what was approved (its files, permissions or packages); "
                "approve it again"
            )
        check_trust(manifest, record.trust)
        if record.trust == "verified" and not is_released(tree, record.signature, self._keys):
            raise ApprovalRefusedError(
                f"{name} is called verified, but no key of this version signed it; approve it again"
            )
        return ApprovedModule(
            name=name,
            copy=self._copies.place(name, tree.digest),
            digest=record.hash,
            tree=tree.digest,
            manifest=manifest,
            trust=record.trust,
            import_paths=(site_packages(environment),) if environment else (),
            overrides=record.agents,
            config=record.config,
            config_lines=self._registry.config_lines(name) if record.config else {},
            is_dev=record.is_dev,
            lists_all=versions == [LISTED],
        )

    def _refreshed(self, record: ModuleRecord) -> ModuleRecord:
        """The record of the present folder if it asks for no more; otherwise the approved one, and
        why.
        """
        try:
            tree, _problem = self._folders.tree(record)
            if tree is None or tree.digest == record.tree:
                return record
            with locked(self._home, _LOCK), self._copied(record) as (copy, tree):
                if not is_no_wider(self._manifest(record, tree), self._load(record).manifest):
                    raise ApprovalRefusedError(
                        f"{record.name} asks for other permissions, agents or packages; approve "
                        "it again"
                    )
                level = trust_level(self._keys, record, replace(tree, signature=None), None)
                self._keep(record, copy, tree, level)
            return self._record(record.name)
        except ParachuteError as error:
            self._unready[record.name] = f"the last approved version runs: {error.message}"
            return record

    def _entry(self, name: str, entry: Mapping[str, object]) -> ModuleEntry:
        try:
            record = parse_record(name, entry)
        except ValueError as error:
            return self._broken(name, f"its entry in modules.yaml is wrong: {error}")
        folder = record.folder(self._vault)
        tree, problem = self._folders.tree(record)
        state: FolderState = "new"
        if tree is None:
            state = "broken" if folder.exists() or folder.is_symlink() else "missing"
        elif record.is_approved:
            state = "approved" if tree.digest == record.tree else "changed"
        is_quiet = tree is None or record.trust == "verified"
        return ModuleEntry(
            name=name,
            folder=folder,
            source=record.source,
            version=record.version,
            trust=record.trust,
            enabled=record.enabled,
            approved_digest=record.tree if record.is_approved else None,
            found_digest=tree.digest if tree else None,
            state=state,
            problem=self._unready.get(name) or record.problem or problem,
            is_dev=record.is_dev,
            notes=() if is_quiet or tree is None else unverified(self._keys, record, tree),
            narrowed=tuple(record.agents),
        )

    def _broken(self, name: str, problem: str) -> ModuleEntry:
        return ModuleEntry(name=name, folder=self._vault / FOLDER / name, problem=problem)
