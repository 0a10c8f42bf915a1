"""Service: installs the daemon under systemd or launchd in the person's own session, takes it away
again, and says how it is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from parachuted.bundled import bundled_folder
from parachuted.cli.client import current_settings
from parachuted.cli.commands import JSON, command, group
from parachuted.cli.show import say, say_json, say_text
from parachuted.cli.supervisor import CommandLine, ServiceTarget, Supervisor, find_supervisor
from parachuted.config import home_folder, load_settings, set_setting
from parachuted.errors import ParachuteError, StorageFailedError
from parachuted.home_files.vault_state import no_vault

OK = 0
FAILED = 1
NOT_RUNNING = 3

_SECONDS = 60
_LOOK_S = 0.2
_NOTE = re.compile(rb"written by `parachute service install`; sha256 ([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOutcome:
    """What to print, and the exit code."""

    text: str
    code: int = OK


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """How the service is; `enabled` and `running` are None where the supervisor does not answer."""

    file: Path
    installed: bool
    edited: bool
    enabled: bool | None
    running: bool | None


SERVICE = group(
    "service",
    "run at login",
    "Let systemd (Linux) or launchd (macOS) start the daemon at login and keep it running.",
)


@command("service install", "install and start the service")
def service_install(_options: Namespace) -> int:
    """Install the service for you alone, and start it."""
    settings = current_settings()
    if not settings.vault.is_dir():
        raise ParachuteError(no_vault(settings.vault))
    home = home_folder(os.environ)
    if load_settings(home, {"HOME": os.fspath(Path.home())}, {}).vault != settings.vault:
        set_setting(home, "vault", os.fspath(settings.vault))
        say(f"The vault {settings.vault} is in config.yaml now, where the service looks for it.")
    return _say(install(ServiceTarget(vault=settings.vault, home=home), this_supervisor(home)))


@command("service uninstall", "stop and remove the service")
def service_uninstall(_options: Namespace) -> int:
    """Stop the service and remove exactly what was installed."""
    return _say(uninstall(this_supervisor(home_folder(os.environ))))


@command("service status", "the state of the service", JSON)
def service_status(options: Namespace) -> int:
    """Say whether the service is installed, enabled and running."""
    supervisor = this_supervisor(home_folder(os.environ))
    if not options.json:
        return _say(status(supervisor))
    state = find_state(supervisor)
    say_json({**asdict(state), "file": os.fspath(state.file)})
    return OK if state.running else NOT_RUNNING


def _say(outcome: ServiceOutcome) -> int:
    say_text(outcome.text.rstrip("\n"))
    return outcome.code


def this_supervisor(home: Path) -> Supervisor:
    """The one of this machine and this person, with the service of that home; raises DaemonError
    where there is none.

    A service that an earlier version installed for the home under the plain name is that home's.
    """
    plain = find_supervisor(sys.platform, Path.home(), os.getuid())
    own = find_supervisor(sys.platform, Path.home(), os.getuid(), home)
    return plain if not _exists(own.file) and _installed_home(plain) == home.resolve() else own


def _installed_home(supervisor: Supervisor) -> Path | None:
    return supervisor.home_of(supervisor.file.read_bytes()) if supervisor.file.is_file() else None


def install(
    wanted: ServiceTarget, supervisor: Supervisor, *, settle_s: float = 2.0
) -> ServiceOutcome:
    """Write the service's file, then enable and start it if the supervisor answers; an installed
    one is replaced and restarted.

    It counts as started when it has run for `settle_s` seconds.
    """
    wanted = replace(wanted, vault=wanted.vault.resolve(), home=wanted.home.resolve())
    if not wanted.vault.is_dir():
        return _failed(
            f"No vault at {wanted.vault}. Make one first: parachute init "
            f"{shlex.quote(str(wanted.vault))}"
        )
    replaced = _exists(supervisor.file)
    if replaced and (refusal := _refusal(supervisor, wanted)) is not None:
        return refusal
    _write(supervisor, wanted)
    wrote = f"Wrote {supervisor.file}."
    if not _succeeds(supervisor.answers):
        return ServiceOutcome(
            text=_lines(wrote, _unheard(supervisor), *map(shlex.join, supervisor.load))
        )
    if replaced:
        _run(supervisor.unload)
    failure = _run(supervisor.load)
    if failure:
        return _failed(_lines(wrote, f"{supervisor.name} did not start it:", failure))
    if not _stays_up(supervisor, settle_s):
        return _failed(
            _lines(wrote, "It was started, but ended at once; the log says why.", *supervisor.hints)
        )
    return ServiceOutcome(
        text=_lines(wrote, "It runs now, and starts again at every login.", *supervisor.hints)
    )


def _refusal(supervisor: Supervisor, wanted: ServiceTarget) -> ServiceOutcome | None:
    if not _is_ours(supervisor):
        return _not_ours(supervisor)
    other = _installed_home(supervisor)
    if other == wanted.home:
        return None
    command = f"PARACHUTE_HOME={shlex.quote(str(other))} parachute service uninstall"
    return _failed(
        f"{supervisor.file} is the service of {other}, and stays as it is. Take it away first: "
        f"{command}"
    )


def uninstall(supervisor: Supervisor) -> ServiceOutcome:
    if not _exists(supervisor.file):
        return ServiceOutcome(text=f"Nothing is installed: there is no {supervisor.file}.")
    if not _is_ours(supervisor):
        return _not_ours(supervisor)
    answers = _succeeds(supervisor.answers)
    failure = _run(supervisor.unload) if answers else None
    if failure:
        return _failed(
            _lines(f"{supervisor.name} did not stop it, so nothing was removed:", failure)
        )
    _remove(supervisor)
    removed = f"Removed {supervisor.file}; the vault and parachuted's home are as they were."
    if not answers:
        return ServiceOutcome(
            text=_lines(
                removed,
                f"{supervisor.name} does not answer here: a daemon that it started goes on until "
                "you log out.",
            )
        )
    _run(supervisor.forget)
    return ServiceOutcome(text=removed)


def find_state(supervisor: Supervisor) -> ServiceState:
    installed = _exists(supervisor.file)
    answers = _succeeds(supervisor.answers)
    return ServiceState(
        file=supervisor.file,
        installed=installed,
        edited=installed and not _is_ours(supervisor),
        enabled=_succeeds(supervisor.enabled) if answers else None,
        running=_succeeds(supervisor.running) if answers else None,
    )


def status(supervisor: Supervisor) -> ServiceOutcome:
    """The state in three lines; the code is 3 unless the service is known to run."""
    state = find_state(supervisor)
    edited = ", and edited since or written by somebody else" if state.edited else ""
    text = _lines(
        f"installed: {_answer(state.installed)} ({state.file}{edited})",
        f"enabled:   {_answer(state.enabled)}",
        f"running:   {_answer(state.running)}",
        *([] if state.running is not None else [f"{supervisor.name} does not answer here."]),
    )
    return ServiceOutcome(text=text, code=OK if state.running else NOT_RUNNING)


def _answer(known: bool | None) -> str:  # noqa: FBT001  it is the whole of what is said
    return {True: "yes", False: "no", None: "unknown"}[known]


def _lines(*lines: str) -> str:
    return "\n".join(lines)


def _failed(text: str) -> ServiceOutcome:
    return ServiceOutcome(text=text, code=FAILED)


def _not_ours(supervisor: Supervisor) -> ServiceOutcome:
    return _failed(
        f"{supervisor.file} was edited or written by somebody else, so it stays as it is. Move it "
        "away and try again."
    )


def _unheard(supervisor: Supervisor) -> str:
    return (
        f"{supervisor.name} does not answer here, so nothing was started. In a session where "
        "it does, run:"
    )


def _exists(file: Path) -> bool:
    return file.is_symlink() or file.exists()


def _is_ours(supervisor: Supervisor) -> bool:
    if supervisor.file.is_symlink() or not supervisor.file.is_file():
        return False
    begin, end = supervisor.note
    body, _, note = supervisor.file.read_bytes().rpartition(begin)
    found = _NOTE.fullmatch(note.removesuffix(end))
    return found is not None and found[1].decode() == sha256(body).hexdigest()


def _signed(supervisor: Supervisor, body: bytes) -> bytes:
    """With a last line by which `uninstall` knows its own file from one that a person wrote or
    changed.
    """
    begin, end = supervisor.note
    return (
        body
        + begin
        + b"written by `parachute service install`; sha256 "
        + sha256(body).hexdigest().encode()
        + end
    )


def _write(supervisor: Supervisor, wanted: ServiceTarget) -> None:
    template = bundled_folder(supervisor.name) / supervisor.template
    content = _signed(supervisor, supervisor.render(template.read_bytes(), wanted))
    temporary = supervisor.file.with_suffix(".new")
    try:
        wanted.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        (wanted.home / "logs").mkdir(exist_ok=True, mode=0o700)
        supervisor.file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.chmod(0o644)
        temporary.replace(supervisor.file)
    except OSError as error:
        raise StorageFailedError(
            f"{supervisor.file} could not be written: {error}", errno=error.errno
        ) from error


def _remove(supervisor: Supervisor) -> None:
    supervisor.file.unlink()
    link = supervisor.left_over
    if link is not None and link.is_symlink() and link.readlink() == supervisor.file:
        link.unlink()


def _run(commands: Iterable[CommandLine]) -> str | None:
    """Run them in order; what the first that failed had to say, or None."""
    for words in commands:
        code, said = _called(words)
        if code != 0:
            return f"{shlex.join(words)} ended with {code}: {said.strip() or 'it said nothing'}"
    return None


def _stays_up(supervisor: Supervisor, seconds: float) -> bool:
    """Whether it still runs after so many seconds; to a supervisor a start is only a fork."""
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
