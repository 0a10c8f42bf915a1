"""Which modules exist, which are approved, and which may run.

The vault proposes; modules.yaml in the home decides. A person sees and approves a private copy of
the folder, by the digest of its bytes, and that copy is what runs.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from parachuted.errors import (
    NotFoundError,
    OutdatedError,
    ParachuteError,
    UnfitError,
    UntrustedError,
)
from parachuted.home_files.private import locked, real_path
from parachuted.home_files.vault_state import known_state_folder
from parachuted.modules.checks import NAME
from parachuted.modules.registry.approved import (
    ApprovedModule,
    FolderState,
    ModuleEntry,
    ModuleRecord,
    ModuleRegistry,
    Plain,
    TrustLevel,
    approval_digest,
    trust_level,
)
from parachuted.modules.registry.consent import Consent, consent_for, tree_difference
from parachuted.modules.registry.copies import ApprovedCopies, ModuleTree, read_tree
from parachuted.modules.registry.install import (
    FOLDER,
    LITTER,
    build,
    fetched,
    lock_of,
    manifest_of,
    place,
    site_packages,
    without_ref,
)
from parachuted.modules.registry.manifest import Manifest
from parachuted.modules.registry.prompts import FILE as PROMPT
from parachuted.modules.settings import SettingValue

_LOCK = "modules.lock"


class ModuleApprovals:
    """The modules of one home and one vault. Calls block on the disk, and raise NotFoundError where
    there is no such module, UntrustedError where modules.yaml cannot be trusted. No module may take
    a name of `reserved`, the first words of the core's routes below `/api`.
    """

    def __init__(
        self, home: Path, vault: Path, *, env: Mapping[str, str], reserved: Collection[str] = ()
    ) -> None:
        self._home, self._vault, self._env = home, real_path(vault), env
        self._reserved = reserved
        self._registry, self._copies = ModuleRegistry(home), ApprovedCopies(home)
        self._unready: dict[str, str] = {}
        self._mark: object = None

    @property
    def problem(self) -> str | None:
        try:
            self._registry.records()
        except UntrustedError as error:
            return error.message
        return None

    def look(self) -> bool:
        """Whether modules.yaml was written since the last call."""
        before, self._mark = self._mark, self._registry.mark()
        return self._mark != before

    @property
    def state_folder(self) -> Path | None:
        return known_state_folder(self._home, self._vault)

    def entries(self) -> list[ModuleEntry]:
        """Every module of modules.yaml and every folder in the vault's `Modules/`, by name."""
        try:
            records = list(self._records().values())
        except UntrustedError as error:
            names = sorted(self._folders())
            records = [ModuleRecord(name=name, problem=error.message) for name in names]
        return [self._entry(record) for record in records]

    def entry(self, name: str) -> ModuleEntry:
        return self._entry(self._find(name))

    def review(self, name: str, trust: TrustLevel | None = None) -> tuple[Consent, str]:
        """What approving the present folder would allow with that trust (None: what it has), and
        its difference from what was approved: of one copy, whose digest `approve` wants.
        """
        record = self._record(name)
        with locked(self._home, _LOCK), self._copied(record) as copy:
            level, before = trust_level(record, copy, trust), None
            consent = consent_for(self._manifest(name, copy, level), copy, record, level)
            with contextlib.suppress(UnfitError):  # damaged: all of the present folder is shown
                before = self._copies.read(name, record.tree).folder if record.tree else None
            return consent, tree_difference(before, copy.folder, self._env)

    def consent(self, name: str, trust: TrustLevel | None = None) -> Consent:
        return self.review(name, trust)[0]

    def approve(
        self, name: str, expected_digest: str, *, trust: TrustLevel | None = None
    ) -> ModuleEntry:
        """Approve exactly the bytes that were shown; the first time, enable it too."""
        with locked(self._home, _LOCK):
            record = self._record(name)
            with self._copied(record) as copy:
                if copy.digest != expected_digest:
                    raise OutdatedError(
                        f"{name} changed since it was shown, so it was not approved; look at it "
                        "again"
                    )
                self._keep(record, copy, trust_level(record, copy, trust))
        return self.entry(name)

    def enable(self, name: str) -> ModuleEntry:
        if not self._record(name).is_approved:
            raise OutdatedError(
                f"{name} was never approved; `parachute modules approve {name}` shows what it "
                "asks for"
            )
        self._registry.change(name, {"enabled": True})
        return self.entry(name)

    def disable(self, name: str) -> ModuleEntry:
        self._record(name)
        self._registry.change(name, {"enabled": False})
        return self.entry(name)

    def remove(self, name: str) -> bool:
        """Forget it, but for what a person wrote in modules.yaml. Whether its folder went too: only
        what `install` put there, unchanged since.
        """
        with locked(self._home, _LOCK):
            record, folder = self._record(name), self._vault / FOLDER / name
            is_ours = False
            with contextlib.suppress(UnfitError):
                is_ours = read_tree(folder, ignored=LITTER).digest == record.installed
            self._registry.forget(name)
            self._copies.prune(name, ())
            if is_ours:
                shutil.rmtree(folder, ignore_errors=True)
            return is_ours

    def set_config(self, name: str, key: str, value: SettingValue) -> SettingValue:
        self._record(name)
        return self._registry.set_config(name, key, value)

    def ready(self, names: Collection[str] | None = None) -> list[ApprovedModule]:
        """What may run now, verified just now, by name; `ModuleEntry.problem` says why another may
        not.
        """
        modules: list[ApprovedModule] = []
        with contextlib.suppress(UntrustedError):
            for name, record in self._records().items():
                if names is not None and name not in names:
                    continue
                self._unready.pop(name, None)
                if not (record.enabled and record.is_approved):
                    continue
                try:
                    modules.append(self._load(record))
                except ParachuteError as error:
                    self._unready[name] = error.message
        return modules

    def install(self, source: str, *, dev: bool = False, path: str | None = None) -> ModuleEntry:
        """Put its module into `Modules/` (`dev`: refer to its folder). Approves nothing."""
        with locked(self._home, _LOCK), fetched(source, self._env, path=path) as module:
            tree = read_tree(module.folder, ignored=LITTER)
            manifest = manifest_of(tree, self._reserved)
            name = manifest.name
            record = self._registry.records().get(name)
            if record is not None and without_ref(record.source) != without_ref(module.source):
                raise OutdatedError(
                    f"there is a module {name} from {record.source} already; remove it first"
                )
            values: dict[str, Plain] = {"source": module.source, "commit": module.commit}
            if dev:
                values |= {"path": str(module.folder), "dev": True}
            else:
                installed = record.installed if record else None
                values["installed"] = place(module, self._vault, name, installed)
                values |= {"path": f"{FOLDER}/{name}", "dev": None}
            if record is None:
                trust = "trusted" if dev else "untrusted"
                values |= {"enabled": False, "version": manifest.version, "trust": trust}
            self._registry.change(name, values)
        return self.entry(name)

    def _records(self) -> dict[str, ModuleRecord]:
        return self._registry.records(self._folders())

    def _folders(self) -> list[str]:
        """Of the modules in the vault's `Modules/`, with links there, which are refused."""
        with contextlib.suppress(OSError):
            places = [*(self._vault / FOLDER).iterdir()]
            return [it.name for it in places if NAME.fullmatch(it.name) and it.is_dir()]
        return []

    def _find(self, name: str) -> ModuleRecord:
        record = self._records().get(name)
        if record is None:
            raise NotFoundError(
                f"there is no module {name[:80]!r}; `parachute modules list` shows them"
            )
        return record

    def _record(self, name: str) -> ModuleRecord:
        record = self._find(name)
        if record.problem is not None:
            raise OutdatedError(f"{record.name}: {record.problem}")
        return record

    def _copied(self, record: ModuleRecord) -> AbstractContextManager[ModuleTree]:
        return self._copies.copied(record.name, record.folder(self._vault), LITTER)

    def _manifest(self, name: str, copy: ModuleTree, trust: TrustLevel) -> Manifest:
        """Raises OutdatedError where it asks for what this trust never gives, to act for people,
        and what `manifest_of` raises.
        """
        manifest = manifest_of(copy, self._reserved)
        if manifest.name != name:
            raise OutdatedError(
                f"the folder {name} says that it is the module {manifest.name}; the two must agree"
            )
        if manifest.permissions.people and trust == "untrusted":
            raise OutdatedError(
                f"{name} acts for people that it knows from elsewhere, which only a trusted "
                f"module may: `parachute modules approve {name} --trust trusted` shows what that "
                "allows, and asks"
            )
        return manifest

    def _keep(self, record: ModuleRecord, copy: ModuleTree, level: TrustLevel) -> None:
        """In this order, so that a crash approves nothing."""
        name, digest, manifest = record.name, copy.digest, self._manifest(record.name, copy, level)
        environment, lock = self._packages(record, manifest)
        self._copies.keep(name, copy)
        self._registry.change(
            name,
            {
                "enabled": record.enabled if record.is_approved else True,
                "source": record.source,
                "path": record.path,
                "version": manifest.version,
                "trust": level,
                "hash": approval_digest(digest, manifest, lock),
                "tree": digest,
                "environment": environment,
                "lock": [*lock] or None,
                "problem": None,  # of an earlier version
            },
        )
        places = [self._copies.place(name, tree).name for tree in (digest, record.tree or digest)]
        wanted = [*places, environment, record.environment, copy.folder.name, PROMPT]
        self._copies.prune(name, [folder for folder in wanted if folder])

    def _packages(
        self, record: ModuleRecord, manifest: Manifest
    ) -> tuple[str | None, tuple[str, ...]]:
        """Those it has, if it asks for the same and has them still."""
        if not manifest.dependencies:
            return None, ()
        folder, known = self._copies.folder(record.name), record.environment
        with contextlib.suppress(ParachuteError):
            if known and self._load(record).manifest.dependencies == manifest.dependencies:
                return known, lock_of(folder / known)
        return build(folder, manifest.dependencies, self._env)

    def _load(self, record: ModuleRecord) -> ApprovedModule:
        """The module as it was approved, verified just now."""
        name = record.name
        if record.tree is None or record.hash is None:
            raise OutdatedError(f"{name} was never approved")
        copy = self._copies.read(name, record.tree)
        manifest = self._manifest(name, copy, record.trust)
        known = record.environment
        environment = self._copies.folder(name) / known if known else None
        lock = lock_of(environment) if environment else ()
        if approval_digest(copy.digest, manifest, lock) != record.hash:
            raise OutdatedError(
                f"{name} is not what was approved (its files, permissions or packages); "
                "approve it again"
            )
        return ApprovedModule(
            name=name,
            copy=copy.folder,
            digest=record.hash,
            tree=copy.digest,
            manifest=manifest,
            trust=record.trust,
            import_paths=(site_packages(environment),) if environment else (),
            overrides=record.agents,
            config=record.config,
        )

    def _entry(self, record: ModuleRecord) -> ModuleEntry:
        folder, problem = record.folder(self._vault), record.problem
        state: FolderState = "broken"
        found = None
        if problem is None:
            try:
                found = read_tree(folder, ignored=LITTER).digest
                is_same = found == record.tree
                state = "new" if not record.is_approved else "approved" if is_same else "changed"
            except UnfitError as error:
                problem = error.message
                state = "broken" if os.path.lexists(folder) else "missing"
        return ModuleEntry(
            record=record,
            folder=folder,
            found_digest=found,
            state=state,
            problem=self._unready.get(record.name) or problem,
        )
