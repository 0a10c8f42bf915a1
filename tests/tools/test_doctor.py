"""Doctor: says what is odd about notes, and what a sync or git has done; it changes none of it."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.tools.doctor import check_notes
from parachuted.vault import IndexEntry, ObjectStore, Store, VaultIndex, VaultRoot, WriteJournal
from tests.stories.daemon_rig import DaemonRig, Live, save


@pytest.fixture
def doctor(vault: Path, home: Path):
    objects, history, index = (
        ObjectStore(home / "objects"),
        WriteJournal(home / "history.db"),
        VaultIndex(),
    )
    store = Store(VaultRoot(vault), objects, history, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    yield lambda: check_notes(store, index.paths()), index
    store.close()
    history.close()
    objects.close()


def put(vault: Path, index: VaultIndex, name: str, data: bytes) -> None:
    (vault / name).write_bytes(data)
    index.set(name, IndexEntry.of((vault / name).stat(), None))


def test_a_malformed_note_is_listed_with_its_reason_and_a_good_one_is_not(doctor, vault: Path):
    check, index = doctor
    put(vault, index, "good.md", b"# Good\n")
    put(vault, index, "bad.md", b"---\na: [1\n---\n# Bad\n")

    odd = check()

    assert [(oddity.path, oddity.code) for oddity in odd] == [("bad.md", "frontmatter-malformed")]
    assert odd[0].message


def test_a_suggestion_may_quote_frontmatter(doctor, vault: Path):
    check, index = doctor
    (vault / "Suggestions").mkdir()
    for name in ("Suggestions/a.md", "a.md"):
        put(vault, index, name, b'---\npayload: "---\\n"\n---\n# A\n')

    assert [(odd.path, odd.code) for odd in check()] == [("a.md", "frontmatter-dashes")]


def test_a_note_that_cannot_be_read_is_listed_too(doctor, vault: Path):
    check, index = doctor
    put(vault, index, "gone.md", b"# Here\n")
    (vault / "gone.md").unlink()

    assert [oddity.code for oddity in check()] == ["unreadable"]


def test_what_is_not_a_note_is_not_looked_at(doctor, vault: Path):
    check, index = doctor
    put(vault, index, "picture.png", b"\xff\xfe\x00")

    assert check() == []


CONFLICT = "<<<<<<< HEAD\n- ours\n=======\n- theirs\n>>>>>>> phone\n"


async def asked(daemon_rig: DaemonRig, path: str) -> Any:
    async with aiohttp.ClientSession() as client, client.get(daemon_rig.url + path) as answer:
        return await answer.json()


def days(vault: Path) -> list[Path]:
    return sorted((vault / ".parachute/audit").glob("*.jsonl"))


def git(vault: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example")
    subprocess.run(["git", *who, *words], cwd=vault, check=True, capture_output=True)


@pytest.fixture
async def used(live: Live, vault: Path) -> Path:
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig:
        assert (await asked(daemon_rig, "/api/doctor"))["problems"] == {}
    return vault


async def test_conflict_copies_and_notes_with_markers_are_listed(live: Live, vault):
    save(vault / "Tea (conflicted copy 2026-11-22).md", "# Tea\n")
    save(vault / "Beans.md", "# Beans\n\n" + CONFLICT)
    save(vault / "How git works.md", f"# Git\n\n```\n{CONFLICT}```\n")
    async with live() as daemon_rig:
        reported = await asked(daemon_rig, "/api/doctor")
    found = {(note["path"], note["code"]) for note in reported["notes"]}
    assert found == {
        ("Tea (conflicted copy 2026-11-22).md", "conflict-copy"),
        ("Beans.md", "conflict-markers"),
    }
    assert "line 3" in next(
        note["message"] for note in reported["notes"] if note["path"] == "Beans.md"
    )


async def test_conflict_markers_and_copies_in_the_control_folder_are_found_and_left(
    live: Live, used
):
    day = days(used)[0]
    copy = day.with_name(f"{day.stem}.sync-conflict-20261122-101500-ABCDEF7.jsonl")
    copy.write_bytes(day.read_bytes())
    lines = day.read_text().splitlines(keepends=True)
    garbled = "".join([*lines[:1], "<<<<<<< HEAD\n", *lines[1:], "=======\n", ">>>>>>> phone\n"])
    day.write_text(garbled)
    identity = used / ".parachute/vault-id"
    identity.write_text(f"<<<<<<< HEAD\n{identity.read_text()}=======\n{'0' * 32}\n>>>>>>> phone\n")
    (used / ".parachute/a-link").symlink_to(identity)
    async with live() as daemon_rig:
        problems = (await asked(daemon_rig, "/api/doctor"))["problems"]
    name = day.relative_to(used).as_posix()
    assert "line 2 is a conflict marker" in problems[f"conflict:{name}"]
    assert "conflict copy" in problems[f"conflict:{copy.relative_to(used).as_posix()}"]
    assert "line 1 is a conflict marker" in problems["conflict:.parachute/vault-id"]
    assert "conflict:.parachute/a-link" not in problems
    assert f"{day.name}:2 is not a line of the audit" in problems["audit"]
    assert day.read_text().startswith(garbled)
    assert copy.exists()


async def test_a_git_stash_that_took_lines_out_of_the_audit_is_found(live: Live, used):
    git(used, "init", "-q")
    git(used, "add", "-f", ".")
    git(used, "commit", "-qm", "one")
    async with live() as daemon_rig:
        await asked(daemon_rig, "/api/health")
        save(used / "b.md", "# B\n")
        await daemon_rig.until(lambda: daemon_rig.reported("file.created"))
    git(used, "stash", "-q")
    async with live() as daemon_rig:
        problem = (await asked(daemon_rig, "/api/doctor"))["problems"]["audit"]
        assert "git stash show" in problem
        assert "parachute audit verify" in problem
    git(used, "stash", "drop", "-q")
    async with live() as daemon_rig:
        problem = (await asked(daemon_rig, "/api/doctor"))["problems"]["audit"]
        assert "git stash" not in problem


def _listed(used: Path) -> list[str]:
    git(used, "init", "-q")
    git(used, "add", ".")
    return subprocess.run(
        ["git", "ls-files"], cwd=used, check=True, capture_output=True, text=True
    ).stdout.split()


async def test_git_leaves_the_audit_out_and_takes_the_id(used):
    assert _listed(used) == [".parachute/.gitignore", ".parachute/vault-id", "a.md"]


async def test_links_in_the_control_folder_are_not_followed(live: Live, used, tmp_path):
    (tmp_path / "outside").write_text(CONFLICT)
    (used / ".parachute/linked").symlink_to(tmp_path / "outside")
    async with live() as daemon_rig:
        assert (await asked(daemon_rig, "/api/doctor"))["problems"] == {}
