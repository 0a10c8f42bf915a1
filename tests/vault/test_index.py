"""Index: what is remembered of the vault, and what becomes of its copy on disk."""

from __future__ import annotations

import errno
import json
import os
import sys
import zlib

import pytest

from parachuted.vault.index import IndexEntry, IndexSnapshot, VaultIndex
from tests.index_entries import changed

LATIN_1 = os.fsdecode(b"caf\xe9.md")


def entry(number: int, digest: str | None = None) -> IndexEntry:
    return IndexEntry(mtime_ns=number, ctime_ns=number, size=number, inode=number, digest=digest)


def index_of(*paths: str) -> VaultIndex:
    index = VaultIndex()
    for number, path in enumerate(paths):
        index.set(path, entry(number))
    return index


def held(index: VaultIndex | None) -> dict[str, IndexEntry | None]:
    assert index is not None
    return {path: index.get(path) for path in index.paths()}


@pytest.fixture
def snapshot(home):
    snapshot = IndexSnapshot(home)
    yield snapshot
    snapshot.close()


def test_what_was_set_is_there_until_it_is_set_to_nothing():
    index = index_of("a.md", "Projects/b.md")
    assert index.get("Projects/b.md") == entry(1)
    assert (len(index), set(index.paths())) == (2, {"a.md", "Projects/b.md"})
    index.set("Projects/b.md", None)
    assert (index.get("Projects/b.md"), len(index), "Projects" in index) == (None, 1, True)


def test_forgetting_what_was_never_known_changes_nothing():
    index = VaultIndex()
    index.set("nowhere/a.md", None)
    index.drop_folder("nowhere")
    assert (len(index), index.all_folders(), list(index.files("nowhere"))) == (0, [""], [])


def test_a_deep_file_makes_its_folders_known_and_a_dropped_one_takes_all():
    index = index_of("a/b/c/d.md", "ab/z.md")
    assert sorted(index.all_folders()) == ["", "a", "a/b", "a/b/c", "ab"]
    assert (list(index.folders("a")), list(index.files("a/b/c"))) == (["b"], ["d.md"])
    index.drop_folder("a")
    assert (list(index.paths()), index.all_folders()) == (["ab/z.md"], ["", "ab"])


def test_agents_md_is_the_context_file_and_claude_md_only_without_it():
    index = index_of("a/CLAUDE.md", "a/notes.md", "AGENTS.md", "b/agents.md")
    assert [index.context_file(folder) for folder in ("", "a", "b", "c")] == [
        "AGENTS.md",
        "a/CLAUDE.md",
        None,
        None,
    ]
    index.set("a/AGENTS.md", entry(1))
    assert index.context_file("a") == "a/AGENTS.md"
    asked = ("a/AGENTS.md", "a/CLAUDE.md", "a/notes.md")
    assert [index.is_context_file(path) for path in asked] == [True, False, False]


def test_entries_are_compared_by_digest_and_unread_ones_by_size_and_time():
    assert entry(1, "aa").same_content(entry(2, "aa"))
    for one, other in (
        (entry(1, "aa"), entry(1, "bb")),
        (entry(1, "aa"), entry(1)),
        (entry(1), None),
    ):
        assert not one.same_content(other)
    assert entry(1).same_content(changed(entry(1), inode=9, ctime_ns=9))
    assert not entry(1).same_content(changed(entry(1), size=2))
    assert not entry(1).same_content(changed(entry(1), mtime_ns=2))


def test_a_snapshot_brings_back_files_of_every_name_and_empty_folders(snapshot, home):
    index = index_of("a.md", "🌱/b.md", LATIN_1)
    index.add_folder("empty/er")
    snapshot.save(index)
    loaded = IndexSnapshot(home).load()
    assert held(loaded) == held(index)
    assert set(loaded.all_folders()) == set(index.all_folders())


def test_what_was_appended_is_replayed_and_a_new_snapshot_empties_the_log(snapshot, home):
    assert (snapshot.load(), snapshot.problem) == (None, None)
    index = index_of("a.md", "b.md")
    snapshot.save(index)
    index.set("a.md", None)
    index.set("c/d.md", entry(7, "aa"))
    snapshot.append([("a.md", None), ("c/d.md", entry(7, "aa"))], index)
    assert held(IndexSnapshot(home).load()) == {"b.md": entry(1), "c/d.md": entry(7, "aa")}
    snapshot.save(index)
    assert not (home / "snapshot.log").exists()
    assert held(IndexSnapshot(home).load()) == {"b.md": entry(1), "c/d.md": entry(7, "aa")}


def test_folders_with_a_context_file_are_known(snapshot, home):
    index = index_of("b/AGENTS.md", "b/c/CLAUDE.md", "a/note.md", "AGENTS.md", "b/CLAUDE.md")
    assert index.context_folders() == ["", "b", "b/c"]
    snapshot.save(index)
    loaded = IndexSnapshot(home).load()
    assert loaded is not None
    assert loaded.context_folders() == ["", "b", "b/c"]
    for path in ("b/AGENTS.md", "b/c/CLAUDE.md", "AGENTS.md", "nowhere/AGENTS.md"):
        loaded.set(path, None)
    assert loaded.context_folders() == ["b"]
    loaded.drop_folder("b")
    assert loaded.context_folders() == []


def test_a_line_that_a_crash_cut_short_spoils_no_other(snapshot, home):
    snapshot.save(VaultIndex())
    (home / "snapshot.log").write_bytes(b'["a.md", [1, 1, 1, 1, null]]\n["b.md", [2, 2')
    snapshot.append([("c.md", entry(3))], VaultIndex())
    assert held(IndexSnapshot(home).load()) == {"a.md": entry(1), "c.md": entry(3)}


def test_a_log_that_has_grown_too_long_becomes_a_snapshot(snapshot, home):
    index = index_of("a.md")
    (home / "snapshot.log").write_bytes(b"\n" * (8 << 20))
    snapshot.append([("a.md", entry(0))], index)
    assert not (home / "snapshot.log").exists()
    assert held(IndexSnapshot(home).load()) == held(index)


def test_a_snapshot_cut_at_any_byte_is_set_aside_and_said(snapshot, home):
    snapshot.save(index_of("a.md", "b/c.md"))
    base = home / "snapshot.json"
    whole = base.read_bytes()
    for length in range(len(whole)):
        base.write_bytes(whole[:length])
        again = IndexSnapshot(home)
        assert again.load() is None, length
        assert again.problem is not None
        assert (home / "snapshot.garbled").read_bytes() == whole[:length]
        assert not base.exists()


def test_a_snapshot_with_any_byte_changed_is_not_believed(snapshot, home):
    index = index_of("a.md")
    snapshot.save(index)
    whole = (home / "snapshot.json").read_bytes()
    for place in range(len(whole)):
        (home / "snapshot.json").write_bytes(
            whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        )
        again = IndexSnapshot(home)
        assert again.load() is None or held(again.load()) == held(index), place


@pytest.mark.parametrize(
    "line",
    [
        b"5",
        b"[1, 2, 3]",
        b'["a.md", [1]]',
        b"[7, null]",
        b'{"a": 1, "b": 2}',
        b"[" * 200_000,
        b"\xff\x00",
    ],
)
def test_a_garbled_log_never_stops_the_start(snapshot, home, line):
    snapshot.save(index_of("a.md"))
    (home / "snapshot.log").write_bytes(line + b"\n")
    again = IndexSnapshot(home)
    loaded = again.load()
    assert again.problem is not None if loaded is None else held(loaded) == {"a.md": entry(0)}


def test_a_save_that_fails_leaves_the_last_one_and_nothing_half_written(snapshot, home):
    snapshot.save(index_of("a.md"))
    (home / "snapshot.tmp").symlink_to("/dev/full")
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        snapshot.save(index_of("b.md"))
    assert not (home / "snapshot.tmp").is_symlink()
    assert held(IndexSnapshot(home).load()) == {"a.md": entry(0)}


def test_an_entry_gives_back_its_values_and_takes_little_memory(tmp_path):
    (tmp_path / "a.md").write_text("a")
    status = (tmp_path / "a.md").stat()

    known = IndexEntry.of(status, "0" * 64)

    assert (known.mtime_ns, known.ctime_ns) == (status.st_mtime_ns, status.st_ctime_ns)
    assert (known.size, known.inode, known.digest) == (1, status.st_ino, "0" * 64)
    assert IndexEntry(*known.values()) == known
    assert IndexEntry(-1, 0, 0, 2**64 - 1, None).values() == (-1, 0, 0, 2**64 - 1, None)
    assert sys.getsizeof(known) <= 160
    assert known.has_status(status)
    os.utime(tmp_path / "a.md", ns=(1, 1))
    assert not known.has_status((tmp_path / "a.md").stat())


def test_a_snapshot_whose_values_fit_into_no_entry_is_set_aside(tmp_path):
    payload = json.dumps({"": {"a.md": [2**64, 0, 0, 0, None]}}).encode()
    (tmp_path / "snapshot.json").write_bytes(b"1 %08x\n" % zlib.crc32(payload) + payload)
    snapshot = IndexSnapshot(tmp_path)

    assert snapshot.load() is None
    assert "set aside" in snapshot.problem
