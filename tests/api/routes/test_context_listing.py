"""Context listing: it follows the index."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from parachuted.api.routes.contexts import ContextListing
from parachuted.context import context_folders
from parachuted.vault import IndexEntry, VaultIndex

PATHS = [
    f"{folder}{name}"
    for folder in ("", "a/", "a/b/", "c/")
    for name in ("AGENTS.md", "CLAUDE.md", "note.md")
]


def entry(size: int) -> IndexEntry:
    return IndexEntry(0, 0, size, 1, "d")


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.none() | st.integers(0, 20)), max_size=25))
def test_at_any_moment_it_tells_what_one_made_now_would_tell(changes):
    index = VaultIndex()
    listing = ContextListing(index)
    for path, size in changes:
        index.set(path, None if size is None else entry(size))
        assert listing.folders() == context_folders(index)
