"""Supervisors: systemd and launchd, the file that each is told by, and the commands that it obeys.

Pure on purpose: what is written and run must be testable on a machine that has neither. `service` does the writing and running.
"""

from __future__ import annotations

import plistlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from parachuted.errors import DaemonError

Command = tuple[str, ...]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_UNSAFE = re.compile(r"[\\'\"]")
_ALSO_WRITTEN = "-%h/.claude -/sys/fs/cgroup/user.slice/user-%U.slice/user@%U.service/app.slice/%n"  # as in the template, which says why
_UNIT = "parachute.service"
_LABEL = "parachuted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The daemon that the service is to run; all paths absolute."""

    vault: Path
    home: Path
    port: int | None = None
    program: Command = (sys.executable, "-P", "-m", "parachuted")  # -P: a folder named parachuted in the current one is not us

    @property
    def command(self) -> Command:
        """The whole command."""
        port = () if self.port is None else ("--port", str(self.port))
        return (*self.program, "start", "--foreground", "--vault", str(self.vault), *port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    """What starts the daemon at login and again after a crash."""

    name: Literal["systemd", "launchd"]  # and of the bundled folder with its template
    file: Path  # what `install` writes; the template has the same name
    render: Callable[[bytes, Wanted], bytes]
    note: tuple[bytes, bytes]  # what a comment begins and ends with
    answers: Command  # succeeds when the supervisor can be spoken to
    load: tuple[Command, ...]
    unload: tuple[Command, ...]
    forget: tuple[Command, ...]  # once the file is gone
    enabled: Command
    running: Command
    left_over: Path | None  # a link that `load` makes and `unload` removes
    hints: tuple[str, ...]


def find_supervisor(platform: str, user_home: Path, uid: int) -> Supervisor:
    """The one that `platform` (as in sys.platform) has; raises DaemonError where there is none."""
    if platform == "darwin":
        return _launchd(user_home, uid)
    if platform.startswith("linux"):
        return _systemd(user_home)
    raise DaemonError(f"No service can be installed on {platform}: only systemd (Linux) and launchd (macOS) are known.")


def _systemd(user_home: Path) -> Supervisor:
    folder = user_home / ".config/systemd/user"
    systemctl = ("systemctl", "--user")
    return Supervisor(
        name="systemd",
        file=folder / _UNIT,
        render=render_unit,
        note=(b"# ", b"\n"),
        answers=(*systemctl, "show-environment"),
        load=((*systemctl, "daemon-reload"), (*systemctl, "enable", _UNIT), (*systemctl, "restart", _UNIT)),
        unload=((*systemctl, "disable", "--now", _UNIT),),
        forget=((*systemctl, "daemon-reload"),),
        enabled=(*systemctl, "is-enabled", "--quiet", _UNIT),
        running=(*systemctl, "is-active", "--quiet", _UNIT),
        left_over=folder / "default.target.wants" / _UNIT,
        hints=(
            f"Its log: journalctl --user -u {_UNIT} -f",
            "It stops when you log out; to keep it: loginctl enable-linger",
        ),
    )


def _launchd(user_home: Path, uid: int) -> Supervisor:
    file = user_home / "Library/LaunchAgents" / f"{_LABEL}.plist"
    domain = f"gui/{uid}"
    service = f"{domain}/{_LABEL}"
    return Supervisor(
        name="launchd",
        file=file,
        render=render_plist,
        note=(b"<!-- ", b" -->\n"),
        answers=("launchctl", "print", domain),
        load=(("launchctl", "enable", service), ("launchctl", "bootstrap", domain, str(file))),
        unload=(("launchctl", "bootout", service),),
        forget=(),
        enabled=("launchctl", "print", service),
        running=("sh", "-c", f"launchctl print {service} | grep -q 'state = running'"),
        left_over=None,
        hints=("Its log: logs/service.log in parachuted's home",),
    )


def render_unit(template: bytes, wanted: Wanted) -> bytes:
    """The unit with these paths in it, whatever characters they hold; raises DaemonError for those that no unit can hold."""
    if _UNSAFE.search(wanted.program[0]):
        raise DaemonError(f"systemd starts no program whose path holds quotes or backslashes, as {wanted.program[0]} does.")
    command = " ".join(_quoted(word) for word in wanted.command)
    lines = {
        b"ExecStart": f"ExecStart=:{command}",  # the colon: `$` means itself
        b"Environment": f"Environment={_quoted(f'PARACHUTE_HOME={wanted.home}')}",
        b"ReadWritePaths": f"ReadWritePaths={_quoted(str(wanted.vault))} {_quoted(str(wanted.home))} {_ALSO_WRITTEN}",
    }
    for key, line in lines.items():
        template = _with_line(template, key, line.encode())
    return template


def _with_line(template: bytes, key: bytes, line: bytes) -> bytes:
    text, count = re.subn(rb"(?m)^%s=.*$" % key, lambda _: line, template)
    if count != 1:
        raise DaemonError(f"The unit that came with this installation has {count} lines {key.decode()}= where it should have one.")
    return text


def _quoted(word: str) -> str:
    refuse_control_characters(word)
    return '"{}"'.format(word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%"))


def render_plist(template: bytes, wanted: Wanted) -> bytes:
    """The property list with these paths in it; raises DaemonError for those that no property list can hold."""
    for word in (*wanted.command, str(wanted.home)):
        refuse_control_characters(word)
    log = str(wanted.home / "logs/service.log")
    content = plistlib.loads(template) | {
        "ProgramArguments": list(wanted.command),
        "EnvironmentVariables": {"PARACHUTE_HOME": str(wanted.home)},
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(content, sort_keys=False)


def refuse_control_characters(word: str) -> None:
    """Raises DaemonError for what a service's file cannot say: line breaks, and bytes that are not UTF-8."""
    if _CONTROL.search(word):
        raise DaemonError(f"A service cannot be given {word!r}: it holds control characters or is not UTF-8.")
