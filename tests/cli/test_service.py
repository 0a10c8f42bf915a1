"""Service: install, uninstall and status say what they did, touch only their own file, and never
claim more than they saw.

The supervisors are stand-ins on the PATH that write down how they were called; the files are real.
"""

from __future__ import annotations

import json
import os
import plistlib
from collections.abc import Callable
from pathlib import Path

import pytest

from parachuted.cli import main, service
from parachuted.cli.service import ServiceTarget, Supervisor, find_supervisor
from parachuted.errors import DaemonError, StorageFailedError

STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >>"{calls}"
case " $* " in {failing}) echo "it says no" >&2; exit 5;; esac
echo "state = {state}"
"""
Commands = Callable[..., Path]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commands:
    """Makes stand-ins the only programs there are; returns the file where their calls are noted."""

    def put(*names: str, failing: str = "never", state: str = "running") -> Path:
        folder, calls = tmp_path / "bin", tmp_path / "calls"
        folder.mkdir(exist_ok=True)
        calls.write_text("")
        for name in names:
            (folder / name).write_text(STAND_IN.format(calls=calls, failing=failing, state=state))
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.defpath}" if names else str(folder))
        return calls

    return put


@pytest.fixture
def wanted(vault: Path, tmp_path: Path) -> ServiceTarget:
    return ServiceTarget(vault=vault, home=tmp_path / "new home")


@pytest.fixture
def systemd(tmp_path: Path) -> Supervisor:
    return find_supervisor("linux", tmp_path / "me", 1000)


@pytest.fixture(params=["linux", "darwin"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Supervisor:
    return find_supervisor(request.param, tmp_path / "me", 1000)


def install(wanted: ServiceTarget, supervisor: Supervisor) -> str:
    return service.install(wanted, supervisor, settle_s=0)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_install_writes_the_file_makes_a_private_home_and_starts_it(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands
):
    calls = commands("systemctl", "launchctl")

    said = install(wanted, supervisor)

    assert f"Wrote {supervisor.file}" in said
    assert "It runs now" in said
    asked = supervisor.enabled if supervisor.name == "launchd" else supervisor.running
    assert calls.read_text().splitlines() == [
        " ".join(command) for command in (supervisor.answers, *supervisor.load, asked)
    ]
    assert wanted.home.stat().st_mode & 0o777 == 0o700
    assert (wanted.home / "logs").is_dir()
    content = supervisor.file.read_bytes()
    if supervisor.name == "systemd":
        assert f'ReadWritePaths="{wanted.vault}" "{wanted.home}"' in content.decode()
        assert b"--vault" not in content, "the settings say which"
    else:
        environment = plistlib.loads(content)["EnvironmentVariables"]
        assert environment == {"PARACHUTE_HOME": str(wanted.home)}


def test_where_nothing_answers_install_says_what_to_run(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()

    said = install(wanted, systemd)

    assert systemd.file.is_file()
    assert "systemd does not answer here, so nothing was started" in said
    assert "\nsystemctl --user enable parachute.service\n" in said
    assert "It runs now" not in said


@pytest.mark.parametrize(
    ("failing", "why"),
    [
        ("*is-active*", "ended at once; the log says why"),
        ("*restart*", "systemctl --user restart parachute.service ended with 5: it says no"),
    ],
)
def test_a_daemon_that_does_not_stay_up_is_not_called_running(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands, failing: str, why: str
):
    calls = commands("systemctl", failing=failing)

    with pytest.raises(DaemonError, match=why):
        service.install(wanted, systemd)
    assert calls.read_text().count("is-active") == (failing == "*is-active*")


def test_installing_again_replaces_and_restarts(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands, tmp_path: Path
):
    calls = commands("systemctl", "launchctl")
    install(wanted, supervisor)
    calls.write_text("")

    install(ServiceTarget(vault=tmp_path / "other", home=wanted.home), supervisor)

    assert supervisor.name == "launchd" or str(tmp_path / "other") in supervisor.file.read_text()
    assert calls.read_text().splitlines()[1] == " ".join(supervisor.unload[0])


@pytest.mark.parametrize("act", ["install", "uninstall"])
@pytest.mark.parametrize("content", ["[Service]\nExecStart=/bin/true\n", "a link"])
def test_a_file_of_somebody_else_stays_as_it_is(
    act: str, content: str, supervisor: Supervisor, wanted: ServiceTarget, commands: Commands
):
    calls = commands("systemctl", "launchctl")
    install(wanted, supervisor)
    if content == "a link":
        elsewhere = supervisor.file.rename(wanted.home / "elsewhere")
        supervisor.file.symlink_to(elsewhere)
    else:
        supervisor.file.write_text(content)
    before = supervisor.file.read_text()
    calls.write_text("")

    with pytest.raises(DaemonError, match="written by somebody else"):
        install(wanted, supervisor) if act == "install" else service.uninstall(supervisor)
    assert supervisor.file.read_text() == before
    assert supervisor.file.is_symlink() == (content == "a link")
    assert calls.read_text() == ""


def test_uninstall_removes_exactly_what_install_wrote(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands, tmp_path: Path
):
    calls = commands("systemctl", "launchctl")
    neighbour = supervisor.file.with_name("other.service")
    neighbour.parent.mkdir(parents=True)
    neighbour.write_text("[Service]\n")
    (wanted.vault / "note.md").write_text("mine")
    install(wanted, supervisor)
    calls.write_text("")

    service.uninstall(supervisor)

    assert files_below(tmp_path / "me") == [neighbour]
    assert (wanted.vault / "note.md").read_text() == "mine"
    assert wanted.home.is_dir()
    assert calls.read_text().splitlines()[1:] == [
        " ".join(command) for command in (*supervisor.unload, *supervisor.forget)
    ]
    assert service.uninstall(supervisor).startswith("Nothing is installed")


def test_a_service_that_cannot_be_stopped_keeps_its_file(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands("systemctl", failing="*disable*")
    install(wanted, systemd)

    with pytest.raises(DaemonError, match="it says no"):
        service.uninstall(systemd)
    assert systemd.file.exists()


def test_uninstall_where_nothing_answers_removes_the_file_and_its_link(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()
    install(wanted, systemd)
    systemd.left_over.parent.mkdir()
    systemd.left_over.symlink_to(systemd.file)

    assert "a daemon that it started goes on" in service.uninstall(systemd)
    assert not systemd.file.exists()
    assert not systemd.left_over.is_symlink()


def test_the_state_is_what_the_supervisor_says_and_nothing_is_guessed(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()
    absent = {"file": str(supervisor.file), "installed": False}
    assert service.find_state(supervisor) == {**absent, "enabled": None, "running": None}
    commands("systemctl", "launchctl")
    install(wanted, supervisor)
    there = {**absent, "installed": True}
    assert service.find_state(supervisor) == {**there, "enabled": True, "running": True}
    commands("systemctl", "launchctl", failing="*is-active*", state="not running")
    assert service.find_state(supervisor) == {**there, "enabled": True, "running": False}


def test_a_place_that_cannot_be_written_is_named(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()
    systemd.file.parents[2].parent.mkdir(parents=True)
    systemd.file.parents[2].write_text("a file where a folder should be")

    with pytest.raises(StorageFailedError, match="could not be written"):
        install(wanted, systemd)


def test_each_home_has_a_service_of_its_own(
    wanted: ServiceTarget, commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    commands("systemctl")
    mine = ServiceTarget(vault=wanted.vault, home=tmp_path / "me/.parachute")
    for target in (mine, wanted):
        install(target, service.this_supervisor(target.home))
        assert str(target.home) in service.this_supervisor(target.home).file.read_text()

    service.uninstall(service.this_supervisor(wanted.home))
    assert [file.name for file in files_below(tmp_path / "me/.config")] == ["parachute.service"]


def test_as_commands_they_say_it_and_end_with_their_codes(
    home: Path, vault: Path, tmp_path: Path, commands: Commands, monkeypatch, capsys
):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    monkeypatch.setenv("PARACHUTE_VAULT", str(vault))
    commands()
    assert main(["service", "install"]) == 0
    assert f"vault: {vault}" in (home / "config.yaml").read_text()
    assert "installed: yes" not in capsys.readouterr().out
    assert main(["service", "status"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("installed: yes (")
    assert lines[1:] == [
        *("enabled:   unknown", "running:   unknown", "systemd does not answer here.")
    ]
    assert main(["service", "status", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["installed"] is True
    assert main(["service", "uninstall"]) == 0
