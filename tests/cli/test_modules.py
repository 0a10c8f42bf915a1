"""`parachute modules`, as it is typed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.stories.daemon_rig import Live


@pytest.fixture
def typed(home: Path, vault: Path) -> CommandLine:
    environ = {"PARACHUTE_VAULT": str(vault)}
    return CommandLine(home=home, vault=vault, folder=home.parent, environ=environ)


@pytest.fixture
def command_line(typed: CommandLine):
    """Type a command; its code and what it says."""

    def run(*words: str) -> tuple[int, str]:
        done = typed("modules", *words)
        assert "Traceback" not in done.stderr or words[0] == "test", done.stderr
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    return run


def test_a_module_is_made_tested_and_approved_before_a_daemon_runs(command_line, vault: Path):
    code, said = command_line("new", "garden")
    assert (code, "parachute modules approve garden" in said) == (0, True)
    code, said = command_line("test", "garden")
    assert (code, "OK" in said) == (0, True), said
    # else each test would change what is to be approved
    assert not list((vault / "Modules/garden").rglob("__pycache__"))
    code, said = command_line("approve", "garden")
    assert (code, "reads" in said, "These files are not approved" in said) == (1, True, True)
    code, said = command_line("approve", "garden", "--yes", "--trust", "trusted")
    assert (code, "runs from the next start" in said) == (0, True), said
    assert command_line("approve", "garden") == (0, "garden is approved as it is.")
    for words in ("list", "status", "diff garden", "enable garden", "disable garden"):
        assert command_line(*words.split())[0] == 3
    assert command_line("remove", "garden", "--yes")[0] == 3


def test_wrong_names_and_sources_are_reported_in_words(command_line, tmp_path: Path):
    for words in (("approve", "none"), ("new", "No Name"), ("install", str(tmp_path / "nowhere"))):
        code, said = command_line(*words)
        assert (code, said.startswith("parachute: ")) == (1, True), (words, said)
    assert "unknown module nope" in command_line("test", "nope")[1]
    assert "has no folder tests" in command_line("test", str(tmp_path))[1]
    for source in ("github://kim", "github://kim/garden/sub", "github://kim/garden@v1"):
        code, said = command_line("install", source, "--yes")
        assert (code, "github://USER/REPO" in said) == (1, True)


def test_a_modules_tests_import_nothing_from_where_a_person_stands(
    command_line, vault: Path, typed: CommandLine, tmp_path: Path
):
    command_line("new", "garden")
    (vault / "unittest.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    program = [Path(sys.executable).with_name("parachute"), "modules", "test", "garden"]
    done = subprocess.run(
        program, env=typed.env(), cwd=vault, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "OK" in done.stderr) == (0, True), done.stderr
    assert not (tmp_path / "ran").exists()

    test = vault / "Modules/garden/tests/test_garden.py"
    test.write_text(test.read_text().replace('["Call Kim"]', '["Call Tim"]'))
    assert command_line("test", "garden")[0] == 1


async def test_with_a_daemon_what_is_approved_runs_at_once_until_it_is_removed(
    live: Live, command_line, typed: CommandLine, vault: Path
):
    async def does(*words: str) -> tuple[int, str]:
        return await asyncio.to_thread(command_line, *words)

    async with live() as daemon_rig:
        code, said = await does("list")
        assert (code, said.partition(".")[0]) == (0, "No module")
        assert "`parachute modules install parachute://NAME`" in said
        assert "`parachute modules new NAME`" in said
        assert (await does("status", "none"))[0] == 1
        await does("new", "garden")
        code, said = await does("status", "garden")
        assert "garden: unapproved" in said
        assert "`parachute modules approve garden` shows" in said
        code, said = await does("approve", "garden", "--yes", "--trust", "trusted")
        assert (code, "garden 0.1.0: running, trusted, in process" in said) == (0, True), said
        assert "POST /api/garden/items" in (await does("status", "garden"))[1]
        said = (await does("status"))[1]
        assert ("routes: " in said, "/api/garden" in said) == (True, False), said

        source = vault / "Modules/garden/module.py"
        source.write_text(source.read_text() + "# more\n")
        assert "running (changed, runs as approved)" in (await does("list"))[1]
        assert "+# more" in (await does("diff", "garden"))[1]
        code, said = await does("disable", "garden")
        assert (code, "garden 0.1.0: disabled" in said) == (0, True), said
        assert "disabled (changed since it was approved)" in (await does("list"))[1]
        assert "running" in (await does("enable", "garden"))[1]
        assert (await does("restart", "garden"))[0] == 0
        assert (await does("remove", "garden"))[0] == 1
        code, said = await does("remove", "garden", "--yes")
        assert (code, "its folder stays" in said, source.exists()) == (0, True, True)
        listed = await asyncio.to_thread(typed.json, "modules", "list")
        assert [module["status"] for module in listed["modules"]] == ["unapproved"]
        assert daemon_rig.daemon.modules.manager.approved("garden") is None


async def test_a_module_in_development_stays_where_it_is_and_asks_after_an_edit(
    live: Live, command_line, tmp_path: Path
):
    folder = tmp_path / "garden"

    async def does(*words: str) -> tuple[int, str]:
        return await asyncio.to_thread(command_line, *words)

    async with live():
        said = (await does("new", "garden", "--folder", str(folder)))[1]
        assert f"install {folder} --dev" in said
        code, said = await does("install", str(folder), "--dev", "--yes", "--trust", "trusted")
        assert (code, "garden 0.1.0: running, trusted, dev, in process" in said) == (0, True), said
        (folder / "module.py").write_text("raise RuntimeError('broken on purpose')\n")
        assert (await does("restart", "garden"))[0] == 0
        code, said = await does("approve", "garden", "--yes")
        assert (code, "broken on purpose" in said) == (1, True), said
        assert "garden 0.1.0: failed" in said


def test_an_official_module_is_verified_while_its_files_are_unchanged(command_line, vault: Path):
    code, said = command_line("install", "parachute://daily", "--yes")
    assert (code, "part of this version of parachuted" in said) == (0, True), said
    file = vault / "Modules/daily/module.py"
    file.write_text(file.read_text() + "# one line more\n")
    said = command_line("approve", "daily", "--yes")[1]
    assert "in a container" in said


def test_a_module_that_acts_for_people_is_refused_without_trust(
    command_line,
):
    for words in (("install", "parachute://bots"), ("approve", "bots", "--yes")):
        code, said = command_line(*words, "--trust", "untrusted")
        assert (code, "digest" in said) == (1, False), said
        assert "`parachute modules approve bots --trust trusted`" in said
    assert command_line("approve", "bots", "--trust", "trusted", "--yes")[0] == 0


def test_a_module_of_github_is_pinned_to_a_tag_and_approved_by_its_files(
    typed: CommandLine, tmp_path: Path
):
    git = shutil.which("git")
    work = tmp_path / "work"
    typed.does("modules", "new", "garden", "--folder", str(work))

    def tag(name: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", name], ["tag", name]):
            subprocess.run([git, *words], cwd=work, check=True)
        head = [git, "rev-parse", "HEAD"]
        return subprocess.check_output(head, cwd=work, text=True).strip()

    tag("v1")
    (work / "module.py").write_text((work / "module.py").read_text() + "# more\n")
    commit = tag("v2")
    subprocess.run([git, "clone", "-q", "--bare", work, tmp_path / "hub/kim/garden"], check=True)
    (tmp_path / "bin").mkdir()
    there = tmp_path / "bin/git"  # github.com is a folder here
    rewritten = f"url.{(tmp_path / 'hub').as_uri()}/.insteadOf=https://github.com/"
    there.write_text(f'#!/bin/sh\nexec {git} -c {rewritten} "$@"\n')
    there.chmod(0o755)
    typed.environ["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"

    first = typed.json("modules", "install", "github://kim/garden#v1", "--yes")
    assert (first["source"], first["state"]) == ("github://kim/garden#v1", "approved")
    waiting = typed.json("modules", "install", f"github://kim/garden#{commit}")
    assert waiting["consent"]["commit"] == commit
    assert waiting["module"]["notes"] == ["changed, runs as approved"]
    newest = typed.json("modules", "install", "github://kim/garden", "--yes")
    assert (newest["hash"], newest["state"]) == (waiting["hash"], "approved")
