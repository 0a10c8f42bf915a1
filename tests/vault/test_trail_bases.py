"""Which texts an edit of a file may be decided on: those that stood there, and those of where it
was for who may see that place.
"""

from __future__ import annotations

from contextlib import closing

from parachuted.vault import Author, ObjectStore, VaultPath, digest_of
from parachuted.vault.trail import KnownBases
from tests.vault.conftest import StoreRig

NOTE = VaultPath("Shop/a.md")
ME = Author(by="person")


def test_a_text_is_a_base_where_it_stood_and_nowhere_else(rig: StoreRig):
    base = rig.put(NOTE, "one\n")
    assert rig.store.bases.text(NOTE, base) == b"one\n"
    assert rig.store.bases.text("Shop/b.md", base) is None
    assert rig.store.bases.text("Shop/b.md", base, lambda _path: True) is None


def test_what_was_written_replaced_and_noticed_there_stood_there(rig: StoreRig):
    (rig.vault / "Shop").mkdir()
    (rig.vault / NOTE).write_text("one\n")
    rig.store.replace(NOTE, b"two\n", ME)
    rig.objects.put(b"three\n")
    rig.history.saw(rig.now, [(NOTE, "modified", None, digest_of(b"three\n"))])
    for text in (b"one\n", b"two\n", b"three\n"):
        assert rig.store.bases.text(NOTE, digest_of(text)) == text


def test_a_text_of_before_a_move_is_one_for_who_sees_that_place(rig: StoreRig):
    base = rig.put("Open/a.md", "one\n")
    rig.store.replace(VaultPath("Open/a.md"), b"two\n", ME)
    rig.store.move(VaultPath("Open/a.md"), NOTE, ME)
    bases = rig.store.bases
    assert bases.text(NOTE, base) is None
    assert bases.text(NOTE, base, lambda path: path.startswith("Shop/")) is None
    assert bases.text(NOTE, base, lambda path: path.startswith("Open/")) == b"one\n"
    assert bases.text(NOTE, digest_of(b"two\n")) == b"two\n"  # it came with this text


def test_names_that_are_no_utf8_are_remembered_and_a_restart_forgets_none(rig: StoreRig, home):
    path = "Shop/\udcff.md"
    rig.store.bases.see([(path, b"one\n")])
    rig.objects.close()
    with closing(ObjectStore(home / "objects")) as again:
        assert KnownBases(again, rig.history).text(path, digest_of(b"one\n")) == b"one\n"
        again.forget_seen([digest_of(b"one\n")])
        assert again.has_stood(path, digest_of(b"one\n"))


def test_a_disk_that_refuses_remembers_as_long_as_the_program_runs(rig: StoreRig):
    rig.objects.close()
    rig.objects.stood([(NOTE, "0" * 64)])
    assert rig.objects.has_stood(NOTE, "0" * 64)
    assert not rig.objects.has_stood("Shop/b.md", "0" * 64)
