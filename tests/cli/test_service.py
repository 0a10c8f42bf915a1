"""Service: install, uninstall and status say what they did, touch only their own file, and never
claim more than they saw.

The supervisors are stand-ins on the PATH that write down how they were called; the files are real.
"""

from __future__ import annotations

import os
import plistlib
from collections.abc import Callable
from pathlib import Path

import pytest

from parachuted.cli import service
from parachuted.cli.supervisor import ServiceTarget, Supervisor, find_supervisor
from parachuted.errors import StorageFailedError

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


@pytest.fixture
def launchd(tmp_path: Path) -> Supervisor:
    return find_supervisor("darwin", tmp_path / "me", 501)


@pytest.fixture(params=["linux", "darwin"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Supervisor:
    return find_supervisor(request.param, tmp_path / "me", 1000)


def install(wanted: ServiceTarget, supervisor: Supervisor) -> service.ServiceOutcome:
    return service.install(wanted, supervisor, settle_s=0)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_install_writes_the_unit_and_starts_it(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    calls = commands("systemctl")

    outcome = install(wanted, systemd)

    assert outcome.code == service.OK
    assert f"Wrote {systemd.file}" in outcome.text
    assert "It runs now" in outcome.text
    assert f'"{wanted.vault}" "{wanted.home}"' in systemd.file.read_text()
    assert calls.read_text().splitlines() == [
        "systemctl --user show-environment",
        "systemctl --user daemon-reload",
        "systemctl --user enable parachute.service",
        "systemctl --user restart parachute.service",
        "systemctl --user is-active --quiet parachute.service",
    ]


def test_install_writes_the_property_list_and_starts_it(
    launchd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    calls = commands("launchctl")

    outcome = install(wanted, launchd)

    assert outcome.code == service.OK
    assert plistlib.loads(launchd.file.read_bytes())["EnvironmentVariables"] == {
        "PARACHUTE_HOME": str(wanted.home)
    }
    assert calls.read_text().splitlines() == [
        "launchctl print gui/501",
        "launchctl enable gui/501/parachuted",
        f"launchctl bootstrap gui/501 {launchd.file}",
        "launchctl print gui/501/parachuted",
    ]


def test_install_makes_a_private_home_for_the_service_to_write(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()

    install(wanted, supervisor)

    assert wanted.home.stat().st_mode & 0o777 == 0o700
    assert (wanted.home / "logs").is_dir()


def test_where_nothing_answers_install_says_what_to_run(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()

    outcome = install(wanted, systemd)

    assert outcome.code == service.OK
    assert systemd.file.is_file()
    assert "systemd does not answer here, so nothing was started" in outcome.text
    assert "\nsystemctl --user enable parachute.service\n" in outcome.text
    assert "It runs now" not in outcome.text


def test_a_daemon_that_ends_at_once_is_not_called_running(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    calls = commands("systemctl", failing="*is-active*")

    outcome = service.install(wanted, systemd)

    assert outcome.code == service.FAILED
    assert "ended at once; the log says why" in outcome.text
    assert calls.read_text().count("is-active") == 1


def test_a_daemon_is_watched_until_it_has_settled(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    calls = commands("systemctl")

    assert service.install(wanted, systemd, settle_s=2).code == service.OK
    assert calls.read_text().count("is-active") > 1


def test_a_supervisor_that_refuses_is_quoted(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands("systemctl", failing="*restart*")

    outcome = install(wanted, systemd)

    assert outcome.code == service.FAILED
    assert "systemctl --user restart parachute.service ended with 5: it says no" in outcome.text


def test_installing_again_replaces_and_restarts(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands, tmp_path: Path
):
    calls = commands("systemctl", "launchctl")
    install(wanted, supervisor)
    other = tmp_path / "other vault"
    other.mkdir()
    calls.write_text("")

    outcome = install(ServiceTarget(vault=other, home=wanted.home), supervisor)

    assert outcome.code == service.OK
    assert supervisor.name == "launchd" or str(other) in supervisor.file.read_text()
    stop = calls.read_text().splitlines()[1]
    assert stop in {
        "systemctl --user disable --now parachute.service",
        "launchctl bootout gui/1000/parachuted",
    }


def test_without_a_vault_nothing_is_installed(
    supervisor: Supervisor, tmp_path: Path, commands: Commands
):
    commands("systemctl", "launchctl")

    outcome = install(
        ServiceTarget(vault=tmp_path / "no vault", home=tmp_path / "home"), supervisor
    )

    assert outcome.code == service.FAILED
    assert f"parachute init '{tmp_path}/no vault'" in outcome.text
    assert not files_below(tmp_path / "me")


@pytest.mark.parametrize("act", ["install", "uninstall"])
@pytest.mark.parametrize("content", ["[Service]\nExecStart=/bin/true\n", None])
def test_a_file_of_somebody_else_stays_as_it_is(
    act: str, content: str | None, supervisor: Supervisor, wanted: ServiceTarget, commands: Commands
):
    calls = commands("systemctl", "launchctl")
    if content is None:
        install(wanted, supervisor)
        content = supervisor.file.read_text() + "Nice=10\n"
    supervisor.file.parent.mkdir(parents=True, exist_ok=True)
    supervisor.file.write_text(content)
    calls.write_text("")

    outcome = install(wanted, supervisor) if act == "install" else service.uninstall(supervisor)

    assert outcome.code == service.FAILED
    assert "edited or written by somebody else" in outcome.text
    assert supervisor.file.read_text() == content
    assert calls.read_text() == ""


@pytest.mark.parametrize("act", ["install", "uninstall"])
def test_a_link_in_the_unit_s_place_is_somebody_else_s(
    act: str, systemd: Supervisor, wanted: ServiceTarget, commands: Commands, tmp_path: Path
):
    commands()
    install(wanted, systemd)
    elsewhere = systemd.file.rename(tmp_path / "elsewhere.service")
    systemd.file.symlink_to(elsewhere)

    outcome = install(wanted, systemd) if act == "install" else service.uninstall(systemd)

    assert outcome.code == service.FAILED
    assert systemd.file.readlink() == elsewhere


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

    outcome = service.uninstall(supervisor)

    assert outcome.code == service.OK
    assert files_below(tmp_path / "me") == [neighbour]
    assert (wanted.vault / "note.md").read_text() == "mine"
    assert wanted.home.is_dir()
    assert calls.read_text().splitlines()[1:] == [
        " ".join(command) for command in (*supervisor.unload, *supervisor.forget)
    ]


def test_a_service_that_cannot_be_stopped_keeps_its_file(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands("systemctl", failing="*disable*")
    install(wanted, systemd)

    outcome = service.uninstall(systemd)

    assert outcome.code == service.FAILED
    assert "it says no" in outcome.text
    assert systemd.file.exists()


def test_uninstall_where_nothing_answers_removes_the_file_and_the_link_to_it(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()
    install(wanted, systemd)
    systemd.left_over.parent.mkdir()
    systemd.left_over.symlink_to(systemd.file)

    outcome = service.uninstall(systemd)

    assert outcome.code == service.OK
    assert "does not answer here: a daemon that it started goes on" in outcome.text
    assert not systemd.file.exists()
    assert not systemd.left_over.is_symlink()


def test_uninstalling_nothing_is_not_a_failure(supervisor: Supervisor, commands: Commands):
    commands()

    assert service.uninstall(supervisor) == service.ServiceOutcome(
        text=f"Nothing is installed: there is no {supervisor.file}."
    )


def test_status_tells_a_running_service(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands("systemctl", "launchctl")
    install(wanted, supervisor)

    outcome = service.status(supervisor)

    assert outcome == service.ServiceOutcome(
        text=f"installed: yes ({supervisor.file})\nenabled:   yes\nrunning:   yes", code=0
    )


def test_status_tells_an_installed_service_that_does_not_run(
    supervisor: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands("systemctl", "launchctl", failing="*is-active*", state="not running")
    install(wanted, supervisor)

    outcome = service.status(supervisor)

    assert outcome.code == service.NOT_RUNNING
    assert outcome.text.splitlines()[1:] == ["enabled:   yes", "running:   no"]


def test_status_does_not_guess_where_nothing_answers(supervisor: Supervisor, commands: Commands):
    commands()

    outcome = service.status(supervisor)

    assert outcome.code == service.NOT_RUNNING
    assert outcome.text.splitlines()[0] == f"installed: no ({supervisor.file})"
    assert outcome.text.splitlines()[1:3] == ["enabled:   unknown", "running:   unknown"]


def test_status_tells_that_the_file_was_edited(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()
    install(wanted, systemd)
    systemd.file.write_text(systemd.file.read_text().replace("UMask=0077", "UMask=0022"))

    assert service.find_state(systemd).edited
    assert "edited since" in service.status(systemd).text


def test_a_place_that_cannot_be_written_is_named(
    systemd: Supervisor, wanted: ServiceTarget, commands: Commands
):
    commands()
    systemd.file.parents[2].parent.mkdir(parents=True)
    systemd.file.parents[2].write_text("a file where a folder should be")

    with pytest.raises(StorageFailedError, match="could not be written"):
        install(wanted, systemd)


def test_this_person_s_own_session_is_meant(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.platform", "linux")

    assert (
        service.this_supervisor(Path.home() / ".parachute").file
        == Path.home() / ".config/systemd/user/parachute.service"
    )


def test_each_home_has_a_service_of_its_own(
    wanted: ServiceTarget, commands: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    commands("systemctl")
    mine = ServiceTarget(vault=wanted.vault, home=tmp_path / "me/.parachute")
    for one in (mine, wanted):
        assert install(one, service.this_supervisor(one.home)).code == service.OK
    assert [
        str(one.home) in service.this_supervisor(one.home).file.read_text()
        for one in (mine, wanted)
    ] == [True, True]

    service.uninstall(service.this_supervisor(wanted.home))
    assert [file.name for file in files_below(tmp_path / "me/.config")] == ["parachute.service"]


def test_the_service_of_another_home_under_the_plain_name_is_kept(
    wanted: ServiceTarget, commands: Commands, systemd: Supervisor, tmp_path: Path
):
    commands("systemctl")
    install(wanted, systemd)  # as an earlier version named it
    before = systemd.file.read_bytes()

    outcome = install(ServiceTarget(vault=wanted.vault, home=tmp_path / "another"), systemd)

    assert outcome.code == service.FAILED
    assert f"is the service of {wanted.home}" in outcome.text
    assert systemd.file.read_bytes() == before


def test_the_service_takes_the_vault_from_the_settings(
    wanted: ServiceTarget, systemd: Supervisor, commands: Commands
):
    commands("systemctl")
    install(wanted, systemd)

    assert "--vault" not in systemd.file.read_text()
    assert f'ReadWritePaths="{wanted.vault}"' in systemd.file.read_text()
