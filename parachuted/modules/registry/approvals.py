"""Which modules exist, which are approved, and which may run.

The vault proposes; modules.yaml in the home decides. What a person sees and approves is identified
by the digest of the folder's bytes. What runs is a copy of those bytes, which `ready` checks again
against the recorded digest, permissions and locked packages.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parachuted.errors import NotFoundError, ParachuteError
from parachuted.modules.registry.approval import approval_digest, is_no_wider
from parachuted.modules.registry.approved import (
    ApprovedModule,
    FolderState,
    ModuleEntry,
    TrustLevel,
)
from parachuted.modules.registry.approved_copies import ApprovedCopies, UnplacedCopy
from parachuted.modules.registry.code_inspection import CodeInspection, found_in, is_source
from parachuted.modules.registry.consent import Consent, consent_for
from parachuted.modules.registry.difference import LARGEST, tree_difference
from parachuted.modules.registry.environment import (
    EnvironmentFailedError,
    build,
    lock_of,
    site_packages,
)
from parachuted.modules.registry.install import (
    FOLDER,
    LITTER,
    FetchedModule,
    fetched,
    manifest_of,
    place,
    unplace,
    without_ref,
)
from parachuted.modules.registry.manifest import FILE, NAME, Manifest, read_manifest
from parachuted.modules.registry.marks import folder_mark
from parachuted.modules.registry.module_record import (
    ModuleRecord,
    is_module,
    parse_record,
    record_of,
    without_module,
)
from parachuted.modules.registry.module_registry import (
    Held,
    ModuleRegistry,
    ModuleRegistryError,
    Plain,
)
from parachuted.modules.registry.module_tree import (
    SIGNATURE,
    KeepingSink,
    ModuleTree,
    TreeMissingError,
    TreeRefusedError,
    read_one,
    read_tree,
)
from parachuted.modules.registry.prompts import FILE as PROMPT
from parachuted.modules.registry.released import LONGEST, is_released, release_keys
from parachuted.private import is_in, locked

_LOCK = "modules.lock"
_OTHERS_MAY_WRITE = 0o022


class ApprovalRefusedError(ParachuteError):
    """That was not approved."""


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
        self._seen: dict[Path, tuple[int, ModuleTree | None, TreeRefusedError | None]] = {}
        self._unready: dict[str, str] = {}
        self._marks: dict[str, tuple[object, int]] | None = None
        self._cached: tuple[tuple[int, ...] | None, Held] | None = None

    @property
    def problem(self) -> str | None:
        """Why nothing may run at all: modules.yaml cannot be trusted."""
        try:
            self._registry.load()
        except ModuleRegistryError as error:
            return error.message
        return None

    def entries(self) -> list[ModuleEntry]:
        """Every module of modules.yaml and every folder in the vault's `Modules/`, by name."""
        try:
            entries = self._registry.load()
        except ModuleRegistryError as error:
            return [self._broken(name, error.message) for name in sorted(self._folders())]
        there = {name for name, entry in entries.items() if is_module(entry)}
        return [self._entry(name, entries.get(name)) for name in sorted({*there, *self._folders()})]

    def entry(self, name: str) -> ModuleEntry:
        """That one. Raises NotFoundError, ModuleRegistryError."""
        entries = self._registry.load()
        if not is_module(entries.get(name, {})) and name not in self._folders():
            raise NotFoundError(
                f"there is no module {name[:80]!r}; `parachute modules list` shows them"
            )
        return self._entry(name, entries.get(name))

    def review(self, name: str) -> tuple[Consent, str]:
        """What approving the folder as it is now would allow, and its difference from what was
        approved, of one reading.

        The consent's `digest` is what `approve` wants: two readings could show one thing and name
        another. Raises ParachuteError.
        """
        record = self._record(name)
        before, after = KeepingSink(_any, largest=LARGEST), KeepingSink(_any, largest=LARGEST)
        tree = self._tree(record, after)
        manifest = self._manifest(record, tree, after)
        level = self._level(record, tree.digest, self._signature(record), None)
        consent = consent_for(
            manifest, tree, _code(after), source=record.source, commit=record.commit, trust=level
        )
        old = self._copies.read(name, record.tree, before) if record.tree else None
        if old is not None:
            approved = consent_for(
                self._manifest(record, old, before),
                old,
                _code(before),
                source="",
                commit=None,
                trust=record.trust,
            )
            consent = replace(consent, added=consent.since(approved))
        return consent, tree_difference(old, tree, before.kept, after.kept)

    def consent(self, name: str) -> Consent:
        """The consent alone."""
        return self.review(name)[0]

    def approve(
        self, name: str, expected_digest: str, *, trust: TrustLevel | None = None
    ) -> ModuleEntry:
        """Approve exactly the bytes that were shown; the first time, enable it too.

        Raises ParachuteError, having approved nothing.
        """
        with locked(self._home, _LOCK):
            record = self._record(name)
            with self._taking(record) as copy:
                if copy.tree.digest != expected_digest:
                    raise ApprovalRefusedError(
                        f"{name} changed since it was shown, so it was not approved; look at it "
                        "again"
                    )
                signature = self._signature(record)
                level = self._level(record, copy.tree.digest, signature, trust)
                self._keep(record, copy, level, signature if level == "verified" else None)
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

    def set_trust(self, name: str, trust: TrustLevel) -> ModuleEntry:
        """Set where it runs. Only a signature makes a module `verified`."""
        record = self._record(name)
        if trust == "verified" and not (
            record.tree and is_released(record.tree, record.signature, self._keys)
        ):
            raise ApprovalRefusedError(
                f"{name} is not signed by the makers of parachuted, so it cannot be verified"
            )
        self._registry.change(name, {"trust": trust})
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
                and self._is_as_installed(record)
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
                        self._approved(self._refreshed(record) if record.is_dev else record)
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

        Approves nothing. Raises ParachuteError.
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
                self._check_dev(found.folder, name, record)
                values = {"source": "local", "path": str(found.folder), "dev": True}
            else:
                if record is not None and (
                    record.is_dev or without_ref(record.source) != without_ref(found.source)
                ):
                    raise ApprovalRefusedError(
                        f"there is a module {name} from {record.source} already; remove it first"
                    )
                if record is not None and record.installed is not None:
                    self._check_untouched(record)
                values["installed"] = place(
                    found, self._vault, name, may_replace=self._may_replace(found, record, name)
                ).digest
            if record is None:
                values |= {
                    "enabled": False,
                    "version": manifest.version,
                    "trust": trust or ("trusted" if dev else "untrusted"),
                }
            self._registry.change(name, values)
        return self.entry(name), self.consent(name)

    def diff(self, name: str) -> str:
        """The approved copy against the folder, as unified text with hidden characters spelled out;
        empty: the same.

        For looking. Whoever is then asked to approve is shown `review`, which names what it showed.
        """
        record = self._record(name)
        before, after = KeepingSink(_any, largest=LARGEST), KeepingSink(_any, largest=LARGEST)
        old = self._copies.read(name, record.tree, before) if record.tree else None
        try:
            new: ModuleTree | None = self._tree(record, after)
        except TreeMissingError:
            new = None
        return tree_difference(old, new, before.kept, after.kept)

    def look(self) -> frozenset[str]:
        """The names of modules whose folder changed since the last call, and all names when
        modules.yaml was written; the first call returns none. One stat a file.

        An entry that was changed and changed back counts: who compared in between saw the other.
        """
        mark, entries = self._cached_entries()
        marks = {
            name: (mark, self._mark(name, entries.get(name)))
            for name in {*entries, *self._folders()}
        }
        before, self._marks = self._marks, marks
        if before is None:
            return frozenset()
        return frozenset(
            name for name in marks.keys() | before.keys() if marks.get(name) != before.get(name)
        )

    def _cached_entries(self) -> tuple[object, Held]:
        """The file's mark and its entries, read again when a stat shows a change: for looking, not
        for deciding.
        """
        mark = self._registry.mark()
        if self._cached is None or self._cached[0] != mark:
            entries: Held = {}
            with contextlib.suppress(ModuleRegistryError):
                entries = self._registry.load()
            self._cached = mark, entries
        return self._cached

    # What is in the folders.

    def _folders(self) -> set[str]:
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR((self._vault / FOLDER).lstat().st_mode):
                return set()
            with os.scandir(self._vault / FOLDER) as found:
                return {
                    one.name
                    for one in found
                    if NAME.fullmatch(one.name) and not one.is_file(follow_symlinks=False)
                }
        return set()

    def _mark(self, name: str, entries: Mapping[str, object] | None) -> int:
        try:
            record = parse_record(name, entries) if entries is not None else record_of(name)
        except ValueError:
            return 0
        return folder_mark(record.folder(self._vault), LITTER if record.is_dev else ())

    def _record(self, name: str) -> ModuleRecord:
        """Raises NotFoundError, ModuleRegistryError, and ApprovalRefusedError for an invalid
        entry.
        """
        entries = self._registry.load().get(name, {})
        if not is_module(entries):
            if name not in self._folders():
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

    def _root(self, record: ModuleRecord) -> Path:
        """The folder above it that is where it seems to be.

        One under development is checked here each time it is read.
        """
        folder = record.folder(self._vault)
        if not record.is_dev:
            return self._vault
        if folder.resolve() != folder or self._touches_vault(folder):
            raise TreeRefusedError(
                f"{folder} is a link, or in the vault: a module under development is kept elsewhere"
            )
        return folder.parent

    def _tree(self, record: ModuleRecord, sink: KeepingSink | None = None) -> ModuleTree:
        ignored = LITTER if record.is_dev else ()
        return read_tree(
            record.folder(self._vault), root=self._root(record), sink=sink, ignored=ignored
        )

    def _signature(self, record: ModuleRecord) -> str | None:
        with contextlib.suppress(TreeRefusedError, UnicodeDecodeError):
            found = read_one(
                record.folder(self._vault), SIGNATURE, root=self._root(record), limit=LONGEST
            )
            return found.decode("ascii").strip() if found else None
        return None

    def _manifest(self, record: ModuleRecord, tree: ModuleTree, keeping: KeepingSink) -> Manifest:
        data = keeping.kept.get(FILE)
        if data is None:
            raise ApprovalRefusedError(f"{record.name} has no {FILE}, so it is not a module")
        manifest = read_manifest(
            data, reserved=self._reserved, files=[file.path for file in tree.files]
        )
        if manifest.name != record.name:
            raise ApprovalRefusedError(
                f"the folder {record.name} says that it is the module {manifest.name}; the two "
                "must agree"
            )
        return manifest

    # What was approved.

    def _approved(self, record: ModuleRecord) -> ApprovedModule:
        """Raises ParachuteError: what was approved is not there, or is not what is there."""
        if record.tree is None or record.hash is None:
            raise ApprovalRefusedError(f"{record.name} was never approved")
        keeping = KeepingSink(_is_manifest)
        tree = self._copies.read(record.name, record.tree, keeping)
        manifest = self._manifest(record, tree, keeping)
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
            is_dev=record.is_dev,
        )

    @contextlib.contextmanager
    def _taking(self, record: ModuleRecord) -> Iterator[UnplacedCopy]:
        ignored = LITTER if record.is_dev else ()
        with self._copies.taking(
            record.name, record.folder(self._vault), root=self._root(record), ignored=ignored
        ) as copy:
            yield copy

    def _level(
        self, record: ModuleRecord, digest: str, signature: str | None, wanted: TrustLevel | None
    ) -> TrustLevel:
        """A signature makes it verified, unless less is wanted.

        Without one it is what it was, but never verified.
        """
        if wanted in (None, "verified") and is_released(digest, signature, self._keys):
            return "verified"
        if wanted == "verified":
            raise ApprovalRefusedError(
                f"{record.name} is not signed by the makers of parachuted, so it cannot be verified"
            )
        return wanted or ("untrusted" if record.trust == "verified" else record.trust)

    def _keep(
        self, record: ModuleRecord, copy: UnplacedCopy, level: TrustLevel, signature: str | None
    ) -> None:
        """Give the copy its place, install its packages, and write down both: in this order, so
        that a crash approves nothing.
        """
        keeping = KeepingSink(_is_manifest)
        tree = read_tree(copy.folder, sink=keeping)
        if tree.digest != copy.tree.digest:
            raise ApprovalRefusedError(f"the copy of {record.name} was changed while it was made")
        manifest = self._manifest(record, tree, keeping)
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
                and self._approved(record).manifest.dependencies == manifest.dependencies
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

    def _may_replace(self, found: FetchedModule, record: ModuleRecord | None, name: str) -> bool:
        """Whether nothing of the vault's folder would be lost: it is what was installed, or what is
        about to be.
        """
        if record is not None:
            return record.installed is not None
        with contextlib.suppress(TreeRefusedError):
            source = read_tree(found.folder, root=found.root, ignored=LITTER)
            return (
                read_tree(self._vault / FOLDER / name, root=self._vault, ignored=LITTER).digest
                == source.digest
            )
        return False

    def _is_as_installed(self, record: ModuleRecord) -> bool:
        """Ignores files that a system or Python leaves in a folder."""
        with contextlib.suppress(TreeRefusedError):
            return (
                read_tree(
                    record.folder(self._vault), root=self._root(record), ignored=LITTER
                ).digest
                == record.installed
            )
        return False

    def _check_untouched(self, record: ModuleRecord) -> None:
        """What a person wrote into an installed folder is nowhere else, so it is not replaced."""
        with contextlib.suppress(TreeMissingError):
            self._tree(record)
            if not self._is_as_installed(record):
                raise ApprovalRefusedError(
                    f"{record.path} is not as it was installed, and what was changed there would "
                    "be lost; move it away, then install again"
                )

    # Modules under development.

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

    def _touches_vault(self, folder: Path) -> bool:
        return any(
            is_in(folder, other) or is_in(other, folder) for other in (self._vault, self._home)
        )

    def _refreshed(self, record: ModuleRecord) -> ModuleRecord:
        """The record of the present folder if it asks for no more; otherwise the approved one, and
        why.
        """
        try:
            if self._found(record)[0] in (record.tree, None):
                return record
            with locked(self._home, _LOCK), self._taking(record) as copy:
                keeping = KeepingSink(_is_manifest)
                manifest = self._manifest(record, read_tree(copy.folder, sink=keeping), keeping)
                if not is_no_wider(manifest, self._approved(record).manifest):
                    raise ApprovalRefusedError(
                        f"{record.name} asks for other permissions, agents or packages; approve "
                        "it again"
                    )
                level = self._level(record, copy.tree.digest, None, None)
                self._keep(record, copy, level, None)
            return self._record(record.name)
        except ParachuteError as error:
            self._unready[record.name] = f"the last approved version runs: {error.message}"
            return record

    # What is shown.

    def _found(self, record: ModuleRecord) -> tuple[str | None, str | None]:
        """The folder's digest, or why there is none.

        Read again when a stat shows a change; nothing is approved by what is kept here.
        """
        folder = record.folder(self._vault)
        mark = folder_mark(folder, LITTER if record.is_dev else ())
        seen = self._seen.get(folder)
        if seen is None or seen[0] != mark:
            try:
                seen = mark, self._tree(record), None
            except TreeRefusedError as error:
                seen = mark, None, error
            self._seen[folder] = seen
        return seen[1].digest if seen[1] else None, seen[2].message if seen[2] else None

    def _entry(self, name: str, entries: Mapping[str, object] | None) -> ModuleEntry:
        try:
            record = parse_record(name, entries) if entries is not None else record_of(name)
        except ValueError as error:
            return self._broken(name, f"its entry in modules.yaml is wrong: {error}")
        folder = record.folder(self._vault)
        digest, problem = self._found(record)
        state: FolderState = "approved" if digest == record.tree else "changed"
        if digest is None:
            state = "broken" if folder.exists() or folder.is_symlink() else "missing"
        elif not record.is_approved:
            state = "new"
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
        )

    def _broken(self, name: str, problem: str) -> ModuleEntry:
        return ModuleEntry(
            name=name,
            folder=self._vault / FOLDER / name,
            source="",
            version="",
            trust="untrusted",
            enabled=False,
            approved_digest=None,
            found_digest=None,
            state="broken",
            problem=problem,
        )


def _code(files: KeepingSink) -> CodeInspection:
    return found_in({path: data for path, data in files.kept.items() if is_source(path)})


def _any(_path: str) -> bool:
    return True


def _is_manifest(path: str) -> bool:
    return path == FILE
