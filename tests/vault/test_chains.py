"""Chains: what a run wrote, without what others wrote in between."""

from __future__ import annotations

from parachuted.vault.author import Author
from parachuted.vault.chains import wrote
from parachuted.vault.paths import VaultPath
from parachuted.vault.root import digest_of


def test_a_written_file_shows_its_difference_even_when_it_is_new(rig):
    rig.store.create(VaultPath("note.md"), b"a\n", Author(by="curator", run="r-1"))
    (entry,) = wrote(rig.history.writes_by("r-1"), rig.history, rig.objects)

    assert (entry["path"], entry["before"], entry["after"]) == ("note.md", None, digest_of(b"a\n"))
    assert "+a\n" in str(entry["diff"])
