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
    end_of_lines,
    machine_name,
    make_machine_name,
)
from parachuted.audit.reader import AuditReader
from parachuted.vault import VaultRoot
from tests.audit.audit_rig import AuditRig, event

DAY = "2026-11-22"


def test_a_day_is_a_file_for_its_owner_alone(audit_rig):
    audit_rig.folder.append(DAY, b"one\n", durably=True)
    audit_rig.folder.append(DAY, b"two\n", durably=False)

    assert audit_rig.file().read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(audit_rig.file().stat().st_mode) == 0o600
    assert audit_rig.folder.days() == [DAY]


def test_a_file_that_a_sync_program_opened_to_all_is_closed_again(audit_rig):
    audit_rig.folder.append(DAY, b"one\n", durably=False)
    audit_rig.file().chmod(0o666)

    audit_rig.folder.append(DAY, b"two\n", durably=False)

    assert stat.S_IMODE(audit_rig.file().stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "place", [".parachute", ".parachute/audit", f".parachute/audit/{DAY}.jsonl"]
)
def test_no_link_is_followed(audit_rig, tmp_path, place):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "target").write_text("mine\n")
    link = audit_rig.vault / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / "target" if place.endswith("jsonl") else outside)

    with pytest.raises(OSError):  # noqa: PT011  each system has its own number for it
        audit_rig.folder.append(DAY, b"one\n", durably=False)

    assert [path.name for path in outside.iterdir()] == ["target"]
    assert (outside / "target").read_text() == "mine\n"


def test_a_file_that_has_a_second_name_is_not_written(audit_rig):
    audit_rig.folder.append(DAY, b"one\n", durably=False)
    note = audit_rig.vault / "note.md"
    os.link(audit_rig.file(), note)

    with pytest.raises(OSError, match="not a file of the audit alone"):
        audit_rig.folder.append(DAY, b"two\n", durably=False)

    assert note.read_bytes() == b"one\n"


def test_a_pipe_in_a_files_place_holds_no_one_up(audit_rig):
    audit_rig.file().parent.mkdir(parents=True)
    os.mkfifo(audit_rig.file())

    with pytest.raises(OSError, match="not a file of the audit alone"):
        audit_rig.folder.append(DAY, b"one\n", durably=False)


@pytest.mark.parametrize(
    "other", ["a file in its place", "a line more", "a line less", "a link in its place", "nothing"]
)
def test_a_file_that_was_changed_between_two_writes_is_looked_at_again(audit_rig, tmp_path, other):
    audit_rig.folder.append(DAY, b"one\n", durably=False)
    audit_rig.folder.append(DAY, b"two\n", durably=False)
    (tmp_path / "file").write_bytes(b"else\n")
    match other:
        case "a file in its place":
            (tmp_path / "file").replace(audit_rig.file())
        case "a line more" | "a line less":
            audit_rig.file().write_bytes(
                b"one\n" if other == "a line less" else b"one\ntwo\nmore\n"
            )
        case _:
            audit_rig.file().unlink()
    before = audit_rig.file().read_bytes() if audit_rig.file().exists() else b""
    if other == "a link in its place":
        audit_rig.file().symlink_to(tmp_path / "file")
        with pytest.raises(OSError):  # noqa: PT011  each system has its own number for it
            audit_rig.folder.append(DAY, b"three\n", durably=False)
        assert (tmp_path / "file").read_bytes() == b"else\n"
        return

    assert audit_rig.folder.append(DAY, b"three\n", durably=False)
    assert audit_rig.file().read_bytes() == before + b"three\n"


def test_what_stands_after_the_last_end_is_moved_into_a_file_of_its_own(audit_rig):
    audit_rig.folder.append(DAY, b"one\n", durably=False)
    with audit_rig.file().open("ab") as file:
        file.write(b"tor")

    assert audit_rig.folder.is_torn(DAY)
    assert not audit_rig.folder.append(DAY, b"two\n", durably=False)
    torn = audit_rig.folder.set_torn_aside(DAY)

    assert (torn.size, torn.name) == (3, f"{DAY}.torn-1")
    assert audit_rig.folder.append(DAY, b"two\n", durably=False)
    assert audit_rig.file().read_bytes() == b"one\ntwo\n"
    assert audit_rig.file().with_name(torn.name).read_bytes() == b"tor"


def test_each_torn_end_has_a_name_of_its_own_and_goes_with_its_day(audit_rig):
    for part in (b"a", b"b" * 200_000):
        audit_rig.folder.append(DAY, b"line\n", durably=False)
        with audit_rig.file().open("ab") as file:
            file.write(part)
        audit_rig.folder.set_torn_aside(DAY)

    assert sorted(os.listdir(audit_rig.file().parent)) == [  # noqa: PTH208
        f"{DAY}.jsonl",
        f"{DAY}.torn-1",
        f"{DAY}.torn-2",
    ]
    audit_rig.folder.remove(DAY)
    assert list(audit_rig.file().parent.iterdir()) == []


def test_other_files_in_the_folder_are_no_days(audit_rig):
    audit_rig.folder.append(DAY, b"one\n", durably=False)
    for name in ("notes.md", "2026-11-2.jsonl", f"{DAY}.jsonl.bak", f"{DAY}.sync-conflict-1.jsonl"):
        audit_rig.file().with_name(name).write_text("")

    assert audit_rig.folder.days() == [DAY]


def test_a_full_disk_leaves_no_part_of_what_did_not_fit(audit_rig, monkeypatch):
    audit_rig.folder.append(DAY, b"one\n", durably=False)
    write, calls = os.write, []

    def fill(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:3])

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match="No space left"):
        audit_rig.folder.append(DAY, b"a longer line\n", durably=False)

    assert audit_rig.file().read_bytes() == b"one\n"


def test_the_last_end_is_found_however_far_back(tmp_path):
    path = tmp_path / "file"
    for text, end in (
        (b"", 0),
        (b"abc", 0),
        (b"a\nb", 2),
        (b"a\n" + b"x" * 200_000, 2),
        (b"a\n", 2),
    ):
        path.write_bytes(text)
        with path.open("rb") as file:
            assert end_of_lines(file.fileno(), len(text)) == end


def test_the_head_says_what_it_was_given_and_never_grows(tmp_path):
    head = ChainHeadFile(tmp_path / "head")
    assert head.read() is None

    for standing in (
        ChainHead(),
        ChainHead(
            sure=ChainPosition(10**18, "f" * 64),
            begun=ChainPosition(10**18 + 1, "e" * 64),
            write=10**15,
        ),
    ):
        head.write(standing)
        assert head.read() == standing
        assert (tmp_path / "head").stat().st_size == 512


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"sure": [], "begun": [], "write": 0}', "\0" * 512]
)
def test_a_garbled_head_is_none(tmp_path, text):
    (tmp_path / "head").write_text(text)

    assert ChainHeadFile(tmp_path / "head").read() is None


def test_the_folder_that_is_not_there_has_no_days(audit_rig: AuditRig):
    assert audit_rig.folder.days() == []
    assert audit_rig.reader.last_link() == START


def test_two_machines_have_a_file_each_and_earlier_ones_go_on_with_who_wrote_them(audit_rig):
    audit_rig.fill(days=2)
    ends = audit_rig.reader.last_link()
    (audit_rig.vault / ".parachute/audit/2026-11-21.torn-1").write_text("torn")
    audit_rig.folder = AuditFolder(VaultRoot(audit_rig.vault), "laptop-1")
    audit_rig.write(event("GET /after"))

    names = sorted(file.name for file in (audit_rig.vault / ".parachute/audit").iterdir())
    assert names == [
        "2026-11-21.laptop-1.jsonl",
        "2026-11-21.laptop-1.torn-1",
        "2026-11-22.laptop-1.jsonl",
    ]
    assert audit_rig.verdict().findings == []
    assert AuditReader(audit_rig.folder).last_link().seq == ends.seq + 1

    other = AuditRig(vault=audit_rig.vault, home=audit_rig.home / "other")
    other.home.mkdir()
    other.folder = AuditFolder(VaultRoot(audit_rig.vault), "desktop-2")
    other.write(event("GET /there"))
    assert other.verdict().findings == audit_rig.verdict().findings == []
    assert other.verdict().last.seq == 1


def test_files_without_a_machines_name_that_this_machine_did_not_write_are_left_alone(audit_rig):
    audit_rig.fill(days=1)
    other = AuditRig(vault=audit_rig.vault, home=audit_rig.home / "other")
    other.home.mkdir()
    other.folder = AuditFolder(VaultRoot(audit_rig.vault), "desktop-2")
    other.write(event("GET /there"))
    other.write(event("GET /again"))

    assert sorted(file.name for file in (audit_rig.vault / ".parachute/audit").iterdir()) == [
        "2026-11-22.desktop-2.jsonl",
        "2026-11-22.jsonl",
    ]
    assert (audit_rig.verdict().findings, other.verdict().findings) == ([], [])


def test_a_machines_name_is_kept_though_the_host_is_renamed(home, monkeypatch):
    assert machine_name(home) == ""
    monkeypatch.setattr("socket.gethostname", lambda: "Anna's Laptop.local")
    name = make_machine_name(home)
    monkeypatch.setattr("socket.gethostname", lambda: "renamed")

    assert re.fullmatch(r"anna-s-laptop-[0-9a-f]{6}", name)
    assert make_machine_name(home) == machine_name(home) == name
