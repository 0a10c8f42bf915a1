"""`parachute modules`, as it is typed, without a daemon and with one."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live


@pytest.fixture
def command_line(home: Path, vault: Path):
    """Type a command; its code and what it says."""
    modules = CommandLine(home=home, vault=vault, folder=home.parent)
    modules.environ["PARACHUTE_VAULT"] = str(vault)

    def run(*words: str) -> tuple[int, str]:
        done = modules("modules", *words)
        assert "Traceback" not in done.stderr or words[0] == "test", done.stderr
        return done.returncode, done.stdout + done.stderr

    return run


def test_a_module_is_made_tested_approved_and_removed_without_a_daemon(command_line, vault: Path):
    assert command_line("list") == (0, "No module. `parachute modules new NAME` makes one.\n")
    code, said = command_line("new", "garden")
    assert (code, "parachute modules approve garden" in said) == (0, True)
    code, said = command_line("test", "garden")
    assert (code, "OK" in said) == (0, True), said
    assert not list(
        (vault / "Modules/garden").rglob("__pycache__")
    )  # else each test would change what is to be approved
    code, said = command_line("status", "garden")
    assert (
        code,
        "garden: unapproved" in said,
        "`parachute modules approve garden` shows" in said,
    ) == (0, True, True), said
    code, said = command_line("approve", "garden")
    assert (code, "reads" in said, "These files are not approved" in said) == (1, True, True)
    code, said = command_line("approve", "garden", "--yes", "--trust", "trusted")
    assert (code, "runs from the next start" in said) == (0, True), said
    assert command_line("approve", "garden") == (0, "garden is approved as it is.\n")
    assert json.loads(command_line("list", "--json")[1])["modules"][0]["trust_level"] == "trusted"
    code = vault / "Modules/garden/module.py"
    code.write_text(code.read_text() + "# more\n")
    assert "+# more" in command_line("diff", "garden")[1]
    assert (
        "Nothing of garden runs" not in command_line("approve", "garden")[1]
    )  # the approved version goes on
    assert command_line("disable", "garden") == (0, "garden is disabled.\n")
    assert command_line("remove", "garden")[0] == 1
    code, said = command_line("remove", "garden", "--yes")
    assert (code, "its folder stays" in said, (vault / "Modules/garden").is_dir()) == (
        0,
        True,
        True,
    )


def test_wrong_names_and_sources_are_reported_in_words(command_line, tmp_path: Path):
    for words in (
        ("status", "none"),
        ("diff", "none"),
        ("enable", "none"),
        ("new", "No Name"),
        ("install", str(tmp_path / "nowhere")),
    ):
        code, said = command_line(*words)
        assert (code, said.startswith("parachute: ")) == (1, True), (words, said)
    assert command_line("restart", "garden")[0] == 3
    assert "has no folder tests" in command_line("test", str(tmp_path))[1]


def test_a_test_that_fails_fails_the_command(command_line, vault: Path):
    command_line("new", "garden")
    test = vault / "Modules/garden/tests/test_garden.py"
    test.write_text(test.read_text().replace('["Call Kim"]', '["Call Tim"]'))

    assert command_line("test", "garden")[0] == 1


async def test_with_a_daemon_what_is_approved_runs_at_once(
    live: Live, command_line, tmp_path: Path
):
    async with live() as daemon_rig:
        code, said = await asyncio.to_thread(
            command_line, "new", "garden", "--folder", str(tmp_path / "garden")
        )
        assert f"install {tmp_path / 'garden'} --dev" in said
        code, said = await asyncio.to_thread(
            command_line,
            "install",
            str(tmp_path / "garden"),
            "--dev",
            "--yes",
            "--trust",
            "trusted",
        )
        assert (code, "garden 0.1.0: running, trusted, dev, in process" in said) == (0, True), said
        assert (
            "POST /api/garden/items"
            in (await asyncio.to_thread(command_line, "status", "garden"))[1]
        )
        source = tmp_path / "garden/module.py"
        source.write_text(
            source.read_text().replace(
                'return {"added": text}', 'return {"added": text, "edited": 1}'
            )
        )
        await daemon_rig.until(
            lambda: (
                len([event for event in daemon_rig.events if event.event == "module.enabled"]) == 2
            )
        )
        assert (await asyncio.to_thread(command_line, "restart", "garden"))[0] == 0
        assert (
            json.loads((await asyncio.to_thread(command_line, "status", "--json"))[1])["modules"][
                0
            ]["status"]
            == "running"
        )
        assert (await asyncio.to_thread(command_line, "remove", "garden", "--yes"))[0] == 0
        assert source.exists()


async def test_a_module_that_should_run_and_does_not_fails_the_command(
    live: Live, command_line, tmp_path: Path
):
    async with live():
        await asyncio.to_thread(command_line, "new", "garden", "--folder", str(tmp_path / "garden"))
        (tmp_path / "garden/module.py").write_text("raise RuntimeError('broken on purpose')\n")
        code, said = await asyncio.to_thread(
            command_line, "install", str(tmp_path / "garden"), "--yes"
        )
        assert (code, "broken on purpose" in said, "garden 0.1.0: failed" in said) == (
            1,
            True,
            True,
        ), said
        assert (await asyncio.to_thread(command_line, "status"))[0] == 1


def test_a_modules_tests_import_nothing_from_the_folder_in_which_the_person_stands(
    command_line, vault: Path, home: Path, tmp_path: Path
):
    command_line("new", "garden")
    (vault / "unittest.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    command = [Path(sys.executable).with_name("parachute"), "modules", "test", "garden"]
    env = {**os.environ, "PARACHUTE_HOME": str(home), "PARACHUTE_VAULT": str(vault)}
    done = subprocess.run(command, env=env, cwd=vault, capture_output=True, text=True, check=False)

    assert (done.returncode, "OK" in done.stderr) == (0, True), done.stderr
    assert not (tmp_path / "ran").exists()
