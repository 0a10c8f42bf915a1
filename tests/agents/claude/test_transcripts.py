"""Which sessions can be resumed; what of a container's HOME is kept: a transcript, if that is
what stands there.
"""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from parachuted.agents.claude import containers
from parachuted.agents.claude.containers import SandboxTranscripts, is_session_id

ID = "1fc24940-e003-48b0-b21b-70563efaaa39"


class TranscriptFolders:
    """The private folder, this machine's HOME of the CLI, and the archive of a container's."""

    def __init__(self, folder):
        self.kept, self.host, self.archive = folder / "boxed", folder / "host", folder / "home.tar"
        self.sessions = SandboxTranscripts(self.kept, self.host)

    def left(self, data=b"", kind=tarfile.REGTYPE):
        """The engine has read it in the container."""
        with tarfile.open(self.archive, "w") as archive:
            member = tarfile.TarInfo(f"{ID}.jsonl")
            member.type, member.size, member.linkname = kind, len(data), "/etc/passwd"
            archive.addfile(member, io.BytesIO(data))

    def brought(self):
        assert self.sessions.bring_in(ID, self.archive, (1000, 1001))
        with tarfile.open(self.archive) as archive:
            members = archive.getmembers()
            assert {(member.uid, member.gid) for member in members} == {(1000, 1001)}
            return {
                member.name: archive.extractfile(member).read()
                for member in members
                if member.isreg()
            }


@pytest.fixture
def folders(tmp_path):
    return TranscriptFolders(tmp_path)


def test_a_transcript_goes_into_the_next_container_and_old_ones_go(folders):
    folders.left(b"{}\n")
    folders.kept.mkdir()
    old = folders.kept / "0fc24940-e003-48b0-b21b-70563efaaa39.jsonl"
    old.write_text("{}")
    os.utime(old, (1, 1))
    folders.sessions.keep(ID, folders.archive)

    assert folders.brought() == {f"./.claude/projects/-vault/{ID}.jsonl": b"{}\n"}
    assert [path.name for path in folders.kept.iterdir()] == [f"{ID}.jsonl"]
    assert (folders.kept / f"{ID}.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_session_of_this_machine_goes_on_in_a_container_and_not_back(folders):
    assert not folders.sessions.bring_in(ID, folders.archive, (1, 1))  # it is not known yet
    assert not folders.archive.exists()
    folder = folders.host / ".claude" / "projects" / "-somewhere"
    folder.mkdir(parents=True)
    (folder / f"{ID}.jsonl").write_text("of the host")

    assert list(folders.brought().values()) == [b"of the host"]

    folders.left(b"of the container")
    folders.sessions.keep(ID, folders.archive)
    assert (folder / f"{ID}.jsonl").read_text() == "of the host"
    assert list(folders.brought().values()) == [b"of the container"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_what_is_not_a_plain_transcript_is_left(folders, kind):
    folders.left(kind=kind)
    folders.sessions.keep(ID, folders.archive)

    assert not folders.kept.exists()


def test_one_that_is_too_large_or_cut_off_is_left(folders, monkeypatch):
    folders.left(b"x" * 1_000)
    monkeypatch.setattr(containers, "_LARGEST_TRANSCRIPT", 999)
    folders.sessions.keep(ID, folders.archive)
    monkeypatch.undo()
    os.truncate(folders.archive, 600)
    folders.sessions.keep(ID, folders.archive)

    assert not folders.kept.exists()


def test_a_disk_that_refuses_costs_the_session_and_not_the_run(folders, caplog):
    folders.left(b"{}\n")
    folders.kept.write_text("a file where the folder should be")
    folders.sessions.keep(ID, folders.archive)

    assert "the agent's session is not kept" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        f"{ID}\n",
        f"../{ID}",
        "*",
        ID.upper(),
        f"{ID} --dangerously-skip-permissions",
        "\u0661fc24940-e003-48b0-b21b-70563efaaa39",
    ],
)
def test_only_a_uuid_is_a_session(text):
    assert is_session_id(ID)
    assert not is_session_id(text)
