"""Context listing: it follows the index, and remakes nothing that is as it was."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from parachuted.api.routes.contexts import ContextListing
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
        assert listing.body() == ContextListing(index).body()
        assert listing.seen(lambda _path: True) == json.loads(listing.body())
        assert listing.seen(lambda path: path.startswith("a/")) == ContextListing(index).seen(
            lambda path: path.startswith("a/")
        )


def test_only_the_folder_that_changed_is_made_again():
    index = VaultIndex()
    for path in ("a/AGENTS.md", "b/AGENTS.md"):
        index.set(path, entry(4))
    listing = ContextListing(index)
    body, (first, second) = listing.body(), listing.seen(bool)["folders"]
    assert listing.body() is body
    index.set("b/AGENTS.md", entry(400))

    after = listing.seen(bool)["folders"]
    assert after[0] is first
    assert (second["tokens"], after[1]["tokens"]) == (1, 100)
