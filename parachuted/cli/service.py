"""Service: installs the daemon under systemd or launchd, removes it, and says how it is.

The two are values, so that a machine that has neither can test them.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple
from xml.parsers.expat import ExpatError

from parachuted.cli.client import current_settings
from parachuted.cli.commands import JSON, Command, Json, command
from parachuted.cli.show import say, say_each, say_json, say_text
from parachuted.config import home_folder, load_settings, set_setting
from parachuted.errors import DaemonError, ParachuteError, StorageFailedError
from parachuted.home_files.bundled import bundled_folder
from parachuted.home_files.vault_state import no_vault

CommandLine = tuple[str, ...]

_NOT_RUNNING = 3
_SECONDS = 60
_LOOK_S = 0.2
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_UNSAFE = re.compile(r"[\\'\"]")
_ALSO_WRITTEN = "-%h/.claude"  # as in the template, which says why
_SYSTEMD = "parachute"
_LAUNCHD = "parachuted"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTarget:
    """The daemon that the service runs, and the vault that it may write; absolute paths."""

    vault: Path
    home: Path
    # -P: a folder named parachuted in the current one is not us
    program: CommandLine = (sys.executable, "-P", "-m", "parachuted")

    @property
    def command(self) -> CommandLine:
        return (*self.program, "start", "--foreground")


class Supervisor(NamedTuple):
    """What installs and starts a service, as files and commands."""

    name: Literal["systemd", "launchd"]  # and of the bundled folder with its template
    file: Path  # what `install` writes
    template: str
    render: Callable[[bytes, ServiceTarget], bytes]
    answers: CommandLine  # succeeds when the supervisor can be spoken to
    load: tuple[CommandLine, ...]
    unload: tuple[CommandLine, ...]
    forget: tuple[CommandLine, ...]  # once the file is gone
    enabled: CommandLine
    running: CommandLine
    home_of: Callable[[bytes], Path | None]  # the home that a file of ours is for
    left_over: Path | None  # a link that `load` makes and `unload` removes
    hints: tuple[str, ...]


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
    code = 0 if state["running"] else _NOT_RUNNING
    if options.json:
        say_json(state)
        return code
    known = {True: "yes", False: "no", None: "unknown"}
    say(f"installed: {known[state['installed']]} ({state['file']})")
    say_each(f"{f'{name}:':10} {known[state[name]]}" for name in ("enabled", "running"))
    if state["running"] is None:
        say(f"{supervisor.name} does not answer here.")
    return code


def this_supervisor(home: Path) -> Supervisor:
    """That of this machine, person and home. Raises DaemonError."""
    return find_supervisor(sys.platform, Path.home(), os.getuid(), home)


def find_supervisor(
    platform: str, user_home: Path, uid: int, home: Path | None = None
) -> Supervisor:
    """That of `platform` (as in sys.platform), with the service of that home. Raises DaemonError.

    The service of ~/.parachute has the plain name, others the folder's name and a hash.
    """
    suffix = ""
    if home is not None and home.resolve() != (user_home / ".parachute").resolve():
        place = home.resolve()
        name = re.sub(r"[^a-z0-9]+", "-", place.name.lower()).strip("-")
        name = name.removeprefix("parachute").strip("-") or "home"
        suffix = f"-{name}-{sha256(os.fsencode(place)).hexdigest()[:6]}"
    if platform == "darwin":
        return _launchd(user_home, uid, f"{_LAUNCHD}{suffix}")
    if platform.startswith("linux"):
        return _systemd(user_home, f"{_SYSTEMD}{suffix}.service")
    known = "only systemd (Linux) and launchd (macOS) are known"
    raise DaemonError(f"No service can be installed on {platform}: {known}.")


def _systemd(user_home: Path, unit: str) -> Supervisor:
    folder = user_home / ".config/systemd/user"

    def systemctl(*words: str) -> CommandLine:
        return ("systemctl", "--user", *words)

    return Supervisor(
        name="systemd",
        file=folder / unit,
        template=f"{_SYSTEMD}.service",
        home_of=_home_of_unit,
        render=render_unit,
        answers=systemctl("show-environment"),
        load=(systemctl("daemon-reload"), systemctl("enable", unit), systemctl("restart", unit)),
        unload=(systemctl("disable", "--now", unit),),
        forget=(systemctl("daemon-reload"),),
        enabled=systemctl("is-enabled", "--quiet", unit),
        running=systemctl("is-active", "--quiet", unit),
        left_over=folder / "default.target.wants" / unit,
        hints=(
            f"Its log: journalctl --user -u {unit} -f",
            "It stops when you log out; to have it always: loginctl enable-linger",
            "It takes all from the settings, and a login from `parachute auth set`.",
        ),
    )


def _launchd(user_home: Path, uid: int, label: str) -> Supervisor:
    file = user_home / "Library/LaunchAgents" / f"{label}.plist"
    domain = f"gui/{uid}"
    service = f"{domain}/{label}"
    return Supervisor(
        name="launchd",
        file=file,
        template=f"{_LAUNCHD}.plist",
        home_of=_home_of_plist,
        render=partial(render_plist, label=label),
        answers=("launchctl", "print", domain),
        load=(("launchctl", "enable", service), ("launchctl", "bootstrap", domain, str(file))),
        unload=(("launchctl", "bootout", service),),
        forget=(),
        enabled=("launchctl", "print", service),
        running=("sh", "-c", f"launchctl print {service} | grep -q 'state = running'"),
        left_over=None,
        hints=("Its log: logs/service.log in parachuted's home",),
    )


def install(wanted: ServiceTarget, supervisor: Supervisor, *, settle_s: float = 2.0) -> str:
    """Write the service's file and start it, if the supervisor answers; an installed one is
    replaced. What to print; raises DaemonError.

    It counts as started when it has run for `settle_s` seconds.
    """
    is_there = os.path.lexists(supervisor.file)
    if is_there:
        _refuse_foreign(supervisor)
    _write(supervisor, wanted)
    wrote = f"Wrote {supervisor.file}."
    if _failure(supervisor.answers):
        silent = f"{supervisor.name} does not answer here, so nothing was started. In a session"
        commands = map(shlex.join, supervisor.load)
        return "\n".join([wrote, f"{silent} where it does, run:", *commands])
    if is_there:
        _failure(*supervisor.unload)
    if failure := _failure(*supervisor.load):
        raise DaemonError(f"{wrote}\n{supervisor.name} did not start it:\n{failure}")
    if not _stays_up(supervisor, settle_s):
        ended = f"{wrote}\nIt was started, but ended at once; the log says why."
        raise DaemonError("\n".join([ended, *supervisor.hints]))
    return "\n".join([wrote, "It runs now, and starts again at every login.", *supervisor.hints])


def uninstall(supervisor: Supervisor) -> str:
    if not os.path.lexists(supervisor.file):
        return f"Nothing is installed: there is no {supervisor.file}."
    _refuse_foreign(supervisor)
    answers = not _failure(supervisor.answers)
    if answers and (failure := _failure(*supervisor.unload)):
        raise DaemonError(f"{supervisor.name} did not stop it, so nothing was removed:\n{failure}")
    supervisor.file.unlink()
    link = supervisor.left_over
    if link is not None and link.is_symlink() and link.readlink() == supervisor.file:
        link.unlink()
    removed = f"Removed {supervisor.file}; the vault and parachuted's home are as they were."
    if not answers:
        goes_on = "a daemon that it started goes on until you log out"
        return f"{removed}\n{supervisor.name} does not answer here: {goes_on}."
    _failure(*supervisor.forget)
    return removed


def find_state(supervisor: Supervisor) -> Json:
    """How the service is; `enabled` and `running` are None where the supervisor does not answer."""
    is_installed, answers = os.path.lexists(supervisor.file), not _failure(supervisor.answers)
    return {
        "file": os.fspath(supervisor.file),
        "installed": is_installed,
        "enabled": not _failure(supervisor.enabled) if answers else None,
        "running": not _failure(supervisor.running) if answers else None,
    }


def _refuse_foreign(supervisor: Supervisor) -> None:
    file = supervisor.file
    if file.is_symlink() or not file.is_file() or supervisor.home_of(file.read_bytes()) is None:
        what = f"{file} was written by somebody else, so it stays as it is"
        raise DaemonError(f"{what}. Move it away and try again.")


def _write(supervisor: Supervisor, wanted: ServiceTarget) -> None:
    template = bundled_folder(supervisor.name) / supervisor.template
    body = supervisor.render(template.read_bytes(), wanted)
    temporary = supervisor.file.with_suffix(".new")
    try:
        wanted.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        (wanted.home / "logs").mkdir(exist_ok=True, mode=0o700)
        supervisor.file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(body)
        temporary.chmod(0o644)
        temporary.replace(supervisor.file)
    except OSError as error:
        reason = f"{supervisor.file} could not be written: {error}"
        raise StorageFailedError(reason, errno=error.errno) from error


def _failure(*commands: CommandLine) -> str:
    """Why the first of these that fails does; empty where all succeed."""
    for words in commands:
        try:
            done = subprocess.run(  # noqa: S603
                words,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
            code, said = done.returncode, done.stdout + done.stderr
        except FileNotFoundError:
            code, said = 127, "the program is missing"
        except subprocess.TimeoutExpired:
            code, said = 124, f"it did not end within {_SECONDS} s"
        if code:
            return f"{shlex.join(words)} ended with {code}: {said.strip() or 'it said nothing'}"
    return ""


def _stays_up(supervisor: Supervisor, seconds: float) -> bool:
    """To a supervisor a start is only a fork."""
    until = time.monotonic() + seconds
    while not _failure(supervisor.running):
        if time.monotonic() >= until:
            return True
        time.sleep(_LOOK_S)
    return False


def render_unit(template: bytes, wanted: ServiceTarget) -> bytes:
    if _UNSAFE.search(wanted.program[0]):
        why = f"systemd starts no program whose path holds quotes or backslashes: {wanted.program}"
        raise DaemonError(why)
    command = " ".join(map(_quoted, wanted.command))
    written = f"{_quoted(str(wanted.vault))} {_quoted(str(wanted.home))} {_ALSO_WRITTEN}"
    lines = {
        "ExecStart": f":{command}",  # the colon: `$` means itself
        "Environment": _quoted(f"PARACHUTE_HOME={wanted.home}"),
        "ReadWritePaths": written,
    }
    for key, value in lines.items():
        before, *after = re.split(rb"(?m)^%s=.*$" % key.encode(), template)
        if len(after) != 1:
            raise DaemonError(f"The unit of this installation has {len(after)} lines {key}=.")
        template = before + f"{key}={value}".encode() + after[0]
    return template


def _quoted(word: str) -> str:
    _refuse_control_characters(word)
    return '"{}"'.format(word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%"))


def _home_of_unit(unit: bytes) -> Path | None:
    match = re.search(r'(?m)^Environment="PARACHUTE_HOME=(.*)"$', unit.decode("utf-8", "replace"))
    return Path(re.sub(r"([\\%])(.)", r"\2", match[1])) if match is not None else None


def render_plist(template: bytes, wanted: ServiceTarget, label: str = _LAUNCHD) -> bytes:
    for word in (*wanted.command, str(wanted.home)):
        _refuse_control_characters(word)
    log = str(wanted.home / "logs/service.log")
    content = plistlib.loads(template) | {
        "Label": label,
        "ProgramArguments": list(wanted.command),
        "EnvironmentVariables": {"PARACHUTE_HOME": str(wanted.home)},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(content, sort_keys=False)


def _home_of_plist(content: bytes) -> Path | None:
    try:
        return Path(plistlib.loads(content)["EnvironmentVariables"]["PARACHUTE_HOME"])
    except (plistlib.InvalidFileException, ExpatError, KeyError, TypeError, ValueError):
        return None


def _refuse_control_characters(word: str) -> None:
    if _CONTROL.search(word):
        why = "it holds control characters or is not UTF-8"
        raise DaemonError(f"A service cannot be given {word!r}: {why}.")
