"""Foreground: a daemon in this very process, what it says in the terminal, and where its log
goes.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parachuted.cli.logs import JsonLines, PlainLines
from parachuted.cli.show import count, say
from parachuted.config import Settings, home_folder
from parachuted.events import Event
from parachuted.events.watched_vault import WatchedVault
from parachuted.redact import RedactedLines

if TYPE_CHECKING:
    from parachuted.daemon import Daemon
    from parachuted.events import ChangeListeners

_LOG_BYTES = 5 << 20
_LINES = {
    "file.created": "{by} made {path}",
    "file.modified": "{by} changed {path}",
    "file.deleted": "{by} removed {path}",
    "task.queued": "  {watcher} will look at {what}",
    "run.finished": "  {watcher}: {outcome}, {reason}",
    "run.undone": "taken back: {paths}",
    "budget.exceeded": "  {watcher} waits: the budget {budget} of {limit} is used up",
    "vault.problem": "problem with {subject}: {problem}",
}


class _LogFile(logging.handlers.RotatingFileHandler):
    """The log.

    Where the disk refuses a line, the screen says so, once, without a traceback of the logging's
    own.
    """

    _has_complained = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  as logging calls it
        """Say that the log is not written, and why."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._has_complained:
            self._has_complained = True
            sys.stderr.write(
                f"parachute: the log {self.baseFilename} cannot be written ({error.strerror}); "
                "make room there\n"
            )


def serve(settings: Settings, *, quiet: bool, flags: Mapping[str, object]) -> None:
    """Run a daemon until SIGTERM or Ctrl-C.

    `quiet`: what happens goes to the log alone. Raises DaemonError when it cannot begin.
    """
    home = home_folder(os.environ)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    _begin_logging(home, settings.log_level, quiet=quiet)
    if asyncio.run(_serve(settings, home, quiet=quiet, flags=flags)):
        sys.stdout.flush()
        os.execv(sys.executable, sys.orig_argv)  # noqa: S606  the same command, as the same process, so that its supervisor sees no end


async def _serve(
    settings: Settings, home: Path, *, quiet: bool, flags: Mapping[str, object]
) -> bool:
    """Whether it restarts. The vault is watched first; then all the rest is loaded."""
    loaded: list[Daemon] = []

    async def load() -> ChangeListeners:
        loaded.append(await _load(watched))
        return await loaded[0].prepare()

    watched = WatchedVault(settings, home, flags=flags)
    try:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, watched.stopping.set)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        if not quiet:
            watched.bus.subscribe_to_batches(_narrate)
        await watched.begin(load)
        await watched.load()
    except BaseException:
        await watched.close()
        raise
    (daemon,) = loaded
    await daemon.run(lambda: None if quiet else _greet(daemon, settings))
    if not quiet:
        say("Restarting." if daemon.is_to_begin_again else "Stopped.")
    return daemon.is_to_begin_again


async def _load(watched: WatchedVault) -> Daemon:
    await asyncio.to_thread(importlib.import_module, "parachuted.daemon")
    from parachuted.agents.choice import choose_agent
    from parachuted.agents.credentials import find_login_environment
    from parachuted.daemon import Daemon

    settings, home = watched.settings, watched.home
    chosen = choose_agent(
        settings, watched.folder, find_login_environment(os.environ, home), Path.home()
    )
    return Daemon(settings, home, chosen, watched=watched)


def _greet(daemon: Daemon, settings: Settings) -> None:
    watchers = daemon.loop.watches.all()
    say(
        f"parachuted watches {settings.vault}: {count(len(daemon.watched.index), 'file')}, "
        f"{count(len(watchers), 'watcher')}."
    )
    for declaration in watchers[:5]:
        say(
            f"  {declaration.watcher} watches "
            f"{', '.join(pattern.text for pattern in declaration.patterns)}"
        )
    say(f"Agent: {daemon.agents.chosen.reason}.")
    if not (settings.vault / "Modules").is_dir() and not daemon.modules.trust.entries():
        say(
            "Modules: none. `parachute modules install parachute://chat --trust trusted` adds "
            "conversations, `parachute://daily` a journal, `parachute://brain` people and projects."
        )
    say(
        f"Page and API: http://{settings.host}:{daemon.port}/; `parachute open` opens the page "
        "in a browser, signed in."
    )
    watched = next(
        (path for one in watchers for path in daemon.loop.watches.watched_by(one.watcher)), None
    )
    if watched is not None:
        woken = next(iter(daemon.loop.watches.downstream(watched)), "")
        say(
            f"Next: edit {settings.vault / watched} in any editor, save, and see {woken} follow. "
            "Ctrl-C ends this."
        )
    else:
        say(
            "Next: give a note a `watch:` list in its frontmatter; `parachute watches` shows who "
            "watches what. Ctrl-C ends this."
        )
    sys.stdout.flush()


def _narrate(events: Sequence[Event]) -> None:
    """What happens, in a line each, for a person at the terminal."""
    at = f"{events[0].timestamp.astimezone():%H:%M:%S}"
    for event in events:
        _narrate_event(event, at)
    sys.stdout.flush()


def _narrate_event(event: Event, at: str) -> None:
    data, line = event.data, _LINES.get(event.event)
    if event.event == "watch.declared":
        line = "{watcher} now watches {patterns}" if data["patterns"] else None
    if line is not None and not (event.event == "vault.problem" and data["problem"] is None):
        shown = {
            key: ", ".join(map(str, value)) if isinstance(value, list) else value
            for key, value in data.items()
        }
        shown["what"] = (
            "all that it watches"
            if data.get("paths") == [data.get("watcher")]
            else shown.get("paths")
        )
        say(f"{at} {line.format(**shown)}")
    for problem in (
        (*data["problems"], *data["unmatched"]) if event.event == "watch.declared" else ()  # type: ignore[misc]
    ):
        say(f"{at} problem with what {data['watcher']} watches: {problem}")


def _begin_logging(home: Path, level: str, *, quiet: bool) -> None:
    path = home / "logs" / "daemon.log"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    to_file = _LogFile(
        path, maxBytes=_LOG_BYTES, backupCount=3, encoding="utf-8", errors="backslashreplace"
    )
    to_file.setFormatter(RedactedLines(JsonLines()))
    to_screen = logging.StreamHandler()
    to_screen.setFormatter(
        RedactedLines(JsonLines() if "JOURNAL_STREAM" in os.environ else PlainLines())
    )
    to_screen.setLevel(logging.WARNING)
    logging.basicConfig(level=level.upper(), handlers=[to_file] if quiet else [to_file, to_screen])
    if level.upper() == "INFO":  # they write lines for each call of a client, each schedule's run
        for library in ("mcp", "apscheduler"):
            logging.getLogger(library).setLevel(logging.WARNING)
