"""Foreground: a daemon in this very process, what it says, and where its log goes."""

from __future__ import annotations

import asyncio
import importlib
import logging
import logging.handlers
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parachuted.cli.logs import JsonLines, PlainLines
from parachuted.cli.show import count, say
from parachuted.config import Settings, home_folder
from parachuted.events import Event
from parachuted.events.watched_vault import WatchedVault
from parachuted.texts.redact import RedactedLines

if TYPE_CHECKING:
    from parachuted.daemon import Daemon
    from parachuted.events import ChangeListeners

_LOG_BYTES = 5 << 20
_LINES = {
    "file.created": "{by} made {path}",
    "file.modified": "{by} changed {path}",
    "file.moved": "{by} moved {from} to {path}",
    "file.deleted": "{by} removed {path}",
    "watch.declared": "{watcher} now watches {patterns}",
    "task.queued": "  {watcher} will look at {what}",
    "run.finished": "  {watcher}: {outcome}, {reason}",
    "run.undone": "taken back: {paths}",
    "budget.exceeded": "  {watcher} waits: the budget {budget} of {limit} is used up",
    "vault.problem": "problem with {subject}: {problem}",
}
_NO_MODULES = (
    "Modules: none. `parachute modules install parachute://chat --trust trusted` adds "
    "conversations, `parachute://daily` a journal, `parachute://brain` people and projects."
)


class _LogFile(logging.handlers.RotatingFileHandler):
    """The log. Where the disk refuses a line, the screen says so once, without a traceback."""

    _has_complained = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  as logging calls it
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
    """Run a daemon until SIGTERM or Ctrl-C; `quiet`: only the log tells. Raises DaemonError."""
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
    env = find_login_environment(os.environ, home)
    chosen = choose_agent(settings, watched.folder, env, Path.home())
    return Daemon(settings, home, chosen, watched=watched)


def _greet(daemon: Daemon, settings: Settings) -> None:
    watches = daemon.loop.watches
    watchers = watches.all()
    files = count(len(daemon.watched.index), "file")
    say(f"parachuted watches {settings.vault}: {files}, {count(len(watchers), 'watcher')}.")
    for declaration in watchers[:5]:
        patterns = ", ".join(pattern.text for pattern in declaration.patterns)
        say(f"  {declaration.watcher} watches {patterns}")
    say(f"Agent: {daemon.agents.chosen.reason}.")
    if not (settings.vault / "Modules").is_dir() and not daemon.modules.trust.entries():
        say(_NO_MODULES)
    address = f"http://{settings.host}:{daemon.port}/"
    say(f"Page and API: {address}; `parachute open` opens the page in a browser, signed in.")
    watched = next((path for watch in watchers for path in watches.watched_by(watch.watcher)), None)
    if watched is None:
        how = "`parachute watches` shows who watches what"
        say(f"Next: give a note a `watch:` list in its frontmatter; {how}. Ctrl-C ends this.")
    else:
        woken = next(iter(watches.downstream(watched)), "")
        file = settings.vault / watched
        say(f"Next: edit {file} in any editor, save, and see {woken} follow. Ctrl-C ends this.")
    sys.stdout.flush()


def _narrate(events: Sequence[Event]) -> None:
    at = f"{events[0].timestamp.astimezone():%H:%M:%S}"
    for event in events:
        for line in _lines_of(event.event, event.data):
            say(f"{at} {line}")
    sys.stdout.flush()


def _lines_of(event: str, data: Mapping[str, object]) -> Iterator[str]:
    line = _LINES.get(event)
    is_over = data.get("problem", "") is None or not data.get("patterns", True)
    if line is not None and not is_over:
        is_all = data.get("paths") == [data.get("watcher")]
        texts = {"what": _joined(data.get("paths")), **{key: _joined(data[key]) for key in data}}
        yield line.format_map({**texts, "what": "all that it watches"} if is_all else texts)
    if event == "watch.declared":
        for problem in (*_texts(data["problems"]), *_texts(data["unmatched"])):
            yield f"problem with what {data['watcher']} watches: {problem}"


def _joined(value: object) -> str:
    return ", ".join(_texts(value)) if isinstance(value, list) else str(value)


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


def _begin_logging(home: Path, level: str, *, quiet: bool) -> None:
    path = home / "logs" / "daemon.log"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    to_file = _LogFile(
        path, maxBytes=_LOG_BYTES, backupCount=3, encoding="utf-8", errors="backslashreplace"
    )
    to_file.setFormatter(RedactedLines(JsonLines()))
    to_screen = logging.StreamHandler()
    lines = JsonLines() if "JOURNAL_STREAM" in os.environ else PlainLines()
    to_screen.setFormatter(RedactedLines(lines))
    to_screen.setLevel(logging.WARNING)
    logging.basicConfig(level=level.upper(), handlers=[to_file] if quiet else [to_file, to_screen])
    if level.upper() == "INFO":  # they write lines for each call of a client, each schedule's run
        for library in ("mcp", "apscheduler"):
            logging.getLogger(library).setLevel(logging.WARNING)
