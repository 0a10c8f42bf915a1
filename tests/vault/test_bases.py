"""Which texts an edit of a file may be decided on: those that stood there, and those of where it
was for who may see that place.
"""

from __future__ import annotations

from parachuted.vault import Author, KnownBases, ObjectStore, VaultPath, digest_of
from tests.vault.conftest import Shelf

NOTE = VaultPath("Shop/a.md")
ME = Author(by="person")


def test_a_text_is_a_base_where_it_stood_and_nowhere_else(shelf: Shelf):
    base = shelf.put(NOTE, "one\n")
    assert shelf.store.bases.text(NOTE, base) == b"one\n"
    assert shelf.store.bases.text("Shop/b.md", base) is None
    assert shelf.store.bases.text("Shop/b.md", base, lambda _path: True) is None


def test_what_was_written_replaced_and_noticed_there_stood_there(shelf: Shelf):
    (shelf.vault / "Shop").mkdir()
    (shelf.vault / NOTE).write_text("one\n")
    shelf.store.replace(NOTE, b"two\n", ME)
    shelf.objects.put(b"three\n")
    shelf.history.saw(shelf.now, [(NOTE, "modified", None, digest_of(b"three\n"))])
    for text in (b"one\n", b"two\n", b"three\n"):
        assert shelf.store.bases.text(NOTE, digest_of(text)) == text


def test_a_text_of_before_a_move_is_one_for_who_sees_that_place(shelf: Shelf):
    base = shelf.put("Open/a.md", "one\n")
    shelf.store.replace(VaultPath("Open/a.md"), b"two\n", ME)
    shelf.store.move(VaultPath("Open/a.md"), NOTE, ME)
    bases = shelf.store.bases
    assert bases.text(NOTE, base) is None
    assert bases.text(NOTE, base, lambda path: path.startswith("Shop/")) is None
    assert bases.text(NOTE, base, lambda path: path.startswith("Open/")) == b"one\n"
    assert bases.text(NOTE, digest_of(b"two\n")) == b"two\n"  # it came with this text


def test_names_that_are_no_utf8_are_remembered_and_a_restart_forgets_none(shelf: Shelf, home):
    path = "Shop/\udcff.md"
    shelf.store.bases.see([(path, b"one\n")])
    shelf.objects.close()
    again = ObjectStore(home / "objects")
    try:
        assert KnownBases(again, shelf.history).text(path, digest_of(b"one\n")) == b"one\n"
        again.forget_seen([digest_of(b"one\n")])
        assert again.has_stood(path, digest_of(b"one\n"))
    finally:
        again.close()


def test_a_disk_that_refuses_remembers_as_long_as_the_program_runs(shelf: Shelf):
    shelf.objects.close()
    shelf.objects.stood([(NOTE, "0" * 64)])
    assert shelf.objects.has_stood(NOTE, "0" * 64)
    assert not shelf.objects.has_stood("Shop/b.md", "0" * 64)
