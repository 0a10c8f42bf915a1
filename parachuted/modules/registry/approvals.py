"""Which modules exist, which are approved, and which may run.

The vault proposes; modules.yaml in the home decides. What a person sees and approves is identified
by the digest of the folder's bytes. What runs is a copy of those bytes, which `ready` checks again
against the recorded digest, permissions and locked packages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.home_files.private import locked
from parachuted.home_files.vault_state import known_state_folder
from parachuted.modules.registry.approval import (
    ApprovedVersions,
    check_trust,
    is_manifest,
    is_no_wider,
)
from parachuted.modules.registry.approved import (
    ApprovalRefusedError,
    ApprovedModule,
    FolderState,
    ModuleEntry,
    TrustLevel,
)
from parachuted.modules.registry.approved_copies import (
    ApprovedCopies,
)
from parachuted.modules.registry.code_inspection import (
    LARGEST,
    CodeInspection,
    found_in,
    is_source,
    tree_difference,
)
from parachuted.modules.registry.consent import Consent, consent_for
from parachuted.modules.registry.install import (
    FOLDER,
    fetched,
    manifest_of,
    place,
    unplace,
    without_ref,
)
from parachuted.modules.registry.module_folders import (
    ModuleChanges,
    ModuleFolders,
    manifest_in,
    release_keys,
    trust_level,
    unverified,
)
from parachuted.modules.registry.module_registry import (
    ModuleRecord,
    ModuleRegistry,
    ModuleRegistryError,
    Plain,
    is_module,
    parse_record,
    record_of,
    without_module,
)
from parachuted.modules.registry.module_tree import KeepingSink, read_tree
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
        self._folders = ModuleFolders(home, self._vault)
        self._changes = ModuleChanges(self._registry, self._folders)
        self._versions = ApprovedVersions(
            self._vault,
            env,
            self._keys,
            reserved,
            registry=self._registry,
            copies=self._copies,
            folders=self._folders,
        )
        self._unready: dict[str, str] = {}

    @property
    def problem(self) -> str | None:
        try:
            self._registry.load()
        except ModuleRegistryError as error:
            return error.message
        return None

    @property
    def state_folder(self) -> Path | None:
        """The vault's state folder, in which modules keep what is their own; None: there is none
        yet.
        """
        return known_state_folder(self._home, self._vault)

    def entries(self) -> list[ModuleEntry]:
        """Every module of modules.yaml and every folder in the vault's `Modules/`, by name."""
        try:
            entries = self._registry.load()
        except ModuleRegistryError as error:
            return [self._broken(name, error.message) for name in sorted(self._folders.names())]
        there = {name for name, entry in entries.items() if is_module(entry)}
        return [
            self._entry(name, entries.get(name))
            for name in sorted({*there, *self._folders.names()})
        ]

    def entry(self, name: str) -> ModuleEntry:
        """That one. Raises NotFoundError, ModuleRegistryError."""
        entries = self._registry.load()
        if not is_module(entries.get(name, {})) and name not in self._folders.names():
            raise NotFoundError(
                f"there is no module {name[:80]!r}; `parachute modules list` shows them"
            )
        return self._entry(name, entries.get(name))

    def review(self, name: str, trust: TrustLevel | None = None) -> tuple[Consent, str]:
        """What approving the folder as it is now would allow, and its difference from what was
        approved, of one reading.

        The consent's `digest` is what `approve` wants: two readings could show one thing and name
        another. `trust`: what the person is about to choose; None: as it is. Raises ParachuteError.
        """
        record = self._record(name)
        before, after = (KeepingSink(lambda _path: True, largest=LARGEST) for _ in range(2))
        tree = self._folders.read(record, after)
        manifest = manifest_in(self._reserved, record, tree, after)
        signature = self._folders.signature(record)
        level = trust_level(self._keys, record, tree.digest, signature, trust)
        check_trust(manifest, level)
        consent = consent_for(
            manifest, tree, _code(after), source=record.source, commit=record.commit, trust=level
        )
        old = self._copies.read(name, record.tree, before) if record.tree else None
        if old is not None:
            approved = consent_for(
                manifest_in(self._reserved, record, old, before),
                old,
                _code(before),
                source="",
                commit=None,
                trust=record.trust,
            )
            consent = replace(consent, added=consent.since(approved))
        if why := unverified(self._keys, record, tree.digest, signature):
            consent = replace(consent, notes=(*consent.notes, *why))
        return consent, tree_difference(old, tree, before.kept, after.kept)

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
            with self._versions.taking(record) as copy:
                if copy.tree.digest != expected_digest:
                    raise ApprovalRefusedError(
                        f"{name} changed since it was shown, so it was not approved; look at it "
                        "again"
                    )
                signature = self._folders.signature(record)
                level = trust_level(self._keys, record, copy.tree.digest, signature, trust)
                self._versions.keep(record, copy, level, signature if level == "verified" else None)
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
            is_ours = (
                record.installed is not None
                and record.path == f"{FOLDER}/{name}"
                and self._folders.is_as_installed(record)
            )
            entries = self._registry.load().get(name, {})
            rest = without_module(entries)
            if entries.keys() - rest.keys():
                self._registry.change(name, rest)
            elif entries:
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
                    found.append(
                        self._versions.load(self._refreshed(record) if record.is_dev else record)
                    )
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
            entries = self._registry.load().get(name, {})
            record = parse_record(name, entries) if is_module(entries) else None
            values: dict[str, Plain] = {
                "source": found.source,
                "path": f"{FOLDER}/{name}",
                "commit": found.commit,
            }
            if dev:
                self._folders.check_dev(found.folder, name, record)
                values = {"source": "local", "path": str(found.folder), "dev": True}
            else:
                if record is not None and (
                    record.is_dev or without_ref(record.source) != without_ref(found.source)
                ):
                    raise ApprovalRefusedError(
                        f"there is a module {name} from {record.source} already; remove it first"
                    )
                if record is not None and record.installed is not None:
                    self._folders.check_untouched(record)
                values["installed"] = place(
                    found,
                    self._vault,
                    name,
                    may_replace=self._folders.may_replace(found, record, name),
                ).digest
            if record is None:
                values |= {
                    "enabled": False,
                    "version": manifest.version,
                    "trust": "trusted" if dev else "untrusted",
                }
            self._registry.change(name, values)
        return self.entry(name), self.consent(name, trust)

    def look(self) -> frozenset[str]:
        """What `ModuleChanges.look` returns."""
        return self._changes.look()

    def _record(self, name: str) -> ModuleRecord:
        """Raises NotFoundError, ModuleRegistryError, and ApprovalRefusedError for an invalid
        entry.
        """
        entries = self._registry.load().get(name, {})
        if not is_module(entries):
            if name not in self._folders.names():
                raise NotFoundError(
                    f"there is no module {name[:80]!r}; `parachute modules list` shows them"
                )
            return record_of(name)
        try:
            return parse_record(name, entries)
        except ValueError as error:
            raise ApprovalRefusedError(
                f"the entry of {name[:80]!r} in modules.yaml is wrong: {error}"
            ) from error

    def _refreshed(self, record: ModuleRecord) -> ModuleRecord:
        """The record of the present folder if it asks for no more; otherwise the approved one, and
        why.
        """
        try:
            if self._folders.digest(record)[0] in (record.tree, None):
                return record
            with locked(self._home, _LOCK), self._versions.taking(record) as copy:
                keeping = KeepingSink(is_manifest)
                manifest = manifest_in(
                    self._reserved, record, read_tree(copy.folder, sink=keeping), keeping
                )
                if not is_no_wider(manifest, self._versions.load(record).manifest):
                    raise ApprovalRefusedError(
                        f"{record.name} asks for other permissions, agents or packages; approve "
                        "it again"
                    )
                level = trust_level(self._keys, record, copy.tree.digest, None, None)
                self._versions.keep(record, copy, level, None)
            return self._record(record.name)
        except ParachuteError as error:
            self._unready[record.name] = f"the last approved version runs: {error.message}"
            return record

    def _entry(self, name: str, entries: Mapping[str, object] | None) -> ModuleEntry:
        try:
            record = parse_record(name, entries) if entries is not None else record_of(name)
        except ValueError as error:
            return self._broken(name, f"its entry in modules.yaml is wrong: {error}")
        folder = record.folder(self._vault)
        digest, problem = self._folders.digest(record)
        state: FolderState = "approved" if digest == record.tree else "changed"
        if digest is None:
            state = "broken" if folder.exists() or folder.is_symlink() else "missing"
        elif not record.is_approved:
            state = "new"
        notes: tuple[str, ...] = ()
        if digest is not None and record.trust != "verified":
            notes = unverified(self._keys, record, digest, self._folders.signature(record))
        return ModuleEntry(
            name=name,
            folder=folder,
            source=record.source,
            version=record.version,
            trust=record.trust,
            enabled=record.enabled,
            approved_digest=record.tree if record.is_approved else None,
            found_digest=digest,
            state=state,
            problem=self._unready.get(name) or record.problem or problem,
            is_dev=record.is_dev,
            notes=notes,
            narrowed=tuple(record.agents),
        )

    def _broken(self, name: str, problem: str) -> ModuleEntry:
        return ModuleEntry(name=name, folder=self._vault / FOLDER / name, problem=problem)


def _code(files: KeepingSink) -> CodeInspection:
    return found_in({path: data for path, data in files.kept.items() if is_source(path)})
