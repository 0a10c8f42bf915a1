"""Baseline texts: what watched files say is stored before it changes."""

from __future__ import annotations

from pathlib import Path

from parachuted.bubbling.watches import store_texts
from parachuted.vault import ObjectStore, VaultPath, VaultRoot, digest_of


def test_a_text_too_large_to_keep_is_not_kept(tmp_path: Path):
    objects = ObjectStore(tmp_path / "objects")
    large = b"x" * ((4 << 20) + 1)
    texts = [(VaultPath("a.md"), digest_of(large), large), (VaultPath("b.md"), None, None)]
    store_texts(VaultRoot(tmp_path), objects, texts)

    assert digest_of(large) not in objects
    objects.close()
