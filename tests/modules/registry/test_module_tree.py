"""Every file of a folder, read once, with one digest; whatever is not a plain file is refused in
words.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from pathlib import Path

import pytest

from parachuted.modules.registry.module_tree import (
    KeepingSink,
    TreeLimits,
    TreeMissingError,
    TreeRefusedError,
    read_one,
    read_tree,
)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "mod"
    (made / "inner").mkdir(parents=True)
    (made / "a.py").write_text("a")
    (made / "inner" / "b").write_text("b")
    return made


def test_the_digest_is_of_names_modes_and_bytes_and_of_nothing_else(folder):
    first = read_tree(folder)
    assert [(file.path, file.mode, file.size) for file in first.files] == [
        ("a.py", 0o644, 1),
        ("inner/b", 0o644, 1),
    ]
    assert first.size == 2
    lines = [
        f"644 1 {hashlib.sha256(text).hexdigest()} {path}\n"
        for path, text in (("a.py", b"a"), ("inner/b", b"b"))
    ]
    assert (
        first.digest
        == f"sha256:{hashlib.sha256(''.join(['parachute-tree-1', chr(10), *lines]).encode()).hexdigest()}"  # noqa: E501
    )
    os.utime(folder / "a.py", (1, 1))
    (folder / "a.py").chmod(0o600)
    (folder / "empty").mkdir()
    assert read_tree(folder).digest == first.digest

    digests = {first.digest}
    (folder / "a.py").chmod(0o755)
    digests.add(read_tree(folder).digest)
    (folder / "a.py").chmod(0o644)
    (folder / "a.py").rename(folder / "c.py")
    digests.add(read_tree(folder).digest)
    (folder / "c.py").write_text("c")
    digests.add(read_tree(folder).digest)
    (folder / "inner" / "b").rename(folder / "b")
    digests.add(read_tree(folder).digest)
    assert len(digests) == 5


def test_a_signature_at_the_top_is_not_part_of_what_it_signs_but_one_below_is(folder):
    before = read_tree(folder).digest
    (folder / "SIGNATURE").write_text("x")
    assert read_tree(folder).digest == before
    (folder / "inner" / "SIGNATURE").write_text("x")
    assert read_tree(folder).digest != before


def test_who_takes_the_bytes_is_given_those_that_were_hashed(folder):
    keeping = KeepingSink(lambda path: path.startswith("inner/"), largest=10)
    (folder / "inner" / "large").write_text("x" * 11)

    read_tree(folder, sink=keeping)
    assert keeping.kept == {"inner/b": b"b"}


def test_names_that_are_ignored_are_neither_read_nor_given_to_anyone(folder):
    before = read_tree(folder).digest
    (folder / ".git").mkdir()
    (folder / ".git" / "link").symlink_to("/etc/passwd")
    (folder / "inner" / "__pycache__").mkdir()
    (folder / "inner" / "__pycache__" / "b.pyc").write_text("")

    assert read_tree(folder, ignored={".git", "__pycache__"}).digest == before


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
    "hard link": (lambda folder: (folder / "l").hardlink_to(folder / "a.py"), "is a hard link"),
    "pipe": (lambda folder: os.mkfifo(folder / "pipe"), "pipe is not a plain file"),
    "socket": (make_socket, "socket is not a plain file"),
    "setuid": (lambda folder: (folder / "a.py").chmod(0o4755), "lends rights"),
    "case twins": (lambda folder: (folder / "A.py").write_text(""), "one file to some systems"),
    "folder and its twin": (lambda folder: (folder / "Inner").mkdir(), "one file to some systems"),
    "twins in normal forms": (
        lambda folder: [(folder / name).write_text("") for name in ("é", "e\u0301")],
        "one file to some systems",
    ),
    "sharp s": (
        lambda folder: [(folder / name).write_text("") for name in ("ß", "ss")],
        "one file to some systems",
    ),
    "line break": (lambda folder: (folder / "a\nb").write_text(""), "invisible characters"),
    "bidi": (lambda folder: (folder / "a\u202eyp.b").write_text(""), "invisible characters"),
    "not UTF-8": (lambda folder: (folder / os.fsdecode(b"\xff")).write_text(""), "not UTF-8"),
    "deep": (lambda folder: (folder / "/".join("d" * 30)).mkdir(parents=True), "folders deep"),
    "long": (
        lambda folder: (folder / "/".join(["d" * 200] * 6)).mkdir(parents=True),
        "too long a path",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_part_of_a_module_is_refused_in_words(folder, kind):
    make, reported = REFUSED[kind]
    make(folder)

    with pytest.raises(TreeRefusedError, match=reported):
        read_tree(folder)


def test_it_stops_at_its_limits_of_names_and_of_bytes(folder):
    (folder / "inner" / "large").write_text("x" * 2_000_000)
    with pytest.raises(TreeRefusedError, match="more than 1 MB"):
        read_tree(folder, limits=TreeLimits(size=1_000_000))
    with pytest.raises(TreeRefusedError, match="more than 3 files"):
        read_tree(folder, limits=TreeLimits(names=3))


def test_no_link_on_the_way_to_the_folder_is_followed_below_the_root(folder, tmp_path):
    (tmp_path / "way").symlink_to(tmp_path)
    with pytest.raises(TreeRefusedError, match="way is a link"):
        read_tree(tmp_path / "way" / "mod", root=tmp_path)
    (tmp_path / "top").symlink_to(folder)
    with pytest.raises(TreeRefusedError, match="top is a link"):
        read_tree(tmp_path / "top")
    assert read_tree(tmp_path / "way" / "mod", root=tmp_path / "way").files


def test_a_folder_that_is_not_there_is_missing_and_a_file_is_none(folder, tmp_path):
    with pytest.raises(TreeMissingError):
        read_tree(tmp_path / "nowhere")
    with pytest.raises(TreeRefusedError, match="no folder"):
        read_tree(folder / "a.py")


def test_one_file_is_read_on_the_same_terms(folder):
    assert read_one(folder, "a.py", limit=10) == b"a"
    assert read_one(folder, "nothing", limit=10) is None
    (folder / "l").symlink_to("a.py")
    (folder / "large").write_text("x" * 11)
    for name in ("l", "large", "inner"):
        with pytest.raises(TreeRefusedError):
            read_one(folder, name, limit=10)


def test_no_descriptor_is_left_open_by_what_was_refused(folder):
    make_socket(folder / "inner")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with pytest.raises(TreeRefusedError):
            read_tree(folder)

    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert stat.S_ISSOCK((folder / "inner" / "socket").stat().st_mode)
