"""Backups: made while a daemon works, brought back to a vault and a home that are as they were."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sqlite3
import stat
import tarfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from parachuted.cli import main
from tests.cli.typed import Typed

QUICK = {"PARACHUTE_BUBBLE_QUIET_S": "0.05"}


def start(typed: Typed) -> None:
    typed.does("start", "--vault", str(typed.vault), "--port", "0", **QUICK)


def edit(typed: Typed, old: str, new: str) -> str:
    """Save the garden's note, and wait for the run that follows; its name."""
    before = len(typed.json("runs")["runs"])
    typed.save("Projects/garden/AGENTS.md", old, new)
    typed.until(
        lambda: len(typed.json("runs")["runs"]) > before and not typed.json("tasks")["tasks"]
    )
    return str(typed.json("runs")["runs"][0]["id"])


def contents(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    return {
        str(path.relative_to(folder)): (
            stat.S_IMODE(path.lstat().st_mode),
            os.readlink(path) if path.is_symlink() else path.read_bytes(),  # noqa: PTH115
        )
        for path in folder.rglob("*")
        if (path.is_file() or path.is_symlink()) and ".parachute" not in path.parts
    }


@pytest.mark.timeout(240)  # a dozen commands and two daemons
def test_a_backup_of_a_daemon_at_work_brings_all_of_it_back(typed: Typed, tmp_path: Path):
    typed.does("init", str(typed.vault))
    start(typed)
    run = edit(typed, "Start the tomatoes indoors", "Plant the tomatoes out")
    (typed.vault / "link.md").symlink_to("AGENTS.md")
    (typed.vault / "private.bin").write_bytes(b"\xff mine")
    (typed.vault / "private.bin").chmod(0o600)
    typed.does("keys", "create", "phone")
    api = f"http://127.0.0.1:{json.loads((typed.home / 'run/daemon.json').read_bytes())['port']}"
    done = threading.Event()
    writes = 0

    def write_on() -> None:
        nonlocal writes
        while not done.is_set():
            (typed.vault / f"note-{writes % 50}.md").write_text(f"# {writes}\n")
            asked = urllib.request.Request(  # noqa: S310
                f"{api}/api/notes/note-api-{writes % 50}.md", f"# {writes}\n".encode(), method="PUT"
            )
            urllib.request.urlopen(asked, timeout=10).close()  # noqa: S310
            writes += 1
            done.wait(0.01)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        said = typed.does("backup", "all.tar.gz")
    finally:
        done.set()
        writer.join()
    typed.does("stop")
    assert said.startswith(f"Wrote {tmp_path / 'all.tar.gz'}: ")
    assert stat.S_IMODE((tmp_path / "all.tar.gz").stat().st_mode) == 0o600
    vault, home = contents(typed.vault), contents(typed.home)
    shutil.rmtree(typed.vault)
    shutil.rmtree(typed.home)

    assert f"Restored {typed.vault} and {typed.home}" in typed.does("restore", "all.tar.gz")

    restored = contents(typed.vault)
    assert {name: seen for name, seen in restored.items() if not name.startswith("note-")} == {
        name: seen for name, seen in vault.items() if not name.startswith("note-")
    }
    assert contents(typed.home)["keys.yaml"] == home["keys.yaml"]
    for database in typed.home.rglob("*.db"):
        assert sqlite3.connect(database).execute("PRAGMA integrity_check").fetchone() == ("ok",), (
            database
        )
    start(typed)
    said = typed.does("doctor")
    assert "All is well" in said
    assert f"sqlite   {sqlite3.sqlite_version}" in said
    assert "database history.db: version 1" in said
    typed.does("audit", "verify")
    assert run in typed.does("why", "AGENTS.md")
    assert "changed AGENTS.md" in typed.does("undo", run)


def test_a_file_that_is_rewritten_within_one_tick_of_its_time_stamp_is_backed_up_as_it_is_then(
    typed: Typed, tmp_path: Path, monkeypatch
):
    note, at = typed.vault / "a.md", time.time() + 3600
    typed.does("vault", "set", str(typed.vault))

    def write(text: str) -> None:
        note.write_text(text)
        os.utime(note, (at, at))

    @contextlib.contextmanager
    def held(_record: object) -> Iterator[None]:
        write("# New\n")
        yield

    monkeypatch.setattr("parachuted.cli.backup._held", held)
    monkeypatch.chdir(tmp_path)
    write("# Old\n")
    assert main(["backup", "all.tar.gz"]) == 0

    typed.does("restore", "all.tar.gz", "--replace")
    assert note.read_text() == "# New\n"


def test_a_restore_puts_nothing_over_what_is_there_unless_told_to(typed: Typed, tmp_path: Path):
    (typed.vault / "a.md").write_text("# A\n")
    typed.does("vault", "set", str(typed.vault))
    typed.does("backup", "all.tar.gz")
    (typed.vault / "a.md").write_text("# Later\n")

    assert f"{typed.vault} is not empty, and stays as it is" in typed.fails(
        1, "restore", "all.tar.gz"
    )
    assert (typed.vault / "a.md").read_text() == "# Later\n"

    typed.does("restore", "all.tar.gz", "--replace")
    assert (typed.vault / "a.md").read_text() == "# A\n"
    assert [path.read_text() for path in tmp_path.glob("vault.before-restore-*/a.md")] == [
        "# Later\n"
    ]

    elsewhere = tmp_path / "elsewhere"
    shutil.rmtree(typed.home)
    typed.does("restore", "all.tar.gz", "--vault", str(elsewhere))
    assert (elsewhere / "a.md").read_text() == "# A\n"
    assert typed.json("vault")["vault"] == str(elsewhere)


def test_a_backup_that_cannot_be_is_refused_in_a_sentence(typed: Typed, tmp_path: Path):
    typed.does("vault", "set", str(typed.vault))
    (tmp_path / "there.tar.gz").write_bytes(b"mine")

    assert "name a file elsewhere" in typed.fails(1, "backup", str(typed.vault / "x.tar.gz"))
    assert "there already" in typed.fails(1, "backup", "there.tar.gz")
    assert "is not a complete backup" in typed.fails(1, "restore", "there.tar.gz")
    start(typed)
    assert "`parachute stop`, then try again" in typed.fails(1, "restore", "there.tar.gz")


@pytest.mark.parametrize("damage", ["cut off", "of another program", "leading out"])
def test_an_archive_that_is_no_whole_backup_changes_nothing(
    typed: Typed, tmp_path: Path, damage: str
):
    archive = tmp_path / "bad.tar.gz"
    (typed.vault / "a.md").write_text("# A\n")
    typed.does("vault", "set", str(typed.vault))
    if damage == "cut off":
        typed.does("backup", "whole.tar.gz")
        archive.write_bytes((tmp_path / "whole.tar.gz").read_bytes()[:-100])
    else:
        with tarfile.open(archive, "w:gz") as tar:
            names = ["vault/../out.md", "home//out.md"]
            listed = {"format": 1, "made": "", "vault": str(tmp_path / "new"), "members": names}
            for name in (*names, *(["backup.json"] if damage == "leading out" else [])):
                entry = tarfile.TarInfo(name)
                text = json.dumps(listed).encode()
                entry.size = len(text)
                tar.addfile(entry, io.BytesIO(text))
    if damage == "leading out":
        shutil.rmtree(typed.home)
        typed.does("restore", "bad.tar.gz")
        assert not [path for path in (tmp_path / "out.md", Path("/out.md")) if path.exists()]
    else:
        assert "bad.tar.gz is not a complete backup" in typed.fails(
            1, "restore", "bad.tar.gz", "--replace"
        )
        assert (typed.vault / "a.md").read_text() == "# A\n"
