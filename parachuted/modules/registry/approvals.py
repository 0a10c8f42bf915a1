"""Which modules exist, which are approved, and which may run.

The vault proposes; modules.yaml in the home decides. A module's folder is copied into the home,
and what a person sees and approves is that copy, by the digest of its bytes. What runs is the copy,
which `ready` checks again against the recorded digest, permissions and locked packages.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.heavy import load_heavy_here
from parachuted.modules.registry.approved import (
    ApprovalRefusedError,
    ApprovedModule,
    FolderState,
    ModuleEntry,
    TrustLevel,
    reads_any_note,
)
from parachuted.modules.registry.consent import Consent, consent_for, tree_difference
from parachuted.modules.registry.copies import (
    ApprovedCopies,
    ModuleTree,
    TreeRefusedError,
    folder_mark,
    read_tree,
)
from parachuted.modules.registry.environment import (
    EnvironmentFailedError,
    build,
    lock_of,
    site_packages,
)
from parachuted.modules.registry.install import (
    FOLDER,
    LITTER,
    OFFICIAL,
    FetchedModule,
    fetched,
    manifest_of,
    place,
    unplace,
    without_ref,
)
from parachuted.modules.registry.manifest import (
    FILE,
    NAME,
    Manifest,
    manifest_document,
    read_manifest,
)
from parachuted.modules.registry.module_registry import (
    Held,
    ModuleRecord,
    ModuleRegistry,
    ModuleRegistryError,
    Plain,
    is_module,
    parse_record,
    without_module,
)
from parachuted.modules.registry.prompts import FILE as PROMPT
from parachuted.modules.settings import SettingValue
from parachuted.private import is_in, locked
from parachuted.vault_state import known_state_folder

_KEYS_FILE = Path(__file__).with_name("release_keys.txt")
_LOCK = "modules.lock"
_OTHERS_MAY_WRITE = 0o022
_LISTED, _SHOWN = 2, 1  # the approvals of this version, and of those that showed what code declares


def release_keys(text: str | None = None) -> tuple[str, ...]:
    """The keys that are shipped with the package: one a line in base64, `#` begins a comment."""
    lines = (_KEYS_FILE.read_text(encoding="utf-8") if text is None else text).splitlines()
    return tuple(found for line in lines if (found := line.partition("#")[0].strip()))


def is_released(tree: ModuleTree, signature: str | None, keys: Collection[str]) -> bool:
    """Whether one of the keys signed that digest. Whatever is malformed did not."""
    if not signature or not keys:
        return False
    return bool(load_heavy_here("signatures").is_signed(tree.digest, signature, keys))


def approval_digest(
    tree: str, manifest: Manifest, lock: Sequence[str], version: int = _LISTED
) -> str:
    """What modules.yaml records as `hash`: a module's files, the permissions that they declare, and
    its packages.

    The permissions are part of the files; they count again as they were understood, so that a
    later parachuted that reads more into the same words asks again. Those that came later count
    where they are asked for: what was approved before stays so.
    """
    asked = manifest.permissions
    later = [name for name in ("folders", "hooks", "people") if not getattr(asked, name)]
    permissions = _part(manifest, "permissions")
    said = {
        "approval": version,
        "tree": tree,
        "permissions": {name: permissions[name] for name in permissions if name not in later},
        "lock": sorted(lock),
    }
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def is_no_wider(manifest: Manifest, approved: Manifest) -> bool:
    """Whether one asks for exactly what the other was given, apart from the code."""
    return manifest.name == approved.name and all(
        _part(manifest, part) == _part(approved, part)
        for part in ("permissions", "dependencies", "agents")
    )


def _part(manifest: Manifest, name: str) -> dict[str, object]:
    return manifest_document(manifest)[name]  # type: ignore[return-value]


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
        self._read: dict[Path, tuple[int, ModuleTree | None, str | None]] = {}
        self._marks: dict[str, tuple[object, int]] | None = None
        self._entries: tuple[object, Held] = object(), {}

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
            return [self._broken(name, error.message) for name in sorted(self._folders())]
        known = {name for name, entry in entries.items() if is_module(entry)}
        return [
            self._entry(name, entries.get(name, {})) for name in sorted({*known, *self._folders()})
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
            level = self._level(record, tree, trust)
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
            notes = (*consent.notes, *self._unverified(record, tree))
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
                self._keep(record, copy, tree, self._level(record, tree, trust))
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
            is_ours = record.path == f"{FOLDER}/{name}" and self._is_as_installed(record)
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
                self._check_dev(found.folder, name, record)
                values = {"source": "local", "path": str(found.folder), "dev": True}
            else:
                may_replace = self._may_replace(found, record, name)
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
        """The names of modules whose folder changed since the last call, and all names when
        modules.yaml was written; the first call returns none. One stat a file.

        An entry that was changed and changed back counts: who compared in between saw the other.
        """
        mark = self._registry.mark()
        if self._entries[0] != mark:
            self._entries = mark, {}
            with contextlib.suppress(ModuleRegistryError):
                self._entries = mark, self._registry.load()
        entries, marks = self._entries[1], dict[str, tuple[object, int]]()
        for name in {*entries, *self._folders()}:
            marks[name] = mark, 0
            with contextlib.suppress(ValueError):
                marks[name] = mark, self._mark(parse_record(name, entries.get(name, {})))
        before, self._marks = self._marks, marks
        if before is None:
            return frozenset()
        return frozenset(
            name for name in marks.keys() | before.keys() if marks.get(name) != before.get(name)
        )

    def _written(self, name: str) -> Mapping[str, object]:
        """Its entry in modules.yaml. Raises NotFoundError, ModuleRegistryError."""
        entry = self._registry.load().get(name, {})
        if not is_module(entry) and name not in self._folders():
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
        self._check_place(record)
        folder = record.folder(self._vault)
        with self._copies.copied(record.name, folder, _ignored(record)) as copy:
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

    def _level(
        self, record: ModuleRecord, tree: ModuleTree, wanted: TrustLevel | None
    ) -> TrustLevel:
        """A signature makes it verified, unless less is wanted.

        Without one it is what it was, but never verified.
        """
        if wanted != "untrusted" and is_released(tree, tree.signature, self._keys):
            return "verified"
        if wanted == "verified":
            raise ApprovalRefusedError(
                f"{record.name} is not signed by the makers of parachuted, so it cannot be verified"
            )
        return wanted or ("untrusted" if record.trust == "verified" else record.trust)

    def _unverified(self, record: ModuleRecord, tree: ModuleTree) -> tuple[str, ...]:
        """Why a module that says it is official is not verified."""
        if not (tree.signature or record.source.startswith(OFFICIAL)):
            return ()
        if not self._keys:
            return ("not verified: this build of parachuted carries no release key",)
        if not tree.signature:
            return ("not verified: it has no file SIGNATURE",)
        if is_released(tree, tree.signature, self._keys):
            return ()
        return ("not verified: its SIGNATURE is not of these files by a release key of this build",)

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

        Raises ParachuteError: what was approved is not there, or is not what is there.
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
            for version in (_LISTED, _SHOWN)
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
            lists_all=versions == [_LISTED],
        )

    def _refreshed(self, record: ModuleRecord) -> ModuleRecord:
        """The record of the present folder if it asks for no more; otherwise the approved one, and
        why.
        """
        try:
            tree, _problem = self._tree(record)
            if tree is None or tree.digest == record.tree:
                return record
            with locked(self._home, _LOCK), self._copied(record) as (copy, tree):
                if not is_no_wider(self._manifest(record, tree), self._load(record).manifest):
                    raise ApprovalRefusedError(
                        f"{record.name} asks for other permissions, agents or packages; approve "
                        "it again"
                    )
                level = self._level(record, replace(tree, signature=None), None)
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
        tree, problem = self._tree(record)
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
            notes=() if is_quiet or tree is None else self._unverified(record, tree),
            narrowed=tuple(record.agents),
        )

    def _broken(self, name: str, problem: str) -> ModuleEntry:
        return ModuleEntry(name=name, folder=self._vault / FOLDER / name, problem=problem)

    def _folders(self) -> set[str]:
        """The names of folders in the vault's `Modules/`, and of links there, which are refused."""
        with contextlib.suppress(OSError):
            if (self._vault / FOLDER).is_symlink():
                return set()
            with os.scandir(self._vault / FOLDER) as found:
                return {
                    entry.name
                    for entry in found
                    if NAME.fullmatch(entry.name) and not entry.is_file(follow_symlinks=False)
                }
        return set()

    def _mark(self, record: ModuleRecord) -> int:
        return folder_mark(record.folder(self._vault), _ignored(record))

    def _tree(self, record: ModuleRecord) -> tuple[ModuleTree | None, str | None]:
        """What its folder holds, or why that cannot be said.

        Read again when a stat shows a change; nothing is approved by it.
        """
        folder, mark = record.folder(self._vault), self._mark(record)
        cached = self._read.get(folder)
        if cached is None or cached[0] != mark:
            try:
                self._check_place(record)
                cached = mark, read_tree(folder, ignored=_ignored(record)), None
            except TreeRefusedError as error:
                cached = mark, None, error.message
            self._read[folder] = cached
        return cached[1], cached[2]

    def _check_place(self, record: ModuleRecord) -> None:
        folder = record.folder(self._vault)
        if record.is_dev and self._touches_vault(folder.resolve()):
            raise TreeRefusedError(
                f"{folder} is a link, or in the vault: a module under development is kept elsewhere"
            )

    def _touches_vault(self, folder: Path) -> bool:
        return any(
            is_in(folder, other) or is_in(other, folder) for other in (self._vault, self._home)
        )

    def _is_as_installed(self, record: ModuleRecord) -> bool:
        """Ignores files that a system or Python leaves in a folder."""
        if record.installed is None:
            return False
        with contextlib.suppress(TreeRefusedError):
            folder = record.folder(self._vault)
            return read_tree(folder, ignored=LITTER).digest == record.installed
        return False

    def _may_replace(self, found: FetchedModule, record: ModuleRecord | None, name: str) -> bool:
        """Whether nothing of the vault's folder would be lost: it is what was installed, or what is
        about to be. Raises ApprovalRefusedError where something would.
        """
        if record is None:
            with contextlib.suppress(TreeRefusedError):
                folders = (found.folder, self._vault / FOLDER / name)
                return len({read_tree(one, ignored=LITTER).digest for one in folders}) == 1
            return False
        if record.is_dev or without_ref(record.source) != without_ref(found.source):
            raise ApprovalRefusedError(
                f"there is a module {name} from {record.source} already; remove it first"
            )
        if record.installed is None:
            return False
        if record.folder(self._vault).exists() and not self._is_as_installed(record):
            # what a person wrote there is nowhere else
            raise ApprovalRefusedError(
                f"{record.path} is not as it was installed, and what was changed there would "
                "be lost; move it away, then install again"
            )
        return True

    def _check_dev(self, folder: Path, name: str, record: ModuleRecord | None) -> None:
        if record is not None and (not record.is_dev or record.path != str(folder)):
            raise ApprovalRefusedError(
                f"there is a module {name} at {record.path} already; remove it first"
            )
        if self._touches_vault(folder):
            raise ApprovalRefusedError(
                "a module under development cannot be in the vault, where others may change it: "
                "keep it elsewhere"
            )
        if folder.stat().st_mode & _OTHERS_MAY_WRITE:
            raise ApprovalRefusedError(
                f"others may write to {folder}, so it cannot be under development; `chmod go-w` "
                "on it mends that"
            )


def _ignored(record: ModuleRecord) -> Collection[str]:
    """The names that are no part of the module: of one under development, what tools leave."""
    return LITTER if record.is_dev else ()
