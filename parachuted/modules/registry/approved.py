"""A module's approval, and what of it may run, as values.

`ModuleEntry` is what a person is shown; `ApprovedModule` is what a host receives: a copy, never the
folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from parachuted.errors import ParachuteError

if TYPE_CHECKING:
    from parachuted.modules.registry.manifest import Manifest

TrustLevel: TypeAlias = Literal["verified", "trusted", "untrusted"]
FolderState: TypeAlias = Literal["new", "approved", "changed", "missing", "broken"]


class ApprovalRefusedError(ParachuteError):
    """That was not approved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleEntry:
    """One module as modules.yaml and its folder tell of it.

    The digests are those of the folder's bytes, as `read_tree` makes them: `found_digest` is
    what a person names to approve it. `state` compares the two. A module that is `changed`,
    `missing` or `broken` in its folder still runs as approved, if it is enabled and `problem` is
    None or about the folder alone: `ModuleApprovals.ready` decides. `notes` say what is no problem
    and yet to be known, such as why an official module is not verified; `narrowed` are the agents
    that modules.yaml names.
    """

    name: str
    folder: Path
    source: str = ""
    version: str = ""
    trust: TrustLevel = "untrusted"
    enabled: bool = False
    approved_digest: str | None = None
    found_digest: str | None = None
    state: FolderState = "broken"
    problem: str | None = None
    is_dev: bool = False
    notes: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedModule:
    """A module that may run, as it was approved. Its copy was verified just now and is read-only.

    `digest` is the approval's (files, permissions, locked dependencies), `tree` that of the files,
    which `loading.load_class` holds the copy against once more. `import_paths` belong at the end of
    `sys.path`. `overrides` are the `agents:` of modules.yaml, which may only narrow; `config` is
    its `config:`, and `config_lines` the line of each of its keys, dotted. `lists_all`: its
    manifest has to name all that its code declares.
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
    config_lines: Mapping[str, int] = field(default_factory=dict, compare=False)
    is_dev: bool = False
    lists_all: bool = True


_EVERYTHING = frozenset({"**", "**/*"})


def reads_any_note(manifest: Manifest, trust: TrustLevel) -> bool:
    """Whether the module may be given words that may quote any note."""
    return trust != "untrusted" or not _EVERYTHING.isdisjoint(manifest.permissions.read)
