"""Modules' records in modules.yaml of the home, what of them may run, and how far each is trusted.

People edit the file. What cannot be trusted in it lets nothing run, and says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from parachuted.errors import NotFoundError, OutdatedError, UnfitError, UntrustedError
from parachuted.home_files import (
    REMOVED,
    Changes,
    HomeFile,
    YamlNode,
    YamlRejectedError,
    edit_document,
    new_document,
    read_document,
)
from parachuted.home_files.bundled import bundled_folder
from parachuted.home_files.private import UntrustedFileError
from parachuted.modules.checks import NAME
from parachuted.modules.registry.copies import ModuleTree, read_tree
from parachuted.modules.registry.install import FOLDER, LITTER
from parachuted.modules.registry.manifest import Manifest, ManifestPermissions
from parachuted.modules.settings import SettingValue
from parachuted.texts.mistakes import mistakes_in
from parachuted.texts.visible import visible

TrustLevel: TypeAlias = Literal["verified", "trusted", "untrusted"]
FolderState: TypeAlias = Literal["new", "approved", "changed", "missing", "broken"]
Plain: TypeAlias = str | bool | list[str] | None

_FILE, _ROOT, _LIMIT = "modules.yaml", "modules", 64 * 1024
_OF_PERSON = frozenset({"config", "agents"})
_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
_Environment = Annotated[str, Field(pattern=r"^venv-[0-9a-f]{8}$")]
_PERMISSIONS = TypeAdapter(ManifestPermissions)
_LATER = frozenset({"folders", "people"})
_EVERYTHING = frozenset({"**", "**/*"})


@checked_dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="ignore"))
class ModuleRecord:
    """What modules.yaml says of it. `installed`: the digest of what `install` put there; `problem`:
    why its entry cannot be read.
    """

    name: str
    path: str = ""
    enabled: bool = False
    source: str = "local"
    version: str = ""
    trust: TrustLevel = "untrusted"
    hash: _Digest | None = None
    tree: _Digest | None = None
    environment: _Environment | None = None
    installed: _Digest | None = None
    commit: str | None = None
    is_dev: bool = Field(default=False, validation_alias="dev")
    problem: str | None = None
    agents: Mapping[str, Any] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def is_approved(self) -> bool:
        return self.hash is not None and self.tree is not None

    def folder(self, vault: Path) -> Path:
        return vault / (self.path or f"{FOLDER}/{self.name}")  # which is absolute under development


_RECORD = TypeAdapter(ModuleRecord)


class ModuleRegistry:
    """Calls block on the disk. All raise UntrustedError; those that write, StorageFailedError."""

    def __init__(self, home: Path) -> None:
        self._file = HomeFile(home, _FILE, limit=_LIMIT)
        self.path, self.mark = self._file.path, self._file.mark

    def records(self, folders: Collection[str] = ()) -> dict[str, ModuleRecord]:
        """Of the entries and of these folders in `Modules/`, by name. What a person wrote before a
        module comes, or after it went, makes none.
        """
        entries = self._load()
        known = {name for name, entry in entries.items() if not entry.keys() <= _OF_PERSON}
        return {name: _record(name, entries.get(name, {})) for name in sorted({*known, *folders})}

    def change(self, name: str, values: Mapping[str, Plain]) -> None:
        """Set those keys of that entry, which is made if need be; None takes a key away."""
        wanted = {key: REMOVED if value is None else value for key, value in values.items()}
        self._write({(_ROOT, name): wanted})

    def set_config(self, name: str, key: str, value: SettingValue) -> SettingValue:
        """Set a key of `config:`, where None takes it away. Returns the former value."""
        config = self._load().get(name, {}).get("config") or {}
        if value is None and config.keys() <= {key}:
            self.change(name, {"config": None})
        else:
            wanted = {key: REMOVED if value is None else value}
            self._write({(_ROOT, name, "config"): wanted})
        former: SettingValue = config.get(key)
        return former

    def forget(self, name: str) -> None:
        """Take away its entry, if it has one, but for what a person wrote in it for the module."""
        entry = self._load().get(name)
        if entry is not None and entry.keys() & _OF_PERSON:
            self.change(name, dict.fromkeys(entry.keys() - _OF_PERSON))
        elif entry is not None:
            self._write({(_ROOT,): {name: REMOVED}})

    def _load(self) -> dict[str, dict[str, Any]]:
        """The entries by name, all scalars as text but those of `config`."""
        try:
            text = self._file.read()
        except UntrustedFileError as error:
            raise UntrustedError(f"no module runs: {error}") from error
        return {} if text is None else _read(text)

    def _write(self, changes: Changes) -> None:
        def edited(text: str | None) -> str:
            before = new_document({_ROOT: {}}) if text is None else text
            _read(before)
            return edit_document(before, changes, limit=_LIMIT)

        try:
            self._file.change(edited)
        except (UntrustedFileError, YamlRejectedError) as error:
            raise UntrustedError(
                f"{_FILE} cannot be changed: {error}; change it by hand"
            ) from error


def _read(text: str) -> dict[str, dict[str, Any]]:
    """Raises UntrustedError."""
    try:
        root = read_document(text, limit=_LIMIT, is_strict=True)
        modules = _mapping(root).get(_ROOT)
        return {
            name: {
                key: _typed(value) if key == "config" else value.plain()
                for key, value in _mapping(entry).items()
            }
            for name, entry in _mapping(modules).items()
        }
    except YamlRejectedError as error:
        raise UntrustedError(f"no module runs: {_FILE} cannot be understood: {error}") from error


def _mapping(node: YamlNode | None) -> Mapping[str, YamlNode]:
    if node is None or node.is_nothing:
        return {}
    if node.entries is None:
        raise YamlRejectedError(
            f"it should hold `{_ROOT}:` with a name and an entry for each module", node.line
        )
    return dict(node.entries)


def _typed(node: YamlNode) -> Any:  # noqa: ANN401  of any shape
    """The node's value, with what JSON has for each scalar without quotes."""
    if node.entries is not None:
        return {key: _typed(value) for key, value in node.entries}
    if node.items is not None:
        return [_typed(item) for item in node.items]
    if node.word is None or node.text is None:
        return node.text
    with contextlib.suppress(ValueError):
        return json.loads(node.word, parse_constant=str)
    return node.word


def _record(name: str, entry: Mapping[str, Any]) -> ModuleRecord:
    """Of an entry, or of a folder that modules.yaml does not know."""
    written = {key: value for key, value in entry.items() if value not in ("", None)}
    written = {"path": f"{FOLDER}/{name}", **written, "name": name, "problem": None}
    try:
        record = _RECORD.validate_python(written)
    except ValidationError as error:
        return _unreadable(name, "; ".join(mistakes_in(error)))
    if not NAME.fullmatch(name):
        return _unreadable(name, "that is not a module's name")
    path = PurePosixPath(record.path)
    is_wrong = "\0" in record.path or ".." in path.parts or not path.name
    if is_wrong or path.is_absolute() != record.is_dev:
        return _unreadable(
            name,
            f"`path` should be a folder of the vault such as {FOLDER}/my-module, or an absolute "
            "path where it is under development (`dev`)",
        )
    return record


def _unreadable(name: str, why: str) -> ModuleRecord:
    return ModuleRecord(
        name=visible(name)[:80], problem=f"its entry in modules.yaml is wrong: {why}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleEntry:
    """One module as a person is shown it. `found_digest` is what a person names to approve it."""

    record: ModuleRecord
    folder: Path
    found_digest: str | None = None
    state: FolderState = "broken"
    problem: str | None = None

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def approved_digest(self) -> str | None:
        return self.record.tree if self.record.is_approved else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedModule:
    """A module as it was approved, verified just now. `digest` is the approval's (files,
    permissions, locked dependencies), `tree` that of the files. `overrides` are the `agents:` of
    modules.yaml, which may only narrow; `config` is its `config:`.
    """

    name: str
    copy: Path
    digest: str
    tree: str
    manifest: Manifest
    trust: TrustLevel
    import_paths: tuple[Path, ...] = ()
    overrides: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] = field(default_factory=dict)


def approval_digest(tree: str, manifest: Manifest, lock: Sequence[str]) -> str:
    """What modules.yaml records as `hash`. Permissions count as they were understood, so that a
    later parachuted that reads more into the same words asks again; those that came later count
    where they are asked for, so that what was approved before stays so.
    """
    asked: dict[str, object] = _PERMISSIONS.dump_python(manifest.permissions, mode="json")
    permissions = {name: asked[name] for name in asked if asked[name] or name not in _LATER}
    document = {"approval": 2, "tree": tree, "permissions": permissions, "lock": sorted(lock)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def reads_any_note(manifest: Manifest, trust: TrustLevel) -> bool:
    """Whether the module may be given words that may quote any note."""
    return trust != "untrusted" or not _EVERYTHING.isdisjoint(manifest.permissions.read)


def trust_level(record: ModuleRecord, tree: ModuleTree, wanted: TrustLevel | None) -> TrustLevel:
    """A module whose files come with this version is verified, unless less is wanted; any other is
    what it was, but never verified. Raises OutdatedError.
    """
    if wanted != "untrusted" and tree.digest == _official_digest(record.name):
        return "verified"
    if wanted == "verified":
        raise OutdatedError(
            f"{record.name} is none of the modules of this version, so it cannot be verified"
        )
    return wanted or ("untrusted" if record.trust == "verified" else record.trust)


@cache
def _official_digest(name: str) -> str | None:
    try:
        return read_tree(bundled_folder("modules").resolve() / name, ignored=LITTER).digest
    except (UnfitError, NotFoundError):
        return None
