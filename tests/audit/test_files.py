from __future__ import annotations

import os
import re
import stat

import pytest

from parachuted.audit.chain import START, ChainPosition
from parachuted.audit.files import (
    AuditFolder,
    ChainHead,
    ChainHeadFile,
    machine_name,
    make_machine_name,
)
from parachuted.vault import VaultRoot
from tests.audit.audit_rig import AuditRig, event

DAY = "2026-11-22"


def test_a_day_is_a_file_for_its_owner_alone(rig):
    rig.folder.append(DAY, b"one\n", durably=True)
    rig.file().chmod(0o666)  # as a sync program may
    rig.folder.append(DAY, b"two\n", durably=False)

    assert rig.file().read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(rig.file().stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "place", [".parachute", ".parachute/audit", f".parachute/audit/{DAY}.laptop.jsonl"]
)
def test_no_link_is_followed(rig, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "target").write_text("mine\n")
    link = rig.vault / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / "target" if place.endswith("jsonl") else outside)

    with pytest.raises(OSError):  # noqa: PT011  each system has its own number for it
        rig.folder.append(DAY, b"one\n", durably=False)

    assert [path.name for path in outside.iterdir()] == ["target"]
    assert (outside / "target").read_text() == "mine\n"


def test_a_file_with_a_second_name_and_a_pipe_are_not_written(rig):
    rig.folder.append(DAY, b"one\n", durably=False)
    note = rig.vault / "note.md"
    os.link(rig.file(), note)
    os.mkfifo(rig.file("2026-11-23"))

    for day in (DAY, "2026-11-23"):
        with pytest.raises(OSError, match="not a file of its own"):
            rig.folder.append(day, b"two\n", durably=False)

    assert note.read_bytes() == b"one\n"


def test_what_a_kill_cut_is_ended_and_other_files_are_no_days(rig):
    assert (rig.folder.days(), rig.reader.end()) == ([], START)
    rig.folder.append(DAY, b"one\n", durably=False)
    with rig.file().open("ab") as file:
        file.write(b"tor")
    rig.folder.append(DAY, b"two\n", durably=False)
    for name in ("notes.md", "2026-11-2.laptop.jsonl", f"{DAY}.jsonl", f"{DAY}.laptop.jsonl.bak"):
        rig.file().with_name(name).write_text("")

    assert rig.file().read_bytes() == b"one\ntor\ntwo\n"
    assert rig.folder.days() == [DAY]


def test_a_full_disk_leaves_no_part_of_what_did_not_fit(rig, monkeypatch):
    rig.folder.append(DAY, b"one\n", durably=False)
    write, calls = os.write, []

    def fill(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:3])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space left"):
        rig.folder.append(DAY, b"a longer line\n", durably=False)

    assert rig.file().read_bytes() == b"one\n"


def test_the_head_says_what_it_was_given_and_never_grows(tmp_path):
    head = ChainHeadFile(tmp_path / "head")
    assert head.read() is None

    sure, pending = ChainPosition(10**18, "f" * 64), ChainPosition(10**18 + 1, "e" * 64)
    for standing in (ChainHead(), ChainHead(sure=sure, pending=pending, write=10**15)):
        head.write(standing)
        assert head.read() == standing
        assert (tmp_path / "head").stat().st_size == 512
    for text in ("", "null", "[]", "{", '{"sure": [], "begun": [], "write": 0}', "\0" * 512):
        (tmp_path / "head").write_text(text)
        assert head.read() is None


def test_two_machines_have_a_file_each(rig):
    rig.write(event("GET /here"))
    other = AuditRig(vault=rig.vault, home=rig.home / "other")
    other.home.mkdir()
    other.folder = AuditFolder(VaultRoot(rig.vault), "desktop-2")
    other.write(event("GET /there"))
    other.write(event("GET /again"))

    names = sorted(file.name for file in (rig.vault / ".parachute/audit").iterdir())
    assert names == ["2026-11-22.desktop-2.jsonl", "2026-11-22.laptop.jsonl"]
    assert [one.verdict().findings for one in (rig, other)] == [[], []]
    assert [one.verdict().last_seq for one in (rig, other)] == [1, 2]


def test_a_machines_name_is_kept_though_the_host_is_renamed(home, monkeypatch):
    assert machine_name(home) == ""
    monkeypatch.setattr("socket.gethostname", lambda: "Anna's Laptop.local")
    name = make_machine_name(home)
    monkeypatch.setattr("socket.gethostname", lambda: "renamed")

    assert re.fullmatch(r"anna-s-laptop-[0-9a-f]{6}", name)
    assert make_machine_name(home) == machine_name(home) == name
