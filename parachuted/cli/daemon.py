"""Daemon commands: start, stop, restart, logs. The daemon's parts are imported last."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from parachuted.cli.client import ask, found_daemon
from parachuted.cli.commands import JSON, command
from parachuted.cli.show import say, say_each, say_text
from parachuted.errors import ConfigError, DaemonError, NoDaemonError, ParachuteError
from parachuted.processes.presence import (
    absolute,
    home_of,
    is_locked,
    refuse_second,
    running_daemon,
)

if TYPE_CHECKING:
    from parachuted.config import Settings

_T = TypeVar("_T")
_PATIENCE_S = 30.0
_STEP_S = 0.02
_LEAST_ROOM = 4 << 20

_WHERE = """
    --vault PATH  the folder of notes (default: the setting `vault`)
    --port N  the port on 127.0.0.1; 0 takes a free one (default: the setting `port`)
"""
# the second is for `make run`; by the third `start` starts itself in the background
_START = """
    --foreground  stay here, and show what happens; Ctrl-C ends it
    --make-default  hidden
    --quiet  with --foreground: show nothing; the log has it
    --detached  hidden
"""


@command("start", "start the daemon", _WHERE + _START)
def start(options: Namespace) -> int:
    """Start watching the vault, in the background unless --foreground."""
    home = _home_without_daemon()
    if options.make_default:
        from parachuted.cli.setup import make_default_vault

        make_default_vault(_load(options.vault, options.port).vault)
    if not options.foreground:
        return start_in_background(options.vault, options.port)
    gc.disable()  # loading makes objects and drops few; the daemon lets it begin once all is loaded
    settings = _load(options.vault, options.port)
    _refuse(home, settings)
    for note in () if options.detached else settings.notes:
        say(f"note  {note}")
    from parachuted.cli.foreground import serve

    flags: dict[str, object] = {} if options.detached else {"foreground": True}
    if options.vault is not None:
        flags["vault"] = os.fspath(settings.vault)
    if options.port is not None:
        flags["port"] = options.port
    serve(settings, quiet=options.quiet or options.detached, flags=flags)
    return 0


def start_in_background(vault: str | None = None, port: int | None = None) -> int:
    """What `parachute start` does. Raises DaemonError, ConfigError, NoDaemonError."""
    home = _home_without_daemon()
    _refuse_full_disk(home)
    # what was relative to this folder
    environment = {**os.environ, "PARACHUTE_HOME": home}
    for name in ("PARACHUTE_VAULT", "VAULT_PATH"):
        if environment.get(name):
            environment[name] = absolute(environment[name], os.environ)
    words = [sys.executable, "-m", "parachuted", "start", "--foreground", "--detached"]
    if vault is not None:
        vault = absolute(vault, os.environ)
        words += ["--vault", vault]
    words += ["--port", str(port)] if port is not None else []
    output = Path(home, "logs", "start.log")
    output.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with output.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603  our own program
            words,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            cwd="/",
            env=environment,
        )
    try:
        settings = _load(vault, port)  # while the daemon begins; it ends for wrong settings too
    except ConfigError:
        process.terminate()
        process.wait()
        raise
    say_each(f"note  {note}" for note in settings.notes)
    record = _wait(home, process)
    try:
        if record is not None:
            return _greet(record)
        _refuse(home, settings)
    except NoDaemonError:
        process.wait(_PATIENCE_S)
    said = output.read_text("utf-8", "replace").strip().splitlines()
    silent = f"it ended with {process.returncode}; `parachute logs` may say why"
    why = said[-1].removeprefix("parachute: ") if said else silent
    raise DaemonError(f"the daemon did not start: {why}")


def _home_without_daemon() -> str:
    home = home_of(os.environ)
    record = running_daemon(home)
    if record is not None:
        there = f"a daemon is already running (pid {record['pid']}) on {record['vault']}"
        raise DaemonError(f"{there}; `parachute status` tells more")
    return home


def _load(vault: str | None, port: int | None) -> Settings:
    from parachuted.config import home_folder, load_settings

    return load_settings(home_folder(os.environ), os.environ, {"vault": vault, "port": port})


def _refuse(home: str, settings: Settings, running: dict[str, object] | None = None) -> None:
    """Raise DaemonError where none could start, in the place of the one that is running."""
    from parachuted.home_files.vault_state import no_vault, state_folder

    if not settings.vault.is_dir():
        goes_on = "" if running is None else ". The daemon that is running goes on"
        raise DaemonError(f"{no_vault(settings.vault)}{goes_on}")
    if running is None:
        refuse_second(home, os.fspath(settings.vault))
    else:
        state_folder(Path(home), settings.vault)  # asks, where it is not clear which vault that is
    for folder in (home, os.fspath(settings.vault)):
        _refuse_full_disk(folder)
    if running is None or settings.port in {0, running["port"]}:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        socket.create_server((settings.host, settings.port), family=family).close()
    except OSError as error:
        reason = f"port {settings.port} cannot be used ({error.strerror or error})"
        goes_on = "so the daemon that is running goes on; choose another port"
        raise DaemonError(f"{reason}, {goes_on}") from error


@command("stop", "stop the daemon")
def stop(_options: Namespace) -> None:
    """Stop the daemon. Agents at work are ended; their tasks are done again at the next start."""
    home = home_of(os.environ)
    record = _settled(home)
    if record is None:
        raise NoDaemonError("no daemon is running, so there is nothing to stop")
    if not _end(home, record):
        how = f"`kill -9 {record['pid']}` is safe, nothing is lost"
        raise DaemonError(f"the daemon (pid {record['pid']}) does not end; {how}")
    say("Stopped.")


@command("restart", "stop, then start again", _WHERE)
def restart(options: Namespace) -> int:
    """Stop the daemon if it runs, and start it again with the settings as they are now. What would
    keep the new one from starting leaves the old one running; one that runs in a terminal or as a
    service starts again there.
    """
    home = home_of(os.environ)
    record = _settled(home)
    flagged = record.get("flags") if record is not None else None
    flags = flagged if isinstance(flagged, dict) else {}
    vault = options.vault if options.vault is not None else flags.get("vault")
    port = options.port if options.port is not None else flags.get("port")
    settings = _load(vault, port)
    if record is not None:
        _refuse(home, settings, record)
        if flags.get("foreground") and options.vault is None and options.port is None:
            return _greet(restart_in_place(record))
        if not _end(home, record):
            say(f"The daemon (pid {record['pid']}) does not end, so it is killed; nothing is lost.")
            _signal(record, signal.SIGKILL)
            _wait_until(lambda: not is_locked(home), float("inf"))
    try:
        return start_in_background(vault, port)
    except ParachuteError as error:
        if record is None or is_locked(home):
            raise
        none = "The earlier daemon has ended, so none is running: mend this, then `parachute start`"
        raise DaemonError(f"{error.message}\n{none}.") from error


def restart_in_place(record: dict[str, object]) -> dict[str, object]:
    ask("POST /supervisor/server/restart")

    def returned() -> dict[str, object] | None:
        now = found_daemon()
        return None if now is None or now["started"] == record["started"] else now

    now = _wait_until(returned)
    if not now:
        where = "its terminal, or `parachute service status` and `parachute logs`, say why"
        raise DaemonError(f"the daemon has not come back yet; {where}")
    return now


@command("logs", "the daemon's log", JSON)
def logs(options: Namespace) -> None:
    """Show the end of the daemon's log.

    -f/--follow  keep showing new lines
    -n/--lines N=50  how many lines (default: 50)
    """
    path = Path(home_of(os.environ), "logs", "daemon.log")
    if not path.exists():
        raise ParachuteError(f"there is no log yet at {path}")
    follow = ["-F"] if options.follow else []
    words = ["tail", "-n", str(max(0, options.lines)), *follow, os.fspath(path)]
    if options.json:
        sys.stdout.flush()
        os.execvp("tail", words)  # noqa: S606, S607  it is everywhere and knows rotation; in our place, it is never left behind
    from parachuted.cli.logs import read_line

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with subprocess.Popen(  # noqa: S603
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
    ) as tail:
        try:
            for line in tail.stdout or ():
                say_text(read_line(line))
                sys.stdout.flush()
        finally:
            tail.kill()


def _greet(record: dict[str, object]) -> int:
    address = f"http://{record['host']}:{record['port']}"
    say(f"Started: pid {record['pid']}, {address}, watching {record['vault']}.")
    sys.stdout.flush()
    say(f"Agent: {ask('GET /api/health?detailed=true')['agent']['reason']}.")
    say("The page: `parachute open` opens it in a browser, signed in.")
    return 0


def _refuse_full_disk(folder: str) -> None:
    """Raise DaemonError where a daemon could not even say what is wrong."""
    there = Path(folder)
    while not there.exists():
        there = there.parent
    disk = os.statvfs(there)
    free = disk.f_bavail * disk.f_frsize
    if free < _LEAST_ROOM or (disk.f_files > 0 and disk.f_favail == 0):
        left = f"{free // 1024} KB and {disk.f_favail} files free"
        room = f"make room for {_LEAST_ROOM >> 20} MB there, then start again"
        raise DaemonError(f"the disk of {folder} is full ({left}); {room}")


def _wait(home: str, process: subprocess.Popen[bytes]) -> dict[str, object] | None:
    def answers() -> dict[str, object] | str | None:
        found = running_daemon(home)
        is_ours = found is not None and found["pid"] == process.pid
        return found if is_ours else None if process.poll() is None else "ended"

    found = _wait_until(answers)
    if found is None:
        still = f"The daemon (pid {process.pid}) is still reading the vault"
        say(f"{still}; Ctrl-C leaves it to that.")
        sys.stdout.flush()
        found = _wait_until(answers, float("inf"))
    return found if isinstance(found, dict) else None


def _settled(home: str) -> dict[str, object] | None:
    """The daemon's record, None without one. Waits for one that is starting, or ending."""
    found = _wait_until(lambda: running_daemon(home) or not is_locked(home))
    if not found:
        what = f"a daemon for {home} is still starting or ending"
        raise DaemonError(f"{what}; try again when `parachute status` answers")
    return found if isinstance(found, dict) else None


def _end(home: str, record: dict[str, object]) -> bool:
    _signal(record, signal.SIGTERM)
    return bool(_wait_until(lambda: not is_locked(home)))


def _signal(record: dict[str, object], number: signal.Signals) -> None:
    pid = int(str(record["pid"]))
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it has just ended by itself
    except PermissionError as error:
        raise DaemonError(f"the daemon (pid {pid}) is another user's") from error


def _wait_until(condition: Callable[[], _T], patience_s: float = _PATIENCE_S) -> _T:
    deadline = time.monotonic() + patience_s
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(_STEP_S)
    return found
