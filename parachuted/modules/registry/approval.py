"""What an approval covers: a module's files, the permissions that they declare, and its packages.

Pure. The permissions are already part of the files; they count again as they were understood, so
that a later version that reads more into the same words asks again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from parachuted.modules.registry.manifest import Manifest, manifest_document


def approval_digest(tree: str, manifest: Manifest, lock: Sequence[str]) -> str:
    """What modules.yaml records as `hash`."""
    said = {
        "approval": 1,
        "tree": tree,
        "permissions": _permissions(manifest),
        "lock": sorted(lock),
    }
    return f"sha256:{hashlib.sha256(_canonical(said)).hexdigest()}"


def _permissions(manifest: Manifest) -> object:
    """Those that came later count where they are asked for: what was approved before stays so."""
    found = manifest_document(manifest)["permissions"]
    later = () if manifest.permissions.folders else ("folders",)
    return {name: one for name, one in found.items() if name not in later}  # type: ignore[attr-defined]


def is_no_wider(manifest: Manifest, approved: Manifest) -> bool:
    """Whether one asks for exactly what the other was given, apart from the code.

    A folder under development may change its code without asking.
    """
    mine, its = manifest_document(manifest), manifest_document(approved)
    return manifest.name == approved.name and all(
        _canonical(mine[part]) == _canonical(its[part])
        for part in ("permissions", "dependencies", "agents")
    )


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
