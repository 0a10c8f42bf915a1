"""The folders in which modules lie, and whether their files are of an official release.

Nothing here is trusted: what is found is compared with what was approved, or copied and approved.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from parachuted.heavy import load_heavy_here
from parachuted.home_files.private import is_in
from parachuted.modules.registry.approved import ApprovalRefusedError, TrustLevel
from parachuted.modules.registry.install import FOLDER, LITTER, OFFICIAL, FetchedModule
from parachuted.modules.registry.manifest import FILE, NAME, Manifest, read_manifest
from parachuted.modules.registry.module_registry import (
    Held,
    ModuleRecord,
    ModuleRegistry,
    ModuleRegistryError,
    parse_record,
    record_of,
)
from parachuted.modules.registry.module_tree import (
    SIGNATURE,
    KeepingSink,
    ModuleTree,
    TreeMissingError,
    TreeRefusedError,
    folder_mark,
    read_one,
    read_tree,
)

KEYS_FILE = Path(__file__).with_name("release_keys.txt")
LONGEST = 200


def release_keys(text: str | None = None) -> tuple[str, ...]:
    """The keys that are shipped with the package: one a line in base64, `#` begins a comment."""
    lines = (KEYS_FILE.read_text(encoding="utf-8") if text is None else text).splitlines()
    return tuple(found for line in lines if (found := line.partition("#")[0].strip()))


def is_released(tree_digest: str, signature: str | None, keys: Collection[str]) -> bool:
    """Whether one of the keys signed that digest. Whatever is malformed did not."""
    if not signature or len(signature) > LONGEST or not keys:
        return False
    return bool(load_heavy_here("signatures").is_signed(tree_digest, signature, keys))


_OTHERS_MAY_WRITE = 0o022


def ignored_in(record: ModuleRecord) -> frozenset[str]:
    """The names that are no part of the module: of one under development, what tools leave."""
    return frozenset(LITTER) if record.is_dev else frozenset()


class ModuleFolders:
    """Reads the folders. Calls read the disk."""

    def __init__(self, home: Path, vault: Path) -> None:
        self._home, self._vault = home, vault
        self._seen: dict[Path, tuple[int, ModuleTree | None, TreeRefusedError | None]] = {}

    def names(self) -> set[str]:
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

    def mark(self, record: ModuleRecord) -> int:
        """What changes whenever the folder may have changed: one stat a file, and no proof."""
        return folder_mark(record.folder(self._vault), ignored_in(record))

    def root(self, record: ModuleRecord) -> Path:
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

    def read(self, record: ModuleRecord, sink: KeepingSink | None = None) -> ModuleTree:
        folder, root = record.folder(self._vault), self.root(record)
        return read_tree(folder, root=root, sink=sink, ignored=ignored_in(record))

    def signature(self, record: ModuleRecord) -> str | None:
        with contextlib.suppress(TreeRefusedError, UnicodeDecodeError):
            found = read_one(
                record.folder(self._vault), SIGNATURE, root=self.root(record), limit=LONGEST
            )
            return found.decode("ascii").strip() if found else None
        return None

    def may_replace(self, found: FetchedModule, record: ModuleRecord | None, name: str) -> bool:
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

    def is_as_installed(self, record: ModuleRecord) -> bool:
        """Ignores files that a system or Python leaves in a folder."""
        with contextlib.suppress(TreeRefusedError):
            return (
                read_tree(record.folder(self._vault), root=self.root(record), ignored=LITTER).digest
                == record.installed
            )
        return False

    def check_untouched(self, record: ModuleRecord) -> None:
        """What a person wrote into an installed folder is nowhere else, so it is not replaced."""
        with contextlib.suppress(TreeMissingError):
            self.read(record)
            if not self.is_as_installed(record):
                raise ApprovalRefusedError(
                    f"{record.path} is not as it was installed, and what was changed there would "
                    "be lost; move it away, then install again"
                )

    def check_dev(self, folder: Path, name: str, record: ModuleRecord | None) -> None:
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

    def digest(self, record: ModuleRecord) -> tuple[str | None, str | None]:
        """The folder's digest, or why there is none.

        Read again when a stat shows a change; nothing is approved by what is kept here.
        """
        folder = record.folder(self._vault)
        mark = self.mark(record)
        seen = self._seen.get(folder)
        if seen is None or seen[0] != mark:
            try:
                seen = mark, self.read(record), None
            except TreeRefusedError as error:
                seen = mark, None, error
            self._seen[folder] = seen
        return seen[1].digest if seen[1] else None, seen[2].message if seen[2] else None


class ModuleChanges:
    """Which modules may have changed since they were last looked at."""

    def __init__(self, registry: ModuleRegistry, folders: ModuleFolders) -> None:
        self._registry, self._folders = registry, folders
        self._marks: dict[str, tuple[object, int]] | None = None
        self._cached: tuple[tuple[int, ...] | None, Held] | None = None

    def look(self) -> frozenset[str]:
        """The names of modules whose folder changed since the last call, and all names when
        modules.yaml was written; the first call returns none. One stat a file.

        An entry that was changed and changed back counts: who compared in between saw the other.
        """
        mark, entries = self._cached_entries()
        names = {*entries, *self._folders.names()}
        marks = {name: (mark, self._mark(name, entries.get(name))) for name in names}
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

    def _mark(self, name: str, entries: Mapping[str, object] | None) -> int:
        try:
            record = parse_record(name, entries) if entries is not None else record_of(name)
        except ValueError:
            return 0
        return self._folders.mark(record)


def manifest_in(
    reserved: Collection[str], record: ModuleRecord, tree: ModuleTree, keeping: KeepingSink
) -> Manifest:
    """The manifest among the files that were kept.

    Raises ApprovalRefusedError, and what `read_manifest` raises.
    """
    data = keeping.kept.get(FILE)
    if data is None:
        raise ApprovalRefusedError(f"{record.name} has no {FILE}, so it is not a module")
    manifest = read_manifest(data, reserved=reserved, files=[file.path for file in tree.files])
    if manifest.name != record.name:
        raise ApprovalRefusedError(
            f"the folder {record.name} says that it is the module {manifest.name}; the two "
            "must agree"
        )
    return manifest


def trust_level(
    keys: Collection[str],
    record: ModuleRecord,
    digest: str,
    signature: str | None,
    wanted: TrustLevel | None,
) -> TrustLevel:
    """A signature makes it verified, unless less is wanted.

    Without one it is what it was, but never verified.
    """
    if wanted != "untrusted" and is_released(digest, signature, keys):
        return "verified"
    if wanted == "verified":
        raise ApprovalRefusedError(
            f"{record.name} is not signed by the makers of parachuted, so it cannot be verified"
        )
    return wanted or ("untrusted" if record.trust == "verified" else record.trust)


def unverified(
    keys: Collection[str], record: ModuleRecord, digest: str, signature: str | None
) -> tuple[str, ...]:
    """Why a module that says it is official is not verified; nothing where it is, or says no such
    thing.
    """
    if not (signature or record.source.startswith(OFFICIAL)):
        return ()
    if not keys:
        return ("not verified: this build of parachuted carries no release key",)
    if not signature:
        return ("not verified: it has no file SIGNATURE",)
    if is_released(digest, signature, keys):
        return ()
    return ("not verified: its SIGNATURE is not of these files by a release key of this build",)
