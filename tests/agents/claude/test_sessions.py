"""Which sessions can be resumed; what of a container's HOME is kept: a transcript, if that is
what stands there.
"""

from __future__ import annotations

import os
import socket
import time

import pytest

from parachuted.agents.claude.sessions import SandboxTranscripts, is_session_id

ID = "1fc24940-e003-48b0-b21b-70563efaaa39"


class TranscriptFolders:
    """The private folder, this machine's HOME of the CLI, and a container's."""

    def __init__(self, folder):
        self.kept, self.host, self.box = folder / "boxed", folder / "host", folder / "box"
        self.box.mkdir()
        self.place = self.box / ".claude" / "projects" / "-vault"
        self.sessions = SandboxTranscripts(self.kept, self.host)

    def in_container(self):
        self.place.mkdir(parents=True, exist_ok=True)
        return self.place / f"{ID}.jsonl"


@pytest.fixture
def folders(tmp_path):
    return TranscriptFolders(tmp_path)


def test_a_transcript_goes_out_and_comes_into_the_next_box_and_nothing_else_does(folders, tmp_path):
    folders.in_container().write_text("{}\n")
    (folders.box / ".bashrc").write_text("evil")
    (folders.place / "other.jsonl").write_text("evil")
    folders.sessions.keep(ID, folders.box)
    next_box = tmp_path / "next"
    next_box.mkdir()

    assert folders.sessions.bring_in(ID, next_box)
    assert [
        path.relative_to(next_box).as_posix() for path in next_box.rglob("*") if path.is_file()
    ] == [f".claude/projects/-vault/{ID}.jsonl"]
    assert [path.name for path in folders.kept.iterdir()] == [f"{ID}.jsonl"]
    assert (folders.kept / f"{ID}.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_session_of_this_machine_goes_on_in_a_box_and_one_of_a_box_never_on_this_machine(folders):
    folder = folders.host / ".claude" / "projects" / "-somewhere"
    folder.mkdir(parents=True)
    (folder / f"{ID}.jsonl").write_text("of the host")

    assert folders.sessions.bring_in(ID, folders.box)
    assert folders.in_container().read_text() == "of the host"

    folders.in_container().write_text("of the box")
    folders.sessions.keep(ID, folders.box)
    assert (folder / f"{ID}.jsonl").read_text() == "of the host"
    folders.in_container().unlink()
    assert folders.sessions.bring_in(ID, folders.box)
    assert folders.in_container().read_text() == "of the box"


def test_what_the_box_is_given_belongs_to_who_works_there(folders):
    if os.getuid() == 0:
        os.chown(folders.box, 1000, 1000)
    folders.in_container().write_text("{}\n")
    folders.sessions.keep(ID, folders.box)
    folders.in_container().unlink()
    folders.sessions.bring_in(ID, folders.box)

    owner = folders.box.stat().st_uid
    assert {
        path.stat().st_uid for path in (folders.in_container(), folders.place, folders.place.parent)
    } == {owner}


def test_an_unknown_session_is_not_brought(folders):
    assert not folders.sessions.bring_in(ID, folders.box)
    assert list(folders.box.iterdir()) == []


def link(path, target):
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def hard_link(path, target):
    path.unlink(missing_ok=True)
    path.hardlink_to(target)


def pipe(path, _target):
    os.mkfifo(path)


def listener(path, _target):
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)
        made.bind(path.name)


def huge(path, _target):
    with path.open("wb") as file:
        file.truncate(1 << 40)


def folder(path, _target):
    path.mkdir()


@pytest.mark.parametrize("make", [link, hard_link, pipe, listener, huge, folder])
def test_what_is_not_a_plain_transcript_is_left_where_it_is(folders, tmp_path, monkeypatch, make):
    secret = tmp_path / "secret"
    secret.write_text("a key")
    monkeypatch.chdir(tmp_path)
    make(folders.in_container(), secret)
    began = time.monotonic()
    folders.sessions.keep(ID, folders.box)

    assert not folders.kept.exists()
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("name", [".claude", ".claude/projects", ".claude/projects/-vault"])
def test_a_folder_on_the_way_that_is_a_link_leads_nowhere(folders, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    inner = elsewhere.joinpath(*[".claude", "projects", "-vault"][name.count("/") + 1 :])
    inner.mkdir(parents=True)
    (inner / f"{ID}.jsonl").write_text("a key")
    (folders.box / name).parent.mkdir(parents=True, exist_ok=True)
    (folders.box / name).symlink_to(elsewhere)
    folders.sessions.keep(ID, folders.box)

    assert not folders.kept.exists()


def test_old_ones_are_forgotten(folders):
    folders.in_container().write_text("{}\n")
    folders.kept.mkdir()
    old = folders.kept / "0fc24940-e003-48b0-b21b-70563efaaa39.jsonl"
    old.write_text("{}")
    os.utime(old, (1, 1))
    folders.sessions.keep(ID, folders.box)

    assert [path.name for path in folders.kept.iterdir()] == [f"{ID}.jsonl"]


def test_a_disk_that_refuses_costs_the_session_and_not_the_run(folders, caplog):
    folders.in_container().write_text("{}\n")
    folders.kept.write_text("a file where the folder should be")
    folders.sessions.keep(ID, folders.box)

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
