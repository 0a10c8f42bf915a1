"""`parachute modules`, as it is typed, without a daemon and with one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.typed import Typed
from tests.stories.life import Live


@pytest.fixture
def typed(home: Path, vault: Path):
    """Type a command; its code and what it says."""
    modules = Typed(home=home, vault=vault, folder=home.parent)
    modules.environ["PARACHUTE_VAULT"] = str(vault)

    def run(*words: str) -> tuple[int, str]:
        done = modules("modules", *words)
        assert "Traceback" not in done.stderr or words[0] == "test", done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_module_is_made_tested_approved_and_removed_without_a_daemon(typed, vault: Path):
    assert typed("list") == (0, "No module. `parachute modules new NAME` makes one.\n")
    code, said = typed("new", "garden")
    assert (code, "parachute modules approve garden" in said) == (0, True)
    code, said = typed("test", "garden")
    assert (code, "OK" in said) == (0, True), said
    assert not list(
        (vault / "Modules/garden").rglob("__pycache__")
    )  # else each test would change what is to be approved
    code, said = typed("status", "garden")
    assert (
        code,
        "garden: unapproved" in said,
        "`parachute modules approve garden` shows" in said,
    ) == (0, True, True), said
    code, said = typed("approve", "garden")
    assert (code, "reads" in said, "These files are not approved" in said) == (1, True, True)
    code, said = typed("approve", "garden", "--yes", "--trust", "trusted")
    assert (code, "runs from the next start" in said) == (0, True), said
    assert typed("approve", "garden") == (0, "garden is approved as it is.\n")
    assert json.loads(typed("list", "--json")[1])["modules"][0]["trust_level"] == "trusted"
    code = vault / "Modules/garden/module.py"
    code.write_text(code.read_text() + "# more\n")
    assert "+# more" in typed("diff", "garden")[1]
    assert (
        "Nothing of garden runs" not in typed("approve", "garden")[1]
    )  # the approved version goes on
    assert typed("disable", "garden") == (0, "garden is disabled.\n")
    assert typed("remove", "garden")[0] == 1
    code, said = typed("remove", "garden", "--yes")
    assert (code, "its folder stays" in said, (vault / "Modules/garden").is_dir()) == (
        0,
        True,
        True,
    )


def test_wrong_names_and_sources_are_reported_in_words(typed, tmp_path: Path):
    for words in (
        ("status", "none"),
        ("diff", "none"),
        ("enable", "none"),
        ("new", "No Name"),
        ("install", str(tmp_path / "nowhere")),
    ):
        code, said = typed(*words)
        assert (code, said.startswith("parachute: ")) == (1, True), (words, said)
    assert typed("restart", "garden")[0] == 3
    assert "has no folder tests" in typed("test", str(tmp_path))[1]


def test_a_test_that_fails_fails_the_command(typed, vault: Path):
    typed("new", "garden")
    test = vault / "Modules/garden/tests/test_garden.py"
    test.write_text(test.read_text().replace('["Call Kim"]', '["Call Tim"]'))

    assert typed("test", "garden")[0] == 1


async def test_with_a_daemon_what_is_approved_runs_at_once(live: Live, typed, tmp_path: Path):
    async with live() as life:
        code, said = await asyncio.to_thread(
            typed, "new", "garden", "--folder", str(tmp_path / "garden")
        )
        assert f"install {tmp_path / 'garden'} --dev" in said
        code, said = await asyncio.to_thread(
            typed, "install", str(tmp_path / "garden"), "--dev", "--yes", "--trust", "trusted"
        )
        assert (code, "garden 0.1.0: running, trusted, dev, in process" in said) == (0, True), said
        assert "POST /api/garden/items" in (await asyncio.to_thread(typed, "status", "garden"))[1]
        source = tmp_path / "garden/module.py"
        source.write_text(
            source.read_text().replace(
                'return {"added": text}', 'return {"added": text, "edited": 1}'
            )
        )
        await life.until(
            lambda: len([event for event in life.events if event.event == "module.enabled"]) == 2
        )
        assert (await asyncio.to_thread(typed, "restart", "garden"))[0] == 0
        assert (
            json.loads((await asyncio.to_thread(typed, "status", "--json"))[1])["modules"][0][
                "status"
            ]
            == "running"
        )
        assert (await asyncio.to_thread(typed, "remove", "garden", "--yes"))[0] == 0
        assert source.exists()


async def test_a_module_that_should_run_and_does_not_fails_the_command(
    live: Live, typed, tmp_path: Path
):
    async with live():
        await asyncio.to_thread(typed, "new", "garden", "--folder", str(tmp_path / "garden"))
        (tmp_path / "garden/module.py").write_text("raise RuntimeError('broken on purpose')\n")
        code, said = await asyncio.to_thread(typed, "install", str(tmp_path / "garden"), "--yes")
        assert (code, "broken on purpose" in said, "garden 0.1.0: failed" in said) == (
            1,
            True,
            True,
        ), said
        assert (await asyncio.to_thread(typed, "status"))[0] == 1


def test_a_modules_tests_import_nothing_from_the_folder_in_which_the_person_stands(
    typed, vault: Path, home: Path, tmp_path: Path
):
    typed("new", "garden")
    (vault / "unittest.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    command = [Path(sys.executable).with_name("parachute"), "modules", "test", "garden"]
    env = {**os.environ, "PARACHUTE_HOME": str(home), "PARACHUTE_VAULT": str(vault)}
    done = subprocess.run(command, env=env, cwd=vault, capture_output=True, text=True, check=False)

    assert (done.returncode, "OK" in done.stderr) == (0, True), done.stderr
    assert not (tmp_path / "ran").exists()
