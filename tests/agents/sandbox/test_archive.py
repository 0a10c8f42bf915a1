"""What comes back from a container: whatever its programs left, only files count."""

from __future__ import annotations

import io
import os
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from parachuted.agents.sandbox.archive import ArchiveReader, ArchiveWriter, LeftOut

OWNER = (1000, 1001)


def packed(tmp_path: Path, *members: tuple[str, bytes, bytes]) -> Path:
    """An archive as the engine packs it: name, type and content of each member of the folder."""
    archive = tmp_path / "returned.tar"
    with tarfile.open(archive, "w") as tar:
        for name, kind, data in (("", tarfile.DIRTYPE, b""), *members):
            member = tarfile.TarInfo(f"./{name}")
            member.type, member.size, member.linkname = kind, len(data), "/etc/passwd"
            tar.addfile(member, io.BytesIO(data))
    return archive


def read(archive: Path, **limits: int) -> tuple[dict[str, bytes], LeftOut]:
    left_out = LeftOut()
    with closing(ArchiveReader(archive)) as reader:
        files = reader.files(left_out, **{"most": 100, "largest": 100, **limits})
        return dict(files), left_out


def test_what_was_put_in_is_its_owners_and_comes_back_as_it_was(tmp_path: Path):
    names = ["a.md", "deep/er/b.md", "deep/c.png", "x" * 200 + "/" + "y" * 200, "\udcff.md", "é ü"]
    archive = tmp_path / "notes.tar"
    with closing(ArchiveWriter(archive, OWNER)) as writer:
        for name in names:
            writer.add(name, os.fsencode(name))

    assert read(archive, largest=1_000)[0] == {name: os.fsencode(name) for name in names}
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
    assert {(member.uid, member.gid) for member in members} == {OWNER}
    assert {oct(member.mode) for member in members} == {"0o600", "0o700"}
    assert len({member.name for member in members}) == len(members)


def test_what_is_only_to_be_read_is_roots_and_never_looks_compressed(tmp_path: Path):
    archive = tmp_path / "outside.tar"
    with closing(ArchiveWriter(archive, None)) as writer:
        writer.add("BZh notes.md", b"a")
        writer.add("1/a.txt", b"a")

    assert archive.read_bytes().startswith(b"./BZh notes.md\0")
    with tarfile.open(archive) as tar:
        modes = [(one.uid, oct(one.mode)) for one in tar]
    assert modes == [(0, "0o444"), (0, "0o555"), (0, "0o444")]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
def test_what_is_not_a_file_is_left_and_said_and_was_not_deleted(tmp_path: Path, kind: bytes):
    files, left_out = read(packed(tmp_path, ("a.md", kind, b"")))

    assert (files, left_out.why) == ({}, {"a.md": "it is not a plain file"})
    assert not left_out.is_known("a.md")
    assert not left_out.is_known("a.md/below.md")
    assert left_out.is_known("b.md")


def test_what_begins_with_a_dot_is_counted_once_and_not_read(tmp_path: Path):
    members = [
        *[(f"{name}", tarfile.DIRTYPE, b"") for name in (".git", ".git/hooks", "a")],
        *[(f"{name}", tarfile.REGTYPE, b"x") for name in (".git/config", "a/.env", "a/b.md")],
    ]
    files, left_out = read(packed(tmp_path, *members))

    assert (files, left_out.hidden, left_out.why) == ({"a/b.md": b"x"}, 2, {})


@pytest.mark.parametrize("name", ["../b.md", "a/../b.md", "a\n.md", "d/" * 121 + "b.md"])
def test_names_that_are_none_for_a_note_are_left(tmp_path: Path, name: str):
    files, left_out = read(packed(tmp_path, (f"{name}", tarfile.REGTYPE, b"x")))

    assert files == {}
    assert len(left_out.why) == (".." not in name)


def test_more_members_than_are_looked_at_leave_the_rest_unknown(tmp_path: Path):
    hidden = [(f".git/{number}", tarfile.REGTYPE, b"") for number in range(9)]
    few = [(f"{number}.md", tarfile.REGTYPE, bytes(101 * (number == 0))) for number in range(4)]
    files, left_out = read(packed(tmp_path, *hidden, *few), most=4)

    assert list(files) == ["1.md", "2.md", "3.md"]
    assert (left_out.hidden, list(left_out.why)) == (0, ["0.md"])  # which is too large

    many = [(f"{number}.md", tarfile.REGTYPE, b"") for number in range(9)]
    files, left_out = read(packed(tmp_path, *many), most=4)
    assert len(files) == 4
    assert "more than 4 files" in left_out.why[""]
    assert not left_out.is_known("8.md")


@pytest.mark.parametrize("length", [0, 100, 512, 700, 1_100, 1_536])
def test_one_that_is_cut_off_is_an_error_and_not_a_vault_without_notes(tmp_path: Path, length: int):
    archive = packed(tmp_path, ("a.md", tarfile.REGTYPE, b"x" * 90))
    os.truncate(archive, length)

    with pytest.raises(OSError, match="cannot be read"):
        read(archive)


def test_a_member_that_cannot_be_read_is_an_error_and_not_the_end_of_notes(tmp_path: Path):
    members = [(f"{number}.md", tarfile.REGTYPE, b"") for number in range(3)]
    archive = packed(tmp_path, *members)
    with archive.open("r+b") as file:
        file.seek(2 * tarfile.BLOCKSIZE)
        file.write(b"rubbish")

    with pytest.raises(OSError, match="cannot be read"):
        read(archive)


def test_a_name_at_which_python_stumbles_is_an_error_in_words(tmp_path: Path):
    """Python 3.11 and 3.12 look for an encoding everywhere in what belongs to a name."""
    archive = tmp_path / "returned.tar"
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("./a\n9 hdrcharset=\udcff\n.md"))

    try:
        files, left_out = read(archive)
    except OSError as error:
        assert "cannot be read" in str(error)  # noqa: PT017  one or the other
    else:
        assert (files, len(left_out.why)) == ({}, 1)
