"""Whether a module's files are those of an official release. Signature code is loaded only
when needed.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from parachuted.heavy import load_heavy_here

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
