"""Every file of a folder has a part in one digest, what is not a plain file is refused in words,
and what runs is a private copy that no one may write.
"""

from __future__ import annotations

import hashlib
import os
import socket

import pytest

from parachuted.errors import UnfitError
from parachuted.modules.registry.copies import (
    ApprovedCopies,
    copy_tree,
    read_tree,
    remove_tree,
)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "mod"
    (made / "inner").mkdir(parents=True)
    (made / "a.py").write_text("a")
    (made / "inner" / "run").write_text("b")
    (made / "inner" / "run").chmod(0o755)
    return made


@pytest.fixture
def copies(home) -> ApprovedCopies:
    return ApprovedCopies(home)


def keep(copies, folder):
    with copies.copied("mod", folder) as copy:
        copies.keep("mod", copy)
    return copies.place("mod", copy.digest), copy.digest


def test_the_digest_is_of_names_modes_and_bytes_and_of_nothing_else(folder):
    first = read_tree(folder)
    lines = [
        f"{mode} 1 {hashlib.sha256(text).hexdigest()} {path}\n"
        for mode, path, text in ((644, "a.py", b"a"), (755, "inner/run", b"b"))
    ]
    whole = hashlib.sha256("".join(["parachute-tree-1\n", *lines]).encode()).hexdigest()
    assert (first.digest, first.size) == (f"sha256:{whole}", 2)
    os.utime(folder / "a.py", (1, 1))
    (folder / "a.py").chmod(0o600)
    (folder / "empty").mkdir()
    assert read_tree(folder).digest == first.digest

    digests = {first.digest}
    for change in (
        lambda: (folder / "a.py").chmod(0o755),
        lambda: (folder / "a.py").rename(folder / "c.py"),
        lambda: (folder / "c.py").write_text("c"),
        lambda: (folder / "inner" / "run").rename(folder / "run"),
        lambda: (folder / "inner" / "more").write_text("x"),
    ):
        change()
        digests.add(read_tree(folder).digest)
    assert len(digests) == 6


def test_names_that_are_ignored_are_neither_read_nor_copied(folder, tmp_path):
    names = {".git", "__pycache__"}
    before = read_tree(folder).digest
    (folder / ".git").mkdir()
    (folder / ".git" / "link").symlink_to("/etc/passwd")
    (folder / "inner" / "__pycache__").mkdir()

    assert read_tree(folder, ignored=names).digest == before
    copy_tree(folder, tmp_path / "copy", ignored=names)
    assert read_tree(tmp_path / "copy").digest == before


def make_socket(folder):
    here = os.getcwd()  # noqa: PTH109  a socket's path must be short
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
    finally:
        os.chdir(here)


REFUSED = {
    "link": (lambda folder: (folder / "l").symlink_to("a.py"), "l is a link"),
    "link to a folder": (lambda folder: (folder / "l").symlink_to("inner"), "l is a link"),
    "dangling link": (lambda folder: (folder / "l").symlink_to("nowhere"), "l is a link"),
    "pipe": (lambda folder: os.mkfifo(folder / "pipe"), "pipe is a link, or no plain"),
    "socket": (make_socket, "socket is a link, or no plain"),
    "line break": (lambda folder: (folder / "a\nb").write_text(""), "invisible characters"),
    "bidi": (lambda folder: (folder / "a\u202eyp.b").write_text(""), "invisible characters"),
    "not UTF-8": (lambda folder: (folder / os.fsdecode(b"\xff")).write_text(""), "not in UTF-8"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_part_of_a_module_is_neither_read_nor_copied(folder, kind, tmp_path):
    make, reported = REFUSED[kind]
    make(folder)

    with pytest.raises(UnfitError, match=reported):
        read_tree(folder)
    with pytest.raises(UnfitError, match=reported):
        copy_tree(folder, tmp_path / "copy")


def test_what_is_too_large_behind_a_link_or_missing_is_refused(folder, tmp_path):
    (folder / "inner" / "large").write_text("x" * 2_000_000)
    (tmp_path / "top").symlink_to(folder)
    (tmp_path / "way").symlink_to(tmp_path)
    whole = (100, 10**9)
    for place, limits, says in (
        (folder, (100, 1_000_000), "more than 1 MB"),
        (folder, (3, 10**9), "more than 3 files"),
        (tmp_path / "top", whole, "is a link"),
        (tmp_path / "way" / "mod", whole, "is a link"),
        (tmp_path / "nowhere", whole, "there is no folder .*nowhere"),
        (folder / "a.py", whole, r"a\.py cannot be read"),
    ):
        with pytest.raises(UnfitError, match=says):
            read_tree(place, limits=limits)


def test_a_copy_is_the_same_tree_that_no_one_may_write(copies, folder, home):
    with copies.copied("mod", folder):
        pass
    assert list((home / "modules").iterdir()) == [], "it was not kept"
    place, digest = keep(copies, folder)

    assert place == home / "modules" / "mod" / digest.removeprefix("sha256:")[:12]
    assert copies.read("mod", digest).digest == digest == read_tree(folder).digest
    modes = {path: (place / path).stat().st_mode & 0o777 for path in ("", "inner", "a.py")}
    assert modes == {"": 0o555, "inner": 0o555, "a.py": 0o444}
    assert (place / "inner/run").stat().st_mode & 0o777 == 0o555
    before = place.stat().st_ino
    keep(copies, folder)
    assert place.stat().st_ino == before, "what is there is kept"

    (place / "a.py").chmod(0o644)
    (place / "a.py").write_text("evil")
    with pytest.raises(UnfitError, match="approve the module again"):
        copies.read("mod", digest)
    keep(copies, folder)
    assert (place / "a.py").read_text() == "a", "what is damaged is mended"


def test_only_what_is_named_is_left_and_of_what_cannot_be_copied_nothing(copies, folder, home):
    first, _digest = keep(copies, folder)
    (folder / "a.py").write_text("b")
    second, _digest = keep(copies, folder)
    copies.prune("mod", [second.name])
    assert (first.exists(), second.exists()) == (False, True)
    copies.prune("mod", [])
    assert not copies.folder("mod").exists()
    copies.prune("mod", [])
    (folder / "link").symlink_to("a.py")
    with pytest.raises(UnfitError), copies.copied("mod", folder):
        pass
    assert list((home / "modules").iterdir()) == []


def test_removing_follows_no_link(tmp_path, folder):
    (tmp_path / "holder").mkdir()
    for link in (tmp_path / "holder" / "link", tmp_path / "top"):
        link.symlink_to(folder)
    for place in (tmp_path / "holder", tmp_path / "top", tmp_path / "nowhere"):
        remove_tree(place)
        assert not place.is_symlink()
        assert not place.exists()
    assert (folder / "a.py").exists()
