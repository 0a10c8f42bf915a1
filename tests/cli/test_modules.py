"""`parachute modules`, as it is typed, without a daemon and with one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import parachuted
from parachuted.bundled import bundled_folder
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
    assert "enabled (changed, runs as approved)" in command_line("list")[1]
    assert "+# more" in command_line("diff", "garden")[1]
    assert (
        "Nothing of garden runs" not in command_line("approve", "garden")[1]
    )  # the approved version goes on
    assert command_line("disable", "garden") == (0, "garden is disabled.\n")
    assert "disabled (changed since it was approved)" in command_line("list")[1]
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


@pytest.fixture
def release(home: Path, vault: Path, tmp_path: Path) -> CommandLine:
    """The command of a copy of the package in which a key of its own signed the journal."""
    package = Path(parachuted.__file__).parent
    release = tmp_path / "release"
    shutil.copytree(package, release / "parachuted")
    for name in ("hooks", "modules", "vault-template"):
        shutil.copytree(bundled_folder(name), release / name)
    key = tmp_path / "key.pem"
    sign = [sys.executable, "-m", "parachuted.modules.registry.signatures"]
    made = subprocess.run([*sign, "new-key", str(key)], check=True, capture_output=True, text=True)
    (release / "parachuted/modules/registry/release_keys.txt").write_text(made.stdout)
    daily = release / "modules/daily"
    (daily / "__pycache__").mkdir(exist_ok=True)  # litter, which is not installed
    (daily / "__pycache__/x.pyc").write_bytes(b"x")
    subprocess.run([*sign, "sign", str(daily), "--key", str(key)], check=True)
    environ = {"PYTHONPATH": str(release), "PARACHUTE_VAULT": str(vault)}
    return CommandLine(home=home, vault=vault, folder=home.parent, environ=environ)


def test_an_official_module_is_verified_where_its_signature_holds(release: CommandLine):
    try:
        release.does("start", "--port", "0")
        said = release.does("modules", "install", "parachute://daily", "--yes")
        assert ": running, verified, in process" in said
        assert release.json("modules", "list")["modules"][0]["notes"] == []
    finally:
        for pid in release.started():
            os.kill(pid, signal.SIGKILL)


def test_an_official_module_says_why_it_is_not_verified(
    release: CommandLine, command_line, tmp_path: Path
):
    install = ("install", "parachute://daily", "--yes")
    keyless = "not verified: this build of parachuted carries no release key"
    code, said = command_line(*install)
    assert (code, said.count(keyless)) == (0, 1), said
    assert keyless in command_line("status", "daily")[1]
    (module,) = release.json("modules", "list")["modules"]
    assert module["notes"] == ["not verified: it has no file SIGNATURE"]

    code = tmp_path / "release/modules/daily/module.py"
    code.write_text(code.read_text() + "# one line more\n")
    said = release.does("modules", *install)
    assert "not verified: its SIGNATURE is not of these files" in " ".join(said.split())
    (module,) = release.json("modules", "list")["modules"]
    assert module["trust_level"] == "untrusted"


def test_a_module_that_acts_for_people_is_refused_without_trust_before_it_is_asked_for(
    command_line,
):
    for words in (("install", "parachute://bots"), ("approve", "bots", "--yes")):
        code, said = command_line(*words)
        assert (code, "digest" in said) == (1, False), said
        assert "`parachute modules approve bots --trust trusted`" in " ".join(said.split())
    assert command_line("approve", "bots", "--trust", "trusted", "--yes")[0] == 0


def test_a_module_of_github_is_pinned_to_a_tag_and_approved_by_its_files(
    home: Path, vault: Path, tmp_path: Path, command_line
):
    git = shutil.which("git")
    work = tmp_path / "work"
    assert command_line("new", "garden", "--folder", str(work))[0] == 0

    def tag(name: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", name], ["tag", name]):
            subprocess.run([git, *words], cwd=work, check=True)
        head = [git, "rev-parse", "HEAD"]
        return subprocess.check_output(head, cwd=work, text=True).strip()

    commits = [tag("v1")]
    (work / "module.py").write_text((work / "module.py").read_text() + "# more\n")
    commits.append(tag("v2"))
    subprocess.run([git, "clone", "-q", "--bare", work, tmp_path / "hub/kim/garden"], check=True)
    (tmp_path / "bin").mkdir()
    there = tmp_path / "bin/git"  # github.com is a folder here
    rewritten = f"url.{(tmp_path / 'hub').as_uri()}/.insteadOf=https://github.com/"
    there.write_text(f'#!/bin/sh\nexec {git} -c {rewritten} "$@"\n')
    there.chmod(0o755)
    typed = CommandLine(home=home, vault=vault, folder=home.parent)
    typed.environ["PARACHUTE_VAULT"] = str(vault)
    typed.environ["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"

    for source in ("github://kim", "github://kim/garden/sub", "github://kim/garden@v1"):
        refused = typed("modules", "install", source, "--yes")
        assert (refused.returncode, "github://USER/REPO#TAG" in refused.stderr) == (1, True)
    first = typed.json("modules", "install", "github://kim/garden#v1", "--yes")
    assert (first["source"], first["state"]) == ("github://kim/garden#v1", "approved")
    waiting = typed.json("modules", "install", f"github://kim/garden#{commits[1]}")
    assert waiting["consent"]["commit"] == commits[1]
    (listed,) = typed.json("modules", "list")["modules"]
    assert (listed["hash"], listed["notes"]) == (first["hash"], ["changed, runs as approved"])
    newest = typed.json("modules", "install", "github://kim/garden", "--yes")
    assert (newest["hash"], newest["state"]) == (waiting["hash"], "approved")


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
