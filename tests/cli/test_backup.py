"""Backups: made while a daemon works, brought back to a vault and a home that are as they were."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import shutil
import sqlite3
import stat
import tarfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.cli import backup, main
from tests.cli.command_line import CommandLine

FILE, LINK, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE
QUICK = {"PARACHUTE_BUBBLE_QUIET_S": "0.05"}


def edit(command_line: CommandLine, old: str, new: str) -> str:
    """Save the garden's note, and wait for the run that follows; its name."""
    command_line.save("Projects/garden/AGENTS.md", old, new)
    command_line.until(
        lambda: command_line.json("runs")["runs"] and not command_line.json("tasks")["tasks"]
    )
    return str(command_line.json("runs")["runs"][0]["id"])


def contents(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.lstat().st_mode),
            os.readlink(path) if path.is_symlink() else path.read_bytes(),  # noqa: PTH115
        )
        for path in folder.rglob("*")
        if (path.is_file() or path.is_symlink()) and ".parachute" not in path.parts
    }


@contextlib.contextmanager
def writing_on(command_line: CommandLine) -> Iterator[None]:
    """Meanwhile, files of the vault are written, on the disk and over the API."""
    record = json.loads((command_line.home / "run/daemon.json").read_bytes())
    done = threading.Event()

    def write_on() -> None:
        for number in itertools.count():
            (command_line.vault / f"note-{number % 50}.md").write_text(f"# {number}\n")
            note = f"http://127.0.0.1:{record['port']}/api/notes/note-api-{number % 50}.md"
            asked = urllib.request.Request(note, f"# {number}\n".encode(), method="PUT")
            urllib.request.urlopen(asked, timeout=10).close()  # noqa: S310
            if done.wait(0.01):
                return

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


@pytest.mark.timeout(900)  # a dozen commands and two daemons
def test_a_backup_of_a_daemon_at_work_brings_all_of_it_back(
    command_line: CommandLine, tmp_path: Path
):
    command_line.does("init", str(command_line.vault))
    command_line.start(**QUICK)
    run = edit(command_line, "Start the tomatoes indoors", "Plant the tomatoes out")
    (command_line.vault / "link.md").symlink_to("AGENTS.md")
    (command_line.vault / "private.bin").write_bytes(b"\xff mine")
    (command_line.vault / "private.bin").chmod(0o600)
    command_line.does("keys", "create", "phone")
    with writing_on(command_line):
        said = command_line.does("backup", "all.tar.gz")
    command_line.does("stop")
    assert said.startswith(f"Wrote {tmp_path / 'all.tar.gz'}: ")
    assert stat.S_IMODE((tmp_path / "all.tar.gz").stat().st_mode) == 0o600
    vault, home = contents(command_line.vault), contents(command_line.home)
    shutil.rmtree(command_line.vault)
    shutil.rmtree(command_line.home)

    said = command_line.does("restore", "all.tar.gz")
    assert f"Restored {command_line.vault} and {command_line.home}" in said

    restored = contents(command_line.vault)
    for files in (vault, restored):  # a write that was under way has a file of its own
        for name in [name for name in files if name.startswith(("note-", ".parachute-"))]:
            del files[name]
    assert restored == vault
    assert contents(command_line.home)["keys.yaml"] == home["keys.yaml"]
    for database in command_line.home.rglob("*.db"):
        with contextlib.closing(sqlite3.connect(database)) as opened:
            assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",), database
    command_line.start(**QUICK)
    said = command_line.does("doctor")
    for part in ("All is well", f"sqlite   {sqlite3.sqlite_version}", "database history.db: ver"):
        assert part in said
    command_line.does("audit", "verify")
    assert run in command_line.does("why", "AGENTS.md")
    assert "changed AGENTS.md" in command_line.does("undo", run, "--yes")


def test_a_note_that_is_moved_or_saved_meanwhile_is_whole_in_the_archive(
    command_line: CommandLine, tmp_path: Path, monkeypatch
):
    """Moved from the folder that is read last to the one that is read first."""
    for folder in ("a", "z"):
        (command_line.vault / folder).mkdir()
        for name in ("first", "late"):
            (command_line.vault / folder / f"{name}.md").write_text(f"# {name} in {folder}\n")
    (command_line.vault / "saved.md").write_text("# Old, and much longer\n")
    command_line.does("vault", "set", str(command_line.vault))
    add, copy, seen = backup._add, shutil.copyfileobj, list[Path]()

    def add_and_move(tar: tarfile.TarFile, name: str, path: Path) -> None:
        add(tar, name, path)
        if path.name == "first.md" and not seen:
            seen.append(path.with_name("moved.md"))
            other = {"a": "z", "z": "a"}[path.parent.name]
            (command_line.vault / other / "late.md").rename(seen[0])

    def copy_and_save(source, target) -> None:
        if str(source.name).endswith("vault/saved.md") and source.read(5) == b"# Old":
            target.write(b"# Old")
            (command_line.vault / "saved.md").write_text("# New\n")
        source.seek(0)
        copy(source, target)

    monkeypatch.setattr(backup, "_add", add_and_move)
    monkeypatch.setattr(backup.shutil, "copyfileobj", copy_and_save)
    monkeypatch.chdir(tmp_path)
    assert main(["backup", "all.tar.gz"]) == 0
    monkeypatch.undo()

    command_line.does("restore", "all.tar.gz", "--replace")
    assert seen[0].read_text().startswith("# late in ")
    assert (command_line.vault / "saved.md").read_text() == "# New\n"


def test_a_restore_puts_nothing_over_what_is_there_unless_asked_to(
    command_line: CommandLine, tmp_path: Path
):
    note = command_line.vault / "a.md"
    note.write_text("# A\n")
    command_line.does("vault", "set", str(command_line.vault))
    command_line.does("backup", "all.tar.gz")
    note.write_text("# Later\n")

    stays = f"{command_line.vault} is not empty, and stays as it is"
    assert stays in command_line.fails(1, "restore", "all.tar.gz")
    assert note.read_text() == "# Later\n"

    command_line.does("restore", "all.tar.gz", "--replace")
    assert note.read_text() == "# A\n"
    (aside,) = tmp_path.glob("vault.before-restore-*/a.md")
    assert aside.read_text() == "# Later\n"

    elsewhere = tmp_path / "elsewhere"
    shutil.rmtree(command_line.home)
    command_line.does("restore", "all.tar.gz", "--vault", str(elsewhere))
    assert (elsewhere / "a.md").read_text() == "# A\n"
    assert command_line.json("vault")["vault"] == str(elsewhere)

    (tmp_path / "file").write_text("no folder")
    below = ["--replace", "--vault", str(tmp_path / "file/vault")]
    complaint = command_line.fails(1, "restore", "all.tar.gz", *below)
    assert "nothing was restored, and what was there is in its place" in complaint
    assert command_line.json("vault")["vault"] == str(elsewhere)


def test_a_backup_that_cannot_be_is_refused_in_a_sentence(
    command_line: CommandLine, tmp_path: Path
):
    command_line.does("vault", "set", str(command_line.vault))
    (tmp_path / "there.tar.gz").write_bytes(b"mine")

    for words, why in (
        (["backup", str(command_line.vault / "x.tar.gz")], "name a file elsewhere"),
        (["backup", "there.tar.gz"], "there already"),
        (["backup", "nowhere/all.tar.gz"], "nowhere; no backup was written"),
        (["restore", "there.tar.gz"], "is not a complete backup"),
        (["restore", "none", "--replace"], "go with a backup"),
    ):
        said = command_line.fails(1, *words)
        assert (why in said, "partial" in said) == (True, False), said
    command_line.start(**QUICK)
    assert "`parachute stop`, then try again" in command_line.fails(1, "restore", "there.tar.gz")


def make_archive(path: Path, vault: Path, entries: list[tuple[str, bytes, str]], **more: object):
    """An archive as `parachute backup` writes it, of entries: name, tar type, text or target."""
    listed = {"format": 1, "made": "", "vault": str(vault), "home": "", **more}
    with tarfile.open(path, "w:gz") as tar:
        for name, kind, text in [*entries, ("backup.json", FILE, json.dumps(listed))]:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = kind, 0o755
            data = text.encode() if kind == FILE else b""
            entry.size, entry.linkname = len(data), "" if data else text
            tar.addfile(entry, io.BytesIO(data))


@pytest.mark.parametrize(
    "entries",
    [
        [("vault/../out.md", FILE, "x")],
        [("home//out.md", FILE, "x")],
        [("vault/a", LINK, "OUT"), ("vault/a/out.md", FILE, "x")],
        [("vault/a", LINK, "OUT"), ("vault/a/out.md", LINK, "x")],
        [("vault/a.md", tarfile.LNKTYPE, "OUT")],
        [("vault/a.md", tarfile.FIFOTYPE, "")],
        [("elsewhere/a.md", FILE, "x")],
    ],
    ids=lambda entries: entries[-1][0],
)
def test_an_archive_that_leads_out_of_its_folders_restores_nothing(
    command_line: CommandLine, tmp_path: Path, capsys, entries: list[tuple[str, bytes, str]]
):
    outside = tmp_path / "outside"
    outside.mkdir()
    make_archive(
        tmp_path / "bad.tar.gz",
        tmp_path / "new",
        [(name, kind, text.replace("OUT", str(outside))) for name, kind, text in entries],
    )

    assert main(["restore", str(tmp_path / "bad.tar.gz")]) == 1
    assert "cannot be restored safely" in capsys.readouterr().err
    assert not list(outside.iterdir())
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "out.md").exists()


def test_any_name_of_a_file_and_of_the_archive_comes_back(
    command_line: CommandLine, tmp_path: Path
):
    names = [b"caf\xe9.md", "n" * 250 + ".md", "a\\b\n.md", " .md", "日本.md"]
    for name in names:
        Path(os.fsdecode(command_line.vault), os.fsdecode(name)).write_text("x")
    command_line.does("vault", "set", str(command_line.vault))
    command_line.does("backup", "all.saved")

    command_line.does("restore", "all.saved", "--replace")

    assert {os.fsencode(path.name) for path in command_line.vault.iterdir()} == set(
        map(os.fsencode, names)
    )


def test_a_folder_that_cannot_be_listed_is_not_left_out_of_a_backup(
    command_line: CommandLine, monkeypatch
):
    monkeypatch.chdir(command_line.vault)
    for _ in range(18):  # a path longer than the system takes
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    Path("a.md").write_text("# A")
    monkeypatch.chdir(command_line.folder)
    command_line.does("vault", "set", str(command_line.vault))

    assert "no backup was written" in command_line.fails(1, "backup", "all.tar.gz")
    assert not list(command_line.folder.glob("all.tar.gz*"))


def test_an_archive_that_is_no_whole_backup_changes_nothing(
    command_line: CommandLine, tmp_path: Path
):
    (command_line.vault / "a.md").write_text("# A\n")
    command_line.does("vault", "set", str(command_line.vault))
    command_line.does("backup", "whole.tar.gz")
    cut, listless, foreign = (tmp_path / f"bad-{name}.tar.gz" for name in "abc")
    cut.write_bytes((tmp_path / "whole.tar.gz").read_bytes()[:-100])
    make_archive(listless, command_line.vault, [], made=None)
    with tarfile.open(foreign, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("vault/a.md"))

    for archive in (cut, listless, foreign):
        complaint = command_line.fails(1, "restore", archive.name, "--replace")
        assert f"{archive.name} is not a complete backup" in complaint
    assert (command_line.vault / "a.md").read_text() == "# A\n"
