"""Daemon commands: start, stop, restart, logs.

What a daemon is made of is imported when one begins here, and a second one is refused before that.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from parachuted.cli.client import ask, home_of
from parachuted.cli.show import say
from parachuted.errors import DaemonError, NoDaemonError, ParachuteError
from parachuted.presence import refuse_second, running_daemon

_PATIENCE_S = 30.0
_STEP_S = 0.02
_LEAST_ROOM = 4 << 20


def start(options: Namespace) -> int:
    """`parachute start`."""
    home = home_of(os.environ)
    record = running_daemon(home)
    if record is not None:
        raise DaemonError(f"a daemon is already running (pid {record['pid']}) on {record['vault']}; `parachute status` tells more")
    from parachuted.cli.setup import load, make_vault

    settings = load({"vault": options.vault, "port": options.port})
    if not settings.vault.exists():
        say(make_vault(settings.vault))
    refuse_second(home, os.fspath(settings.vault))
    for folder in (home, os.fspath(settings.vault)):
        _refuse_full_disk(folder)
    if not options.foreground:
        return _background(home, settings, options)
    gc.disable()  # loading makes objects and drops few; the daemon lets it begin once the first scan is done
    from parachuted.cli.foreground import serve

    given = {"vault": os.fspath(settings.vault) if options.vault is not None else None, "port": options.port}
    serve(settings, quiet=options.quiet, flags={name: value for name, value in given.items() if value is not None})
    return 0


def stop(_options: Namespace) -> int:
    """`parachute stop`."""
    record = running_daemon(home_of(os.environ))
    if record is None:
        raise NoDaemonError("no daemon is running, so there is nothing to stop")
    _end(int(str(record["pid"])))
    say("Stopped.")
    return 0


def restart(options: Namespace) -> int:
    """`parachute restart`: with the settings as they are now, and what the running daemon was told beside them."""
    from parachuted.cli.setup import load

    record = running_daemon(home_of(os.environ))
    flags = record.get("flags") if record is not None else None
    if isinstance(flags, dict):
        options.vault = options.vault if options.vault is not None else flags.get("vault")
        options.port = options.port if options.port is not None else flags.get("port")
    load({"vault": options.vault, "port": options.port})  # wrong settings are told while the daemon still runs
    if record is not None:
        _end(int(str(record["pid"])))
    options.foreground = options.quiet = False
    return start(options)


def logs(options: Namespace) -> NoReturn:
    """`parachute logs`."""
    path = _logs(home_of(os.environ)) / "daemon.log"
    if not path.exists():
        raise ParachuteError(f"there is no log yet at {path}")
    words = ["tail", "-n", str(max(0, options.lines)), *(["-F"] if options.follow else []), os.fspath(path)]
    sys.stdout.flush()
    os.execvp("tail", words)  # noqa: S606, S607  it is everywhere and knows rotation; in our place, it is never left behind


def _background(home: str, settings: Any, options: Namespace) -> int:  # noqa: ANN401  Settings, which would have to be imported
    output = _logs(home) / "start.log"
    output.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    command = [sys.executable, "-m", "parachuted", "start", "--foreground", "--quiet"]
    command += ["--vault", os.fspath(settings.vault)] if options.vault is not None else []
    command += ["--port", str(settings.port)] if options.port is not None else []
    environment = {**os.environ, "PARACHUTE_HOME": home}  # which may have been relative to this folder, as the vault may have been
    if environment.get("PARACHUTE_VAULT"):
        environment["PARACHUTE_VAULT"] = os.fspath(settings.vault)
    with output.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603  our own program
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, cwd="/", env=environment
        )  # fmt: skip
    record = _wait(lambda: running_daemon(home), process)
    if record is None:
        said = output.read_text("utf-8", "replace").strip().splitlines()
        raise DaemonError(f"the daemon did not start: {said[-1].removeprefix('parachute: ') if said else 'it said nothing'}")
    agent = ask("GET", "/api/health?detailed=true")["agent"]
    say(f"Started: pid {record['pid']}, http://{record['host']}:{record['port']}, watching {record['vault']}.")
    say(f"Agent: {agent['reason']}.")
    return 0


def _refuse_full_disk(folder: str) -> None:
    """Raise DaemonError where so little can be written that a daemon could not even say what is wrong."""
    there = Path(folder)
    while not there.exists():
        there = there.parent
    disk = os.statvfs(there)
    free = disk.f_bavail * disk.f_frsize
    if free < _LEAST_ROOM or (disk.f_files > 0 and disk.f_favail == 0):
        raise DaemonError(
            f"the disk of {folder} is full ({free // 1024} KB and {disk.f_favail} files free); make room for {_LEAST_ROOM >> 20} MB there, "
            "then start again"
        )


def _wait(look: Callable[[], dict[str, object] | None], process: subprocess.Popen[bytes]) -> dict[str, object] | None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        found = look()
        if found is not None:
            return found
        time.sleep(_STEP_S)
    return None


def _end(pid: int) -> None:
    """Ask the daemon to end and wait until its lock is free."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return  # it has just ended by itself
    except PermissionError as error:
        raise DaemonError(f"the daemon (pid {pid}) is another user's") from error
    deadline = time.monotonic() + _PATIENCE_S
    while running_daemon(home_of(os.environ)) is not None:
        if time.monotonic() > deadline:
            raise DaemonError(f"the daemon (pid {pid}) does not end; `kill -9 {pid}` is safe, nothing is lost")
        time.sleep(_STEP_S)


def _logs(home: str) -> Path:
    return Path(home, "logs")
