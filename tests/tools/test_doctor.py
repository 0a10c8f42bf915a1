"""Doctor: says what is odd about notes, and what a sync or git has done; it changes none of it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from parachuted.tools.doctor import check_notes
from parachuted.vault import IndexEntry, VaultIndex
from tests.stories.daemon_rig import DaemonRig, Live, save
from tests.tools.conftest import ToolsRig


@pytest.fixture
def doctor(tools_rig: ToolsRig):
    index = VaultIndex()
    return lambda: check_notes(tools_rig.store, index.paths()), index


def test_a_malformed_note_is_listed_with_its_reason_and_a_good_one_is_not(
    doctor, tools_rig: ToolsRig
):
    (check, index), vault = doctor, tools_rig.vault
    (vault / "Suggestions").mkdir()
    quoted = b'---\npayload: "---\\n"\n---\n# A\n'  # which a suggestion may do
    for name, data in {
        "good.md": b"# Good\n",
        "picture.png": b"\xff\xfe\x00",
        "Suggestions/a.md": quoted,
        "a.md": quoted,
        "bad.md": b"---\na: [1\n---\n# Bad\n",
        "gone.md": b"# Here\n",
    }.items():
        (vault / name).write_bytes(data)
        index.set(name, IndexEntry.of((vault / name).stat(), None))
    (vault / "gone.md").unlink()

    found = {oddity.path: oddity for oddity in check()}
    assert {path: oddity.about for path, oddity in found.items()} == {
        "a.md": "frontmatter-dashes",
        "bad.md": "frontmatter-malformed",
        "gone.md": "unreadable",
    }
    assert found["bad.md"].problem


CONFLICT = "<<<<<<< HEAD\n- ours\n=======\n- theirs\n>>>>>>> phone\n"


async def asked(daemon_rig: DaemonRig, path: str) -> Any:
    async with aiohttp.ClientSession() as client, client.get(daemon_rig.url + path) as answer:
        return await answer.json()


def git(vault: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example")
    done = subprocess.run(
        ["git", *who, *words], cwd=vault, check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.fixture
async def used(live: Live, vault: Path) -> Path:
    save(vault / "a.md", "# A\n")
    async with live() as daemon_rig:
        assert (await asked(daemon_rig, "/api/doctor"))["findings"] == []
    return vault


async def test_conflict_copies_and_markers_are_found_and_left(live: Live, used: Path):
    save(used / "Tea (conflicted copy 2026-11-22).md", "# Tea\n")
    save(used / "Beans.md", "# Beans\n\n" + CONFLICT)
    save(used / "How git works.md", f"# Git\n\n```\n{CONFLICT}```\n")
    [day] = (used / ".parachute/audit").glob("*.jsonl")
    lines = day.read_text().splitlines(keepends=True)
    garbled = "".join([*lines[:1], "<<<<<<< HEAD\n", *lines[1:], "=======\n", ">>>>>>> phone\n"])
    day.write_text(garbled)
    async with live() as daemon_rig:
        reported = await asked(daemon_rig, "/api/doctor")

    found = {finding["about"]: finding for finding in reported["findings"]}
    assert {about: finding["path"] for about, finding in found.items()} == {
        "audit": None,
        "conflict-markers": "Beans.md",
        "conflict-copy": "Tea (conflicted copy 2026-11-22).md",
    }
    assert "line 3" in found["conflict-markers"]["problem"]
    assert f"{day.name}:2 is not a line of the audit" in found["audit"]["problem"]
    assert day.read_text().startswith(garbled)


async def test_git_leaves_the_audit_out(used: Path):
    git(used, "init", "-q")
    git(used, "add", ".")
    taken = git(used, "ls-files").split()
    assert taken == [".parachute/.gitignore", ".parachute/vault-id", "a.md"]
