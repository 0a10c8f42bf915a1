"""One parsed entry of modules.yaml; a module whose entry cannot be parsed does not run. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from parachuted.modules.registry.approved import LEVELS, TrustLevel
from parachuted.modules.registry.manifest import NAME
from parachuted.visible import visible

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ENVIRONMENT = re.compile(r"venv-[0-9a-f]{8}")
_TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_LOCAL = "local"
_KEPT = frozenset({"config", "agents"})
_FOLDER = "Modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRecord:
    """What modules.yaml says of one module.

    `installed` is the digest of what `install` put into the vault.
    """

    name: str
    path: str
    enabled: bool = False
    source: str = _LOCAL
    version: str = ""
    trust: TrustLevel = "untrusted"
    hash: str | None = None
    tree: str | None = None
    environment: str | None = None
    signature: str | None = None
    installed: str | None = None
    commit: str | None = None
    lock: tuple[str, ...] = ()
    is_dev: bool = False
    problem: str | None = None
    agents: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_approved(self) -> bool:
        """Whether some version was approved."""
        return self.hash is not None and self.tree is not None

    def folder(self, vault: Path) -> Path:
        """Where its files are."""
        return Path(self.path) if self.is_dev else vault / self.path


def record_of(name: str) -> ModuleRecord:
    """The record of a folder that modules.yaml does not know."""
    return ModuleRecord(name=name, path=f"{_FOLDER}/{name}")


def is_module(entry: Mapping[str, Any]) -> bool:
    """Whether the entry is of a module: what a person wrote for one, before it comes or after it is
    removed, makes none.
    """
    return not entry.keys() <= _KEPT


def without_module(entry: Mapping[str, Any]) -> dict[str, None]:
    """The change of an entry that leaves in it what a person wrote for the module."""
    return dict.fromkeys(entry.keys() - _KEPT)


def parse_record(name: str, entry: Mapping[str, Any]) -> ModuleRecord:
    """Understand an entry. Raises ValueError, in words."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{visible(name)[:80]!r} is not a module's name")
    is_dev = _truth(entry, "dev")
    lock = entry.get("lock", [])
    if not isinstance(lock, list) or not all(isinstance(line, str) for line in lock):
        raise ValueError("`lock` should be a list of texts")
    return ModuleRecord(
        name=name,
        path=_path(_text(entry, "path") or f"{_FOLDER}/{name}", is_dev=is_dev),
        enabled=_truth(entry, "enabled"),
        source=_text(entry, "source") or _LOCAL,
        version=_text(entry, "version") or "",
        trust=_level(_text(entry, "trust")),
        hash=_matched(entry, "hash", _DIGEST),
        tree=_matched(entry, "tree", _DIGEST),
        environment=_matched(entry, "environment", _ENVIRONMENT),
        signature=_text(entry, "signature"),
        installed=_matched(entry, "installed", _DIGEST),
        commit=_text(entry, "commit"),
        lock=tuple(str(line) for line in lock),
        is_dev=is_dev,
        problem=_text(entry, "problem"),
        agents=_mapping(entry, "agents"),
        config=_mapping(entry, "config"),
    )


def _text(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"`{key}` should be a text")  # noqa: TRY004  it is the file that is wrong
    return value or None


def _truth(entry: Mapping[str, Any], key: str) -> bool:
    text = _text(entry, key) or "false"
    if text.lower() not in _TRUTH:
        raise ValueError(f"`{key}` should be true or false")
    return _TRUTH[text.lower()]


def _level(text: str | None) -> TrustLevel:
    for level in LEVELS:
        if text == level:
            return level
    if text is not None:
        raise ValueError("`trust` should be verified, trusted or untrusted")
    return "untrusted"


def _matched(entry: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str | None:
    text = _text(entry, key)
    if text is not None and not pattern.fullmatch(text):
        raise ValueError(f"`{key}` is not what parachuted writes there; approve the module again")
    return text


def _mapping(entry: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = entry.get(key, "")
    if value == "":
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"`{key}` should be a mapping")  # noqa: TRY004  the same
    return value


def _path(text: str, *, is_dev: bool) -> str:
    path = PurePosixPath(text)
    if "\0" in text or ".." in path.parts or path.is_absolute() != is_dev or not path.name:
        where = (
            "an absolute path, for it is under development (`dev`)"
            if is_dev
            else f"a folder of the vault such as {_FOLDER}/my-module"
        )
        raise ValueError(f"`path` should be {where}")
    return str(path)
