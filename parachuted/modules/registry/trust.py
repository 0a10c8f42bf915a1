"""How far a module is trusted: what an approval covers, what its trust allows, and whether a
release key signed its files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from pathlib import Path

from parachuted.heavy import load_heavy_here
from parachuted.modules.registry.approved import ApprovalRefusedError, TrustLevel, reads_any_note
from parachuted.modules.registry.copies import ModuleTree
from parachuted.modules.registry.install import OFFICIAL
from parachuted.modules.registry.manifest import Manifest, manifest_document
from parachuted.modules.registry.module_registry import ModuleRecord

LISTED, SHOWN = 2, 1  # approvals of this version, and of those that showed what the code declares
_KEYS_FILE = Path(__file__).with_name("release_keys.txt")


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
    tree: str, manifest: Manifest, lock: Sequence[str], version: int = LISTED
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


def trust_level(
    keys: Collection[str], record: ModuleRecord, tree: ModuleTree, wanted: TrustLevel | None
) -> TrustLevel:
    """A signature makes it verified, unless less is wanted.

    Without one it is what it was, but never verified.
    """
    if wanted != "untrusted" and is_released(tree, tree.signature, keys):
        return "verified"
    if wanted == "verified":
        raise ApprovalRefusedError(
            f"{record.name} is not signed by the makers of parachuted, so it cannot be verified"
        )
    return wanted or ("untrusted" if record.trust == "verified" else record.trust)


def unverified(keys: Collection[str], record: ModuleRecord, tree: ModuleTree) -> tuple[str, ...]:
    """Why a module that says it is official is not verified."""
    if not (tree.signature or record.source.startswith(OFFICIAL)):
        return ()
    if not keys:
        return ("not verified: this build of parachuted carries no release key",)
    if not tree.signature:
        return ("not verified: it has no file SIGNATURE",)
    if is_released(tree, tree.signature, keys):
        return ()
    return ("not verified: its SIGNATURE is not of these files by a release key of this build",)
