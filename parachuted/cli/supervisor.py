"""Supervisors, systemd and launchd, as values: a machine that has neither can test them."""

from __future__ import annotations

import os
import plistlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Literal
from xml.parsers.expat import ExpatError

from parachuted.errors import DaemonError

CommandLine = tuple[str, ...]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervisor:
    name: Literal["systemd", "launchd"]  # and of the bundled folder with its template
    file: Path  # what `install` writes
    template: str
    render: Callable[[bytes, ServiceTarget], bytes]
    note: tuple[bytes, bytes]  # what a comment begins and ends with
    answers: CommandLine  # succeeds when the supervisor can be spoken to
    load: tuple[CommandLine, ...]
    unload: tuple[CommandLine, ...]
    forget: tuple[CommandLine, ...]  # once the file is gone
    enabled: CommandLine
    running: CommandLine
    home_of: Callable[[bytes], Path | None]  # which home an installed file is for
    left_over: Path | None  # a link that `load` makes and `unload` removes
    hints: tuple[str, ...]


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
    systemctl = ("systemctl", "--user")
    return Supervisor(
        name="systemd",
        file=folder / unit,
        template=f"{_SYSTEMD}.service",
        home_of=_home_of_unit,
        render=render_unit,
        note=(b"# ", b"\n"),
        answers=(*systemctl, "show-environment"),
        load=(
            (*systemctl, "daemon-reload"),
            (*systemctl, "enable", unit),
            (*systemctl, "restart", unit),
        ),
        unload=((*systemctl, "disable", "--now", unit),),
        forget=((*systemctl, "daemon-reload"),),
        enabled=(*systemctl, "is-enabled", "--quiet", unit),
        running=(*systemctl, "is-active", "--quiet", unit),
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
    found = re.search(r'(?m)^Environment="PARACHUTE_HOME=(.*)"$', unit.decode("utf-8", "replace"))
    return Path(re.sub(r"([\\%])(.)", r"\2", found[1])) if found is not None else None


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
