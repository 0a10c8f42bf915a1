"""Service: installs the daemon under systemd or launchd, removes it, and says how it is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from parachuted.cli.client import current_settings
from parachuted.cli.commands import JSON, Command, Json, command
from parachuted.cli.show import say, say_json, say_text
from parachuted.cli.supervisor import CommandLine, ServiceTarget, Supervisor, find_supervisor
from parachuted.config import home_folder, load_settings, set_setting
from parachuted.errors import DaemonError, ParachuteError, StorageFailedError
from parachuted.home_files.bundled import bundled_folder
from parachuted.home_files.vault_state import no_vault

_NOT_RUNNING = 3
_SECONDS = 60
_LOOK_S = 0.2
_NOTE = re.compile(rb"written by `parachute service install`; sha256 ([0-9a-f]{64})")

SERVICE = Command(
    "service",
    "run at login",
    "Let systemd (Linux) or launchd (macOS) start the daemon at login and keep it running.",
)


@command("service install", "install and start the service")
def service_install(_options: Namespace) -> None:
    """Install the service for you alone, and start it."""
    vault, home = current_settings().vault, home_folder(os.environ)
    if not vault.is_dir():
        raise ParachuteError(no_vault(vault))
    if load_settings(home, {"HOME": os.fspath(Path.home())}, {}).vault != vault:
        set_setting(home, "vault", os.fspath(vault))
        say(f"The vault {vault} is in config.yaml now, where the service looks for it.")
    target = ServiceTarget(vault=vault.resolve(), home=home.resolve())
    say_text(install(target, this_supervisor(home)))


@command("service uninstall", "stop and remove the service")
def service_uninstall(_options: Namespace) -> None:
    """Stop the service and remove exactly what was installed."""
    say_text(uninstall(this_supervisor(home_folder(os.environ))))


@command("service status", "the state of the service", JSON)
def service_status(options: Namespace) -> int:
    """Say whether the service is installed, enabled and running."""
    supervisor = this_supervisor(home_folder(os.environ))
    state = find_state(supervisor)
    if options.json:
        say_json(state)
    else:
        edited = ", and edited since or written by somebody else" if state["edited"] else ""
        known = {True: "yes", False: "no", None: "unknown"}
        say(f"installed: {known[state['installed']]} ({state['file']}{edited})")
        say(f"enabled:   {known[state['enabled']]}")
        say(f"running:   {known[state['running']]}")
        if state["running"] is None:
            say(f"{supervisor.name} does not answer here.")
    return 0 if state["running"] else _NOT_RUNNING


def this_supervisor(home: Path) -> Supervisor:
    """That of this machine, person and home. Raises DaemonError. An earlier version installed a
    service under the plain name for any home: that is its home's.
    """
    plain = find_supervisor(sys.platform, Path.home(), os.getuid())
    own = find_supervisor(sys.platform, Path.home(), os.getuid(), home)
    return (
        plain if not os.path.lexists(own.file) and _installed_home(plain) == home.resolve() else own
    )


def _installed_home(supervisor: Supervisor) -> Path | None:
    return supervisor.home_of(supervisor.file.read_bytes()) if supervisor.file.is_file() else None


def install(wanted: ServiceTarget, supervisor: Supervisor, *, settle_s: float = 2.0) -> str:
    """Write the service's file and start it, if the supervisor answers; an installed one is
    replaced. What to print; raises DaemonError.

    It counts as started when it has run for `settle_s` seconds.
    """
    is_there = os.path.lexists(supervisor.file)
    if is_there:
        _refuse_foreign(supervisor)
        home = _installed_home(supervisor)
        if home != wanted.home:
            how = f"PARACHUTE_HOME={shlex.quote(str(home))} parachute service uninstall"
            raise DaemonError(f"{supervisor.file} is the service of {home}; remove it first: {how}")
    _write(supervisor, wanted)
    wrote = f"Wrote {supervisor.file}."
    if not _succeeds(supervisor.answers):
        silent = f"{supervisor.name} does not answer here, so nothing was started. In a session"
        commands = map(shlex.join, supervisor.load)
        return "\n".join([wrote, f"{silent} where it does, run:", *commands])
    if is_there:
        _run(supervisor.unload)
    if failure := _run(supervisor.load):
        raise DaemonError(f"{wrote}\n{supervisor.name} did not start it:\n{failure}")
    if not _stays_up(supervisor, settle_s):
        ended = f"{wrote}\nIt was started, but ended at once; the log says why."
        raise DaemonError("\n".join([ended, *supervisor.hints]))
    return "\n".join([wrote, "It runs now, and starts again at every login.", *supervisor.hints])


def uninstall(supervisor: Supervisor) -> str:
    if not os.path.lexists(supervisor.file):
        return f"Nothing is installed: there is no {supervisor.file}."
    _refuse_foreign(supervisor)
    answers = _succeeds(supervisor.answers)
    if answers and (failure := _run(supervisor.unload)):
        raise DaemonError(f"{supervisor.name} did not stop it, so nothing was removed:\n{failure}")
    supervisor.file.unlink()
    link = supervisor.left_over
    if link is not None and link.is_symlink() and link.readlink() == supervisor.file:
        link.unlink()
    removed = f"Removed {supervisor.file}; the vault and parachuted's home are as they were."
    if not answers:
        goes_on = "a daemon that it started goes on until you log out"
        return f"{removed}\n{supervisor.name} does not answer here: {goes_on}."
    _run(supervisor.forget)
    return removed


def find_state(supervisor: Supervisor) -> Json:
    """How the service is; `enabled` and `running` are None where the supervisor does not answer."""
    is_installed, answers = os.path.lexists(supervisor.file), _succeeds(supervisor.answers)
    return {
        "file": os.fspath(supervisor.file),
        "installed": is_installed,
        "edited": is_installed and not _is_ours(supervisor),
        "enabled": _succeeds(supervisor.enabled) if answers else None,
        "running": _succeeds(supervisor.running) if answers else None,
    }


def _refuse_foreign(supervisor: Supervisor) -> None:
    if not _is_ours(supervisor):
        what = f"{supervisor.file} was edited or written by somebody else, so it stays as it is"
        raise DaemonError(f"{what}. Move it away and try again.")


def _is_ours(supervisor: Supervisor) -> bool:
    """Whether it ends with the digest of what stands before, as `_write` wrote it."""
    if supervisor.file.is_symlink() or not supervisor.file.is_file():
        return False
    begin, end = supervisor.note
    body, _, note = supervisor.file.read_bytes().rpartition(begin)
    found = _NOTE.fullmatch(note.removesuffix(end))
    return found is not None and found[1].decode() == sha256(body).hexdigest()


def _write(supervisor: Supervisor, wanted: ServiceTarget) -> None:
    template = bundled_folder(supervisor.name) / supervisor.template
    body, (begin, end) = supervisor.render(template.read_bytes(), wanted), supervisor.note
    digest = sha256(body).hexdigest().encode()
    note = b"written by `parachute service install`; sha256 " + digest
    temporary = supervisor.file.with_suffix(".new")
    try:
        wanted.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        (wanted.home / "logs").mkdir(exist_ok=True, mode=0o700)
        supervisor.file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(body + begin + note + end)
        temporary.chmod(0o644)
        temporary.replace(supervisor.file)
    except OSError as error:
        reason = f"{supervisor.file} could not be written: {error}"
        raise StorageFailedError(reason, errno=error.errno) from error


def _run(commands: Iterable[CommandLine]) -> str | None:
    for words in commands:
        code, said = _called(words)
        if code != 0:
            return f"{shlex.join(words)} ended with {code}: {said.strip() or 'it said nothing'}"
    return None


def _stays_up(supervisor: Supervisor, seconds: float) -> bool:
    """To a supervisor a start is only a fork."""
    until = time.monotonic() + seconds
    while _succeeds(supervisor.running):
        if time.monotonic() >= until:
            return True
        time.sleep(_LOOK_S)
    return False


def _succeeds(command: CommandLine) -> bool:
    return _called(command)[0] == 0


def _called(command: CommandLine) -> tuple[int, str]:
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        return 127, "the program is missing"
    except subprocess.TimeoutExpired:
        return 124, f"it did not end within {_SECONDS} s"
    return done.returncode, done.stdout + done.stderr
