"""Which texts are kept."""

from __future__ import annotations

from types import SimpleNamespace

from parachuted.history.kept_texts import KeptTexts
from parachuted.vault import IndexEntry, VaultIndex


async def test_the_texts_of_the_vault_its_reviews_and_its_suggestions_are_needed_and_no_others():
    index, kept = VaultIndex(), []
    for path, digest in (("Folder/a.md", "a"), ("b.bin", None)):
        index.set(path, IndexEntry(mtime_ns=1, ctime_ns=1, size=1, inode=1, digest=digest))
    texts = KeptTexts(
        index=index,
        reviews=SimpleNamespace(digests=lambda: {"reviewed"}),
        suggestions=SimpleNamespace(bases=lambda: {"suggested"}),
        objects=SimpleNamespace(forget_seen=kept.append),
    )
    texts.forget_unneeded()

    assert await texts.needed() == {"a", "reviewed", "suggested"}
    assert kept == [{"a", "reviewed"}]
