from __future__ import annotations

import errno
import os

import pytest

from parachuted.search.indexed_note import LARGEST
from parachuted.search.indexer import read_notes
from parachuted.vault import VaultRoot, digest_of


def test_notes_are_read_and_what_is_gone_or_no_file_is_none(vault):
    (vault / "a").mkdir()
    (vault / "a/x.md").write_text("beans")
    (vault / "a/folder.md").mkdir()
    (vault / "link.md").symlink_to(vault / "a/x.md")

    indexed_notes = dict(
        read_notes(VaultRoot(vault), ["a/x.md", "a/none.md", "none/x.md", "a/folder.md", "link.md"])
    )

    assert indexed_notes.pop("a/x.md").digest == digest_of(b"beans")
    assert indexed_notes == {
        "a/none.md": None,
        "none/x.md": None,
        "a/folder.md": None,
        "link.md": None,
    }


def test_a_large_note_has_the_digest_of_all_of_it(vault):
    data = b"word " * (LARGEST // 5 + 10)
    (vault / "large.md").write_bytes(data)
    (vault / "middle.md").write_bytes(data[: LARGEST // 2])

    indexed_notes = dict(read_notes(VaultRoot(vault), ["large.md", "middle.md"]))

    assert (indexed_notes["large.md"].digest, indexed_notes["large.md"].size) == (
        digest_of(data),
        len(data),
    )
    assert (indexed_notes["middle.md"].digest, indexed_notes["middle.md"].reason) == (
        digest_of(data[: LARGEST // 2]),
        None,
    )


def test_a_vault_that_is_not_there_is_an_error_and_no_lack_of_notes(vault):
    root = VaultRoot(vault)
    vault.rmdir()

    with pytest.raises(OSError, check=lambda error: error.errno == errno.ESTALE):
        list(read_notes(root, ["a.md"]))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_note_that_cannot_be_read_has_a_card_that_says_so(vault):
    (vault / "a.md").write_text("beans")
    (vault / "a.md").chmod(0)

    ((_path, indexed_note),) = read_notes(VaultRoot(vault), ["a.md"])

    assert "cannot be read" in indexed_note.reason
